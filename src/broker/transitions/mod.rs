//! One file for each transition in the life of a message: its request, the keys and arguments of its script in the order of
//! the script's header, and the reading of the reply.
//!
//! `balance.rs` calls `lua/balance.lua`, and so on; an enqueue alone is a transaction.

mod acquire;
mod balance;
mod beat;
mod begin;
mod bury;
mod cancel;
mod claim;
mod close;
mod defer;
#[cfg(feature = "periodic")]
mod define;
mod enqueue;
mod fill;
mod finish;
mod join;
mod kill;
mod note;
mod park;
mod pause;
mod pick_up;
mod promote;
mod purge;
mod put_back;
mod reconcile;
mod renew;
mod reopen;
mod requeue_lost;
mod resign;
mod resume;
mod retry;
mod retry_later;
mod revive;
mod run_now;
mod schedule;
mod split;
mod start;
mod submit;
#[cfg(feature = "periodic")]
mod tick;
mod unpark;
mod wake;

pub(crate) use self::acquire::{MAX_ACQUIRED, Verdict};
pub(crate) use self::beat::ForeignLists;
pub(crate) use self::bury::{Buried, BuryRequest, DeadLimits};
pub(crate) use self::claim::{ClaimRequest, Claimed, MAX_BATCH};
pub(crate) use self::defer::MAX_DEFERRED;
#[cfg(feature = "periodic")]
pub(crate) use self::define::{Change, Changed, MAX_DEFINED};
pub(crate) use self::enqueue::Ready;
pub(crate) use self::fill::{Filling, MAX_FILLED};
pub(crate) use self::finish::{FinishedCall, MAX_FINISHED};
pub(crate) use self::join::{Ended, MAX_JOINED, ToDo, ToDoKind};
pub(crate) use self::kill::{KillAdded, NewKillRequest};
pub(crate) use self::note::RunNotes;
pub(crate) use self::pause::Paused;
pub(crate) use self::pick_up::PickUpRequest;
pub(super) use self::pick_up::pick_up;
#[cfg(feature = "periodic")]
pub(crate) use self::promote::DueTask;
pub(crate) use self::promote::Promoted;
pub(crate) use self::put_back::Place;
pub(crate) use self::reconcile::{Owned, ReconcileRequest, Reconciled};
pub(crate) use self::requeue_lost::DeathLimits;
pub(crate) use self::retry_later::{RetryLaterRequest, Scheduled};
pub(crate) use self::revive::Revived;
pub(crate) use self::schedule::{Entry, MAX_SCHEDULED};
pub(crate) use self::split::{SplitItem, SplitRequest};
pub(crate) use self::start::Started;
pub(crate) use self::submit::{Bound, MAX_SUBMITTED, Submission, Submitted};
#[cfg(feature = "periodic")]
pub(crate) use self::tick::{MAX_TICK_CALLS, Tick, Ticked};
pub(super) use self::unpark::MAX_UNPARKED;
pub(crate) use self::wake::{MAX_WAKING, Waking};
