"""Plans what is sent for many tasks, and keeps what became of each: without any I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Callable, Union
from uuid import UUID

from delayed.task import GoTask, PyTask

from . import foreign
from .call_state import CallState
from .conflict import Conflict, Held, Replaced
from .errors import (
    AlreadyScheduledError,
    CallExistsError,
    EnqueueError,
    Fate,
    InvalidTaskError,
    QueueFullError,
    shown,
)
from .item import MAX_FILLED, RustItem, fillings
from .link import Argument
from .scripts import ENQUEUE_MANY, FILL, SCHEDULE, SUBMIT
from .task import Bound, RustTask, entry_of, submission_of

__all__ = ["Bulk", "Request", "Task", "keys_of_timetable"]

MAX_CHUNK = 100_000
"""Redis runs nothing else while it pushes a chunk."""

MAX_SCHEDULED = 500
"""`lua/schedule.lua` takes no more calls at once."""

MAX_SUBMITTED = 100
"""`lua/submit.lua` takes no more calls at once."""

QUEUES = "delayed_queues"
"""The set of the queues in which sweepers look for calls that are due."""

MAX_QUEUE_NAME = 200
SUFFIXES = (
    *("_noti", "_hand", "_processing", "_workers", "_dead", "_deaths", "_sweep"),
    *("_due", "_later", "_timetable", "_paused", "_parked", "_scheduled", "_cancelled", "_done"),
    *("_finished", "_periodic", "_outbox", "_flows"),
)
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\\s"
)

MAX_LETTERS = 100_000
"""Dead letters of a queue that are kept when the oldest message of a full queue becomes one."""

MAX_AGE = 90 * 24 * 60 * 60 * 1000
"""For how many milliseconds they are kept."""

Task = Union[GoTask, PyTask, RustTask, RustItem]


class _Kind(Enum):
    ENQUEUE = 1
    SCHEDULE = 2
    SUBMIT = 3
    FILL = 4


@dataclass(frozen=True)
class Request:
    """One `EVAL`: the places of the tasks that it enqueues, and its arguments."""

    kind: _Kind
    places: Sequence[int]
    arguments: Sequence[Argument]


class Bulk:
    """Tasks for one queue that were checked and serialised, and what became of each so far.

    What is enqueued at once is sent first, in its order; then what is scheduled; then what has an
    id of its sender, keeps a record, is unique, or has `front` or `max_len`; then items of batches.

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
        self._entries: list[tuple[int, Sequence[Argument]]] = []
        self._submissions: list[tuple[int, Bound, Sequence[Argument]]] = []
        self._items: list[tuple[int, RustItem]] = []
        for place, task in enumerate(tasks):
            if isinstance(task, RustItem):
                self._items.append((place, task))
                continue
            has_options = isinstance(task, (RustTask, foreign.GoTask, foreign.PyTask))
            entry = _encoded(task, place, entry_of) if has_options else None
            submission = _encoded(task, place, submission_of) if has_options else None
            if submission:
                self._submissions.append((place, *submission))
            elif entry:
                self._entries.append((place, entry))
            else:
                self._messages.append((place, _message(task, place)))
        if self.has_scripts:
            keys_of_timetable(queue)
        of_scripts = len(self._entries) + len(self._submissions) + len(self._items)
        self.total = len(self._messages) + of_scripts
        self._fates = [Fate.NOT_APPLIED] * self.total
        self._refused: CallExistsError | QueueFullError | None = None
        self.conflict: tuple[UUID, Conflict] | None = None
        """The call that a unique one lost against or replaced; of several, that of the last."""

    @property
    def messages(self) -> list[bytes]:
        """What is to be enqueued at once."""
        return [message for _, message in self._messages]

    @property
    def has_scripts(self) -> bool:
        """Whether something is for the scripts of Rust: then sweepers have to know the queue."""
        return bool(self._entries or self._submissions or self._items)

    def requests(self) -> Iterator[Request]:
        """Yield what to send, in order; each is applied whole or not at all, but for refusals."""
        queue, due_channel = self._queue, f"{self._queue}:due"
        for part in _parts(self._messages, self._chunk):
            sent = [message for _, message in part]
            arguments: Sequence[Argument] = (ENQUEUE_MANY, 2, queue, f"{queue}_noti", *sent)
            yield Request(_Kind.ENQUEUE, [place for place, _ in part], arguments)
        for later in _parts(self._entries, min(self._chunk, MAX_SCHEDULED)):
            flat = [argument for _, entry in later for argument in entry]
            arguments = (SCHEDULE, 3, *keys_of_timetable(queue), due_channel, *flat)
            yield Request(_Kind.SCHEDULE, [place for place, _ in later], arguments)
        for bound, calls in groupby(self._submissions, lambda submission: submission[1]):
            for part in _parts(list(calls), min(self._chunk, MAX_SUBMITTED)):
                flat = [argument for *_, submission in part for argument in submission]
                timetable, dead = keys_of_timetable(queue), (f"{queue}_dead", f"{queue}_deaths")
                keys = (queue, f"{queue}_noti", *timetable, *dead)
                limits = (MAX_LETTERS if bound.buries else 0, MAX_AGE)
                arguments = (SUBMIT, 7, *keys, due_channel, bound.max_len, *limits, *flat)
                yield Request(_Kind.SUBMIT, [place for place, *_ in part], arguments)
        for added in _parts(self._items, min(self._chunk, MAX_FILLED)):
            due, _, holder = keys_of_timetable(queue)
            batches = fillings(item for _, item in added)
            arguments = (FILL, 4, queue, f"{queue}_noti", due, holder, due_channel, *batches)
            yield Request(_Kind.FILL, [place for place, _ in added], arguments)

    def applied(self, request: Request, reply: Any) -> None:
        """Note that a request was answered."""
        if request.kind in (_Kind.ENQUEUE, _Kind.FILL):
            refusals: Iterable[Any] = [None] * len(request.places)
        elif request.kind is _Kind.SCHEDULE:
            ids = {place: entry[0] for place, entry in self._entries} if 0 in reply else {}
            refusals = [
                None if due else AlreadyScheduledError(_uuid(ids[place]), self._queue)
                for place, due in zip(request.places, reply)
            ]
        else:
            ids = {place: submission[0] for place, _, submission in self._submissions}
            refusals = [
                self._refusal(ids[place], *became) for place, became in zip(request.places, reply)
            ]
        for place, refusal in zip(request.places, refusals):
            if refusal is None:
                self._fates[place] = Fate.APPLIED
            self._refused = self._refused or refusal

    def _refusal(
        self, id: Any, became: int, about: Any = None, state: Any = None
    ) -> CallExistsError | QueueFullError | None:
        """Note what `lua/submit.lua` says of a call, and return the error where it was refused."""
        if became == 1:
            state = CallState.parse(about)
            is_scheduled = state is CallState.SCHEDULED
            error = AlreadyScheduledError if is_scheduled else CallExistsError
            return error(_uuid(id), self._queue, state)
        if became == 2:
            self.conflict = _uuid(about), Held(CallState.parse(state))
        elif became == 3:
            self.conflict = _uuid(about), Replaced()
        return QueueFullError(self._queue, about) if became == 4 else None

    def failed(self, request: Request | None, error: Exception) -> EnqueueError:
        """Return the error to raise; `request`: the one that may have been applied all the same."""
        for place in request.places if request else ():
            self._fates[place] = Fate.IN_DOUBT
        applied, in_doubt = (self._fates.count(fate) for fate in (Fate.APPLIED, Fate.IN_DOUBT))
        fates = self._fates if self.has_scripts else None
        return EnqueueError(applied, in_doubt, self.total, str(error), fates)

    def check(self) -> None:
        """Raise when a call was refused; all else was sent."""
        if self._refused:
            raise self.failed(None, self._refused) from self._refused

    def check_one(self) -> None:
        """Raise when the only call was refused."""
        if self._refused:
            raise self._refused


