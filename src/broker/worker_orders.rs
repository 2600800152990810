//! Orders of operators to a whole worker: to claim nothing more, or to stop.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::milliseconds;
use crate::protocol::info::WorkerOrder;

/// An order, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderBy {
    pub(crate) order: WorkerOrder,
    pub(crate) by: String,
}

impl OrderBy {
    /// The orders in these fields.
    pub(super) fn all_of(fields: &[(String, String)]) -> Vec<Self> {
        let order = |name: &str| {
            [WorkerOrder::Quiet, WorkerOrder::Stop].into_iter().find(|order| order.name() == name)
        };
        let read = |(name, by): &(String, String)| Some(Self { order: order(name)?, by: by.clone() });
        fields.iter().filter_map(read).collect()
    }
}

impl Broker {
    /// Leaves an order for a worker, which takes it with its next heartbeat. It expires after this time.
    pub(crate) async fn order_worker(
        &self,
        orders_key: &str,
        order: WorkerOrder,
        by: &str,
        expiry: Duration,
    ) -> Result<(), BrokerError> {
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("HSET").arg(orders_key).arg(order.name()).arg(by);
        pipe.cmd("PEXPIRE").arg(orders_key).arg(milliseconds(expiry));
        let written: Result<Value, _> = pipe.query_async(&mut self.commands.clone()).await;
        written
            .map(drop)
            .map_err(|error| BrokerError::from_redis("order_worker", &error).of_key(Some(orders_key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_told_from_kill_requests() {
        let fields = [("q:w:0", "da39 7 ann"), ("stop", "ann"), ("sing", "ann"), ("quiet", "bob")];
        let fields = fields.map(|(name, by)| (name.to_owned(), by.to_owned()));
        let orders: Vec<_> = OrderBy::all_of(&fields).into_iter().map(|by| (by.order, by.by)).collect();
        assert_eq!(orders, [(WorkerOrder::Stop, "ann".into()), (WorkerOrder::Quiet, "bob".into())]);
    }
}
