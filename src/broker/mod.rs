//! The only room that knows Redis: one method for each move and script, with the same order of keys.

mod address;
mod commands;
mod connection;
mod enqueue;
mod error;
mod lease;
mod line;
mod orders;
mod queue;
mod read;
mod reader;
mod recovery;
mod reply;
mod script;
#[cfg(feature = "tls")]
mod tls;
mod wait;
#[cfg(not(feature = "tls"))]
mod without_tls;

pub(crate) use self::connection::{Broker, Target};
pub(crate) use self::enqueue::Ready;
pub use self::error::{BrokerError, BrokerErrorKind};
pub(crate) use self::lease::{LeaseKeeper, LeaseKeys, ReconcileRequest, Reconciled};
pub(crate) use self::orders::{Order, OrderAnswer, OrderRequest, Ordered, digest};
pub(crate) use self::queue::{
    Buried, BuryRequest, ClaimRequest, Claimed, MAX_BATCH, PickUpRequest, Place, Token,
};
pub(crate) use self::read::{DeadEntry, ServerFacts};
pub(crate) use self::recovery::{DeadLimits, DeathLimits};
#[cfg(feature = "testing")]
pub(crate) use self::script::digest_of;
pub(crate) use self::wait::Waiter;
#[cfg(not(feature = "tls"))]
use self::without_tls as tls;
