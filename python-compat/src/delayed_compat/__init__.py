"""Call Rust tasks from Python, through the queues of the original package `delayed`."""

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
from .foreign import GoTask, PyTask
from .handle import AsyncHandle, Handle
from .queue import AsyncQueue, Queue
from .task import RustTask

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
    "CompatError",
    "Conflict",
    "EnqueueError",
    "Fate",
    "GoTask",
    "Handle",
    "Held",
    "InvalidTaskError",
    "PyTask",
    "Queue",
    "QueueFullError",
    "Replaced",
    "ResultError",
    "ResultTooLargeError",
    "RustTask",
    "WaitError",
    "delayed",
]