def keys_of_timetable(queue: str) -> tuple[str, str, str]:
    """Return the keys of a queue's timetable, as the scripts take them.

    Raises:
        InvalidTaskError: When no Rust worker can serve a queue of that name.
    """
    problem = None
    if not isinstance(queue, str) or not queue:
        problem = "is not a text of at least one character"
    elif len(queue.encode(errors="replace")) > MAX_QUEUE_NAME:
        problem = f"has more than {MAX_QUEUE_NAME} bytes"
    elif _HIDDEN.search(queue):
        problem = "contains a space or a hidden character"
    elif queue == QUEUES or queue.endswith(SUFFIXES):
        problem = "is, or may be, the name of another key of a queue"
    if problem:
        raise InvalidTaskError(
            f"the queue name {shown(queue)} {problem}: "
            "no Rust worker can serve it; use another name"
        )
    return f"{queue}_due", f"{queue}_later", f"{queue}_timetable"


def _parts(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _uuid(id: Any) -> UUID:
    return UUID(bytes=id)


def _message(task: Any, at: int) -> bytes:
    if not isinstance(task, (GoTask, PyTask, RustTask)):
        raise InvalidTaskError(
            f"task {at} is a {type(task).__qualname__}; give a RustTask, a PyTask, a GoTask "
            "or a RustItem"
        )
    message: bytes | None = _encoded(task, at, lambda task: task.serialize())
    if not message:
        raise InvalidTaskError(f"task {at} ({task._func_path!r}) has no serialised form")
    return message


def _encoded(task: Any, at: int, encode: Callable[[Any], Any]) -> Any:
    try:
        return encode(task)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTaskError(
            f"task {at} ({task._func_path!r}) cannot be serialised: {error}"
        ) from error
