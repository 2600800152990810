"""Plans what is sent for many tasks, and keeps what became of each: without any I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Union
from uuid import UUID

import redis

from .errors import AlreadyScheduledError, EnqueueError, Fate, InvalidTaskError, shown
from .scripts import ENQUEUE_MANY, SCHEDULE
from .task import GoTask, PyTask, RustTask, entry_of

__all__ = ["Bulk", "Request", "Task", "keys_of_timetable"]

MAX_CHUNK = 100_000
"""Redis runs nothing else while it pushes a chunk."""

MAX_SCHEDULED = 500
"""`lua/schedule.lua` takes no more calls at once."""

QUEUES = "delayed_queues"
"""The set of the queues in which sweepers look for calls that are due."""

MAX_QUEUE_NAME = 200
SUFFIXES = (
    *("_noti", "_hand", "_processing", "_workers", "_dead", "_deaths", "_sweep"),
    *("_due", "_later", "_timetable", "_paused", "_scheduled", "_cancelled", "_done"),
)
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\\s"
)

Task = Union[GoTask, PyTask, RustTask]
Argument = Union[bytes, str, int]


@dataclass(frozen=True)
class Request:
    """One `EVAL`: the places of the tasks that it enqueues, and its arguments."""

    places: Sequence[int]
    arguments: Sequence[Argument]
    is_schedule: bool


class Bulk:
    """Tasks for one queue that were checked and serialised, and what became of each so far.

    What is enqueued at once is sent first, in its order; then what is scheduled.

    Raises:
        InvalidTaskError: When a task cannot be sent, or the name of the queue is none in which
            calls can be scheduled.
        ValueError: When `chunk` is no whole number from 1 to 100,000.
    """

    def __init__(self, queue: str, tasks: Iterable[Task], chunk: int) -> None:
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= MAX_CHUNK:
            raise ValueError(f"chunk is {chunk!r}; give a whole number from 1 to {MAX_CHUNK}")
        self._queue, self._chunk = queue, chunk
        self._messages: list[tuple[int, bytes]] = []
        self._entries: list[tuple[int, tuple[bytes, str, bytes]]] = []
        for place, task in enumerate(tasks):
            entry = entry_of(task) if isinstance(task, RustTask) else None
            if entry:
                self._entries.append((place, entry))
            else:
                self._messages.append((place, _message(task, place)))
        if self._entries:
            keys_of_timetable(queue)
        self.total = len(self._messages) + len(self._entries)
        self._fates = [Fate.NOT_APPLIED] * self.total
        self._refused: AlreadyScheduledError | None = None

    @property
    def messages(self) -> list[bytes]:
        """What is to be enqueued at once."""
        return [message for _, message in self._messages]

    @property
    def has_scheduled(self) -> bool:
        """Whether there are calls for the timetable, so that sweepers have to know the queue."""
        return bool(self._entries)

    def requests(self) -> Iterator[Request]:
        """Yield what to send, in order; each is applied whole or not at all, but for ids known."""
        queue, messages, entries = self._queue, self._messages, self._entries
        for part in _parts(messages, self._chunk):
            sent = [message for _, message in part]
            arguments = (ENQUEUE_MANY, 2, queue, f"{queue}_noti", *sent)
            yield Request([place for place, _ in part], arguments, is_schedule=False)
        for later in _parts(entries, min(self._chunk, MAX_SCHEDULED)):
            flat = [argument for _, entry in later for argument in entry]
            head = (SCHEDULE, 3, *keys_of_timetable(queue), f"{queue}:due")
            yield Request([place for place, _ in later], (*head, *flat), is_schedule=True)

    def applied(self, request: Request, reply: Any) -> None:
        """Note that a request was answered."""
        dues = reply if request.is_schedule else [1] * len(request.places)
        ids = {place: entry[0] for place, entry in self._entries} if 0 in dues else {}
        for place, due in zip(request.places, dues):
            if due:
                self._fates[place] = Fate.APPLIED
            elif not self._refused:
                self._refused = AlreadyScheduledError(UUID(bytes=ids[place]), self._queue)

    def failed(self, request: Request | None, error: Exception) -> EnqueueError:
        """Return the error to raise; `request`: the one that may have been applied all the same."""
        for place in request.places if request else ():
            self._fates[place] = Fate.IN_DOUBT
        applied, in_doubt = (self._fates.count(fate) for fate in (Fate.APPLIED, Fate.IN_DOUBT))
        fates = self._fates if self._entries else None
        return EnqueueError(applied, in_doubt, self.total, str(error), fates)

    def check(self) -> None:
        """Raise when the timetable had an id already; all else was sent."""
        if self._refused:
            raise self.failed(None, self._refused) from self._refused

    def check_one(self) -> None:
        """Raise when the timetable had the id of the only call already."""
        if self._refused:
            raise self._refused


def is_refusal(error: Exception) -> bool:
    """Whether Redis said no, so that certainly nothing was applied."""
    return isinstance(error, (redis.ResponseError, redis.BusyLoadingError))


def keys_of_timetable(queue: str) -> tuple[str, str, str]:
    """Return the keys of a queue's timetable, as the scripts take them.

    Raises:
        InvalidTaskError: When no Rust worker can serve a queue of that name.
    """
    problem = None
    if not isinstance(queue, str) or not queue:
        problem = "is no text of at least one character"
    elif len(queue.encode(errors="replace")) > MAX_QUEUE_NAME:
        problem = f"has more than {MAX_QUEUE_NAME} bytes"
    elif _HIDDEN.search(queue):
        problem = "has a space or a hidden character in it"
    elif queue == QUEUES or queue.endswith(SUFFIXES):
        problem = "is, or may be, that of a key beside a queue"
    if problem:
        raise InvalidTaskError(
            f"the queue name {shown(queue)} {problem}: "
            "no Rust worker can serve it; use another name"
        )
    return f"{queue}_due", f"{queue}_later", f"{queue}_timetable"


def _parts(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _message(task: Any, at: int) -> bytes:
    if not isinstance(task, (GoTask, PyTask, RustTask)):
        raise InvalidTaskError(
            f"task {at} is a {type(task).__qualname__}; give a RustTask, a PyTask or a GoTask"
        )
    try:
        message = task.serialize()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTaskError(
            f"task {at} ({task._func_path!r}) cannot be serialised: {error}"
        ) from error
    if not message:
        raise InvalidTaskError(f"task {at} ({task._func_path!r}) has no serialised form")
    return message
