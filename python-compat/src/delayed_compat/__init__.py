"""Call Rust tasks from Python, through the queues of the original package `delayed`."""

from .backoff import Backoff
from .delay import delayed
from .errors import AlreadyScheduledError, CompatError, EnqueueError, Fate, InvalidTaskError
from .queue import AsyncQueue, Queue
from .task import GoTask, PyTask, RustTask

__all__ = [
    "AlreadyScheduledError",
    "AsyncQueue",
    "Backoff",
    "CompatError",
    "EnqueueError",
    "Fate",
    "GoTask",
    "InvalidTaskError",
    "PyTask",
    "Queue",
    "RustTask",
    "delayed",
]
