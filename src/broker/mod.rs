//! The only room that knows Redis: one method for each transition and read, with the order of keys of its script.

mod address;
#[cfg(feature = "web")]
mod audit;
mod batches;
mod cancellation;
mod cause;
mod channels;
mod classify;
mod commands;
mod connection;
mod error;
mod finished;
mod flow_keys;
mod flows;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(any(feature = "worker", feature = "inspect"))]
mod history;
mod key_kind;
mod kill_requests;
mod lease;
mod limits;
mod outage;
#[cfg(feature = "periodic")]
mod periodic;
#[cfg(any(feature = "worker", feature = "gateway"))]
mod published;
mod raw_connection;
mod read;
mod reader;
mod record;
mod reply;
mod scan;
mod script;
mod server;
mod socket;
mod sweep;
mod target;
#[cfg(feature = "inspect")]
mod timetable;
#[cfg(feature = "tls")]
mod tls;
mod token;
mod transitions;
mod wait;
#[cfg(not(feature = "tls"))]
mod without_tls;
mod worker_orders;
mod wrong_key;

#[cfg(feature = "web")]
pub(crate) use self::audit::AuditLog;
pub(crate) use self::batches::Batch;
pub(crate) use self::cancellation::cancelled_by;
pub(crate) use self::channels::{Channels, Notice};
pub(crate) use self::connection::Broker;
pub use self::error::{BrokerError, BrokerErrorKind};
#[cfg_attr(not(feature = "worker"), allow(unused_imports))]
pub(crate) use self::finished::ListedCall;
pub(crate) use self::flow_keys::FlowKeys;
pub(crate) use self::flows::{Delivery, FlowInfo, NodeState, Outcome};
pub(crate) use self::key_kind::KeyKind;
pub(crate) use self::kill_requests::{KillAnswer, KillRequest, digest};
pub(crate) use self::lease::{LeaseKeeper, LeaseKeys};
pub(crate) use self::limits::LimitState;
#[cfg(feature = "periodic")]
pub(crate) use self::periodic::{PutTask, StoredTask};
pub(crate) use self::read::StreamEntry;
pub(crate) use self::record::{Record, RecordEnd, RecordEnds, RecordListener};
pub(crate) use self::scan::{Pace, ScannedQueues};
#[cfg(feature = "testing")]
pub(crate) use self::script::digest_of;
pub use self::script::script_text;
pub(crate) use self::server::ServerFacts;
pub(crate) use self::target::Target;
pub(crate) use self::token::Token;
pub(crate) use self::transitions::{
    Bound, Buried, BuryRequest, ClaimRequest, Claimed, DeadLimits, DeathLimits, Ended, Entry, Filling,
    FinishedCall, ForeignLists, KillAdded, MAX_ACQUIRED, MAX_BATCH, MAX_DEFERRED, MAX_FILLED, MAX_FINISHED,
    MAX_JOINED, MAX_SCHEDULED, MAX_SUBMITTED, MAX_WAKING, NewKillRequest, Owned, Paused, PickUpRequest,
    Place, Promoted, Ready, ReconcileRequest, Reconciled, RetryLaterRequest, Revived, RunNotes, Scheduled,
    SplitItem, SplitRequest, Started, Submission, Submitted, ToDo, ToDoKind, Verdict, Waking,
};
#[cfg(feature = "periodic")]
pub(crate) use self::transitions::{Change, Changed, DueTask, MAX_TICK_CALLS, Tick, Ticked};
pub(crate) use self::wait::Waiter;
#[cfg(not(feature = "tls"))]
use self::without_tls as tls;
#[cfg(feature = "worker")]
pub(crate) use self::worker_orders::OrderBy;
