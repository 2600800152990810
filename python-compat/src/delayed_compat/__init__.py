"""Call Rust tasks from Python, through the queues of the original package `delayed`."""

from . import limits
from .backoff import Backoff
from .call_state import CallState
from .conflict import Conflict, Held, Replaced
from .delay import delayed
from .errors import (
    AlreadyScheduledError,
    CallCancelledError,
    CallExistsError,
    CallExpiredError,
    CallFailedError,
    CallNotFoundError,
    CallTimeoutError,
    CompatError,
    EnqueueError,
    Fate,
    InvalidTaskError,
    QueueFullError,
    ResultError,
    ResultTooLargeError,
    WaitError,
)
from .flow import Chain, Flow, Group, chain, group
from .foreign import GoTask, PyTask
from .handle import AsyncHandle, Handle
from .item import RustItem
from .queue import AsyncQueue, Queue
from .task import RustStep, RustTask

__all__ = [
    "AlreadyScheduledError",
    "AsyncHandle",
    "AsyncQueue",
    "Backoff",
    "CallCancelledError",
    "CallExistsError",
    "CallExpiredError",
    "CallFailedError",
    "CallNotFoundError",
    "CallState",
    "CallTimeoutError",
    "Chain",
    "CompatError",
    "Conflict",
    "EnqueueError",
    "Fate",
    "Flow",
    "GoTask",
    "Group",
    "Handle",
    "Held",
    "InvalidTaskError",
    "PyTask",
    "Queue",
    "QueueFullError",
    "Replaced",
    "ResultError",
    "ResultTooLargeError",
    "RustItem",
    "RustStep",
    "RustTask",
    "WaitError",
    "chain",
    "delayed",
    "group",
    "limits",
]
