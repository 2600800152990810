//! What is known of deaths? Of those of all messages with the same bytes, and of those of each call by itself.

use super::world::{Message, Seq, Stale, Wire, World};

/// What Redis knows of deaths of processes that owned messages with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Deaths {
    /// The workers that died while they owned one of them.
    pub(crate) processes: Vec<u8>,
    /// Of the first calls that wait: how many workers died while each ran it alone.
    pub(crate) waiting: Vec<u8>,
    /// Slots that own such a call: the same of it, and whether it runs alone.
    pub(crate) owned: Vec<(Wire, u8, bool)>,
}

impl Deaths {
    /// Those of processes that owned some of them.
    pub(crate) fn of(processes: Vec<u8>) -> Self {
        Self { processes, ..Self::default() }
    }

    /// Takes what is known of the call in a slot: how many died of it, and whether it runs alone.
    pub(super) fn take(&mut self, wire: Wire) -> (u8, bool) {
        let at = self.owned.iter().position(|(owner, ..)| *owner == wire);
        let (_, died, runs) = at.map_or((wire, 0, false), |at| self.owned.remove(at));
        (died, runs)
    }

    /// A call goes from a slot to the head of the queue.
    pub(super) fn wait_first(&mut self, died: u8) {
        if died > 0 || !self.waiting.is_empty() {
            self.waiting.insert(0, died);
        }
    }

    /// A slot got the first call that waits.
    pub(super) fn own_first(&mut self, wire: Wire) {
        self.take(wire);
        if !self.waiting.is_empty() {
            let died = self.waiting.remove(0);
            self.owned.push((wire, died, false));
        }
    }
}

impl World {
    /// By what messages with the same bytes are known.
    pub(super) fn digest(&self, message: Message) -> Message {
        if self.alike { 0 } else { message }
    }

    pub(super) fn forget_deaths(&mut self, message: Message) {
        self.deaths.remove(&self.digest(message));
    }

    /// Whether the slot still owned the message that is to begin.
    pub(crate) fn begin(&mut self, worker: usize, seq: Seq, wire: Wire) -> Result<bool, Stale> {
        self.is_next(worker, seq)?;
        let owned = self.owned_by(wire);
        if let Some(message) = owned
            && let Some(deaths) = self.deaths.get_mut(&self.digest(message))
        {
            let (died, _) = deaths.take(wire);
            deaths.owned.push((wire, died, true));
        }
        self.applied(worker, seq);
        Ok(owned.is_some())
    }
}
