"""An item for a batch of a Rust task, and what `lua/fill.lua` is told of items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from .annotations import MAX_NAME, is_name
from .arguments import check, item_of, kind_of, standard_payload
from .errors import InvalidTaskError, shown
from .link import Argument
from .times import Duration, span_ms

__all__ = ["MAX_FILLED", "RustItem", "fillings"]

MAX_FILLED = 1000
"""Rust adds no more items at once, either."""

MAX_ITEMS = 10_000
"""A batch has no more items."""

ENOUGH = 4 << 20
"""With so many bytes of items a batch is full, as `lua/fill.lua` has it."""

LONGEST = timedelta(days=365)

_UNKNOWN = re.compile("[\x00-\x1f\x7f-\x9f]|\\s")
"""What the path of no Rust task has. The name of a batch has a space behind the path."""


class Batch(NamedTuple):
    """The batch that an item is for, and when it is full."""

    name: str
    """The path of its task, followed by a space and its key if it has one."""
    max: int
    within: int
    """In milliseconds, as `grace`."""
    grace: int
    """0: no sooner."""


class RustItem:
    """One item for a batch of a Rust task, for the queues of this package.

    Of a task with `batch(…)`, a Rust client collects the calls in Redis: each is one item, and many
    of them run together. A `RustItem` is such a call, with the options of that `batch(…)`, which
    Python does not know. A batch takes items of both languages.

        index = partial(RustItem, "my_crate::index", max=100, within=2)
        queue.enqueue_many(index(page) for page in pages)

    The item is encoded when the `RustItem` is made. It has no id: it can be neither cancelled nor
    followed. Each time that it is enqueued, it is added once more.

    Durations are a `timedelta` or a number of seconds, above 0 and up to 365 days, and travel in
    whole milliseconds.

    Args:
        path: The task's path, such as `my_crate::index`.
        item: The item; what a `RustTask` allows as an argument.
        max: A batch is full with this many items, 1 to 10,000; or with 4 MiB of them.
        within: It runs at the latest this long after its first item came.
        grace: It runs this long after its last item came, if that is sooner. None: no sooner.
        key: Items with the same key fill a batch of their own, in place of that of the task: 1 to
            200 bytes of printable text without spaces.
        queue: The name of its queue: only the queue of this name takes it.

    Raises:
        InvalidTaskError: When the item cannot be sent; it names the argument and what to do.
    """

    __slots__ = ("_batch", "_data", "_func_path", "_key", "_queue")

    needs_script = True
    """Only the queues of this package can enqueue it."""

    def __init__(
        self,
        path: str,
        item: Any,
        *,
        max: int,
        within: Duration,
        grace: Duration | None = None,
        key: str | None = None,
        queue: str | None = None,
    ) -> None:
        about = f"RustItem {path!r}"
        check(about, path, (), None)
        try:
            if _UNKNOWN.search(path):
                raise InvalidTaskError("path contains a space or a control character")
            self._batch = _batch(path, max, within, grace, key)
            self._data = standard_payload([item_of(item)])
        except InvalidTaskError as error:
            raise InvalidTaskError(f"{about}: {error}") from None
        self._func_path, self._key, self._queue = path, key, queue

    @property
    def path(self) -> str:
        """The path of the Rust task."""
        return self._func_path

    @property
    def key(self) -> str | None:
        """The key of its batch; None: the batch is that of the task."""
        return self._key

    @property
    def queue(self) -> str | None:
        """The name of its queue; None: any."""
        return self._queue

    def serialize(self) -> bytes:
        """Refuse to be a message, for `delayed.queue.Queue.enqueue`.

        Raises:
            InvalidTaskError: Always: the original has no batches.
        """
        raise InvalidTaskError(
            f"RustItem {self._func_path!r} is an item of a batch, and no message; "
            "enqueue it with delayed_compat.Queue or AsyncQueue"
        )

    def __repr__(self) -> str:
        key = "" if self._key is None else f", key={self._key!r}"
        return f"RustItem({self._func_path!r}, {len(self._data)} bytes{key})"


def fillings(items: Iterable[RustItem]) -> Iterator[Argument]:
    """Yield what `lua/fill.lua` takes of items: each batch, with its items in their order."""
    by_batch: dict[Batch, list[bytes]] = {}
    for item in items:
        by_batch.setdefault(item._batch, []).append(item._data)
    for batch, encoded in by_batch.items():
        full = _full_batches(encoded, batch.max)
        rest = encoded[len(full) * batch.max :]
        yield from batch
        yield from (len(full), len(rest))
        yield from full
        yield from rest


def _full_batches(items: Sequence[bytes], most: int) -> list[bytes]:
    """Return the full batches that items begin with, each one item after the other."""
    full: list[bytes] = []
    for first in range(0, len(items) - most + 1, most):
        batch = b"".join(items[first : first + most])
        if len(batch) > ENOUGH:
            break
        full.append(batch)
    return full


def _batch(path: str, most: Any, within: Any, grace: Any, key: Any) -> Batch:
    if isinstance(most, bool) or not isinstance(most, int):
        raise InvalidTaskError(f"max is a {kind_of(most)}; give a whole number")
    if not 1 <= most <= MAX_ITEMS:
        raise InvalidTaskError(f"max is {shown(most)}; give a whole number from 1 to {MAX_ITEMS}")
    within_ms = _time_ms(within, "within")
    grace_ms = 0 if grace is None else _time_ms(grace, "grace")
    if grace_ms > within_ms:
        raise InvalidTaskError(
            f"grace is {shown(grace)}, longer than within, which ends the batch before; "
            "make it shorter, or leave it out"
        )
    if key is None:
        return Batch(path, most, within_ms, grace_ms)
    if not isinstance(key, str):
        raise InvalidTaskError(f"key is a {kind_of(key)}; give a str")
    if not is_name(key):
        raise InvalidTaskError(
            f"key is {shown(key)}; give 1 to {MAX_NAME} bytes of printable text without spaces"
        )
    return Batch(f"{path} {key}", most, within_ms, grace_ms)


def _time_ms(value: Any, name: str) -> int:
    milliseconds = span_ms(value, name)
    if not 0 < milliseconds <= LONGEST // timedelta(milliseconds=1):
        raise InvalidTaskError(f"{name} is {shown(value)}; give a time above 0, up to 365 days")
    return milliseconds
