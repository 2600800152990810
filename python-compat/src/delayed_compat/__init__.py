"""Call Rust tasks from Python, through the original `delayed` package's own queue."""

from .errors import CompatError, EnqueueError, InvalidTaskError
from .queue import Queue
from .task import RustTask

__all__ = ["CompatError", "EnqueueError", "InvalidTaskError", "Queue", "RustTask"]
