"""Follows a call that was enqueued: its state, its result, its cancellation."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

import redis

from .call_state import CallState
from .cancel import cancel
from .conflict import Conflict
from .errors import CallNotFoundError
from .link import BROKEN, AsyncLink, Link
from .record import Record, key_of_record, read_command
from .times import Duration, timedelta_of

__all__ = ["AsyncHandle", "Handle"]


PAUSE = 0.05
"""Seconds after which a wait tries again where Redis cannot be reached."""


class _Handle:
    """What both handles know."""

    def __init__(self, queue: str, id: UUID | None, conflict: Conflict | None = None) -> None:
        self._queue, self._id, self._conflict = queue, id, conflict

    @property
    def id(self) -> UUID | None:
        """The id of the call; None for a call without options that need one."""
        return self._id

    @property
    def queue(self) -> str:
        """The name of the call's queue."""
        return self._queue

    @property
    def is_new(self) -> bool:
        """Whether the call is a new one. Else it was a unique one that came second, and this handle
        is that of the first."""
        return self._conflict is None

    @property
    def conflict(self) -> Conflict | None:
        """Why the call is not a new one: `Held` or `Replaced`."""
        return self._conflict

    def __repr__(self) -> str:
        said = f", {self._conflict!r}" if self._conflict else ""
        return f"{type(self).__name__}({self._queue!r}, {self._id}{said})"

    @property
    def _known_id(self) -> UUID:
        if self._id is None:
            raise CallNotFoundError(None, self._queue)
        return self._id


class Handle(_Handle):
    """A call in a `Queue`.

    Each method may raise a `redis.RedisError` when Redis cannot be reached or used; `wait` when it
    cannot be reached until the time is up.
    """

    def __init__(
        self, link: Link, queue: str, id: UUID | None, conflict: Conflict | None = None
    ) -> None:
        super().__init__(queue, id, conflict)
        self._link = link

    def state(self) -> CallState | None:
        """Return the state of the call; None when it keeps no record, or keeps one no more."""
        return None if self._id is None else self._read(self._id).state

    def result(self) -> Any:
        """Return what the task returned, without waiting.

        Raises:
            WaitError: As `wait`; `CallTimeoutError` while the call has not ended.
        """
        return self._read(self._known_id).result(self._known_id, self._queue)

    def wait(self, timeout: Duration) -> Any:
        """Wait until the call has ended, and return what its task returned.

        Nothing is polled: the end is pushed, and none is missed when the connection breaks, or when
        Redis starts again and still has the record. A wait takes one connection of the client's
        pool, and another one for a moment.

        Args:
            timeout: How long to wait: a `timedelta` or a number of seconds.

        Raises:
            CallTimeoutError: When it has not ended in time; it goes on.
            CallFailedError: When it became a dead letter.
            CallCancelledError: When it was cancelled.
            CallExpiredError: When it expired before it could run.
            CallNotFoundError: When it keeps no record, or keeps one no more.
            ResultTooLargeError: When it succeeded, and its result has more than 1 MiB.
            ResultError: When it succeeded, and its result cannot be read.
        """
        id, until = self._known_id, _end_of(timeout)
        while True:
            try:
                record = self._next(id, until)
            except BROKEN as error:
                if not _may_try_again(error, until):
                    raise
                time.sleep(PAUSE)
                continue
            if _is_over(record, until):
                return record.result(id, self._queue)

    def cancel(self) -> CallState | None:
        """Cancel the call, and return the state in which it was found, as `Queue.cancel`."""
        return None if self._id is None else self._link.run(cancel(self._queue, self._id))

    def _next(self, id: UUID, until: float) -> Record:
        """Return the record when the call has ended, the time is up, or the connection broke.

        What ends before it is read is in the record, and what ends later is heard.
        """
        connection = self._link.connect()
        try:
            self._link.subscribe(connection, key_of_record(self._queue, id))
            record = self._read(id)
            if record.state is None:  # it may have ended just now, and keep nothing
                end = self._link.heard(connection)
            elif _is_over(record, until):
                return record
            else:
                end = self._link.hear(connection, until)
            if end is not None:
                return Record.of_end(end)
        finally:
            self._link.close(connection)
        return self._read(id)  # it says what was missed

    def _read(self, id: UUID) -> Record:
        return Record.of_reply(self._link.once(*read_command(self._queue, id)))


class AsyncHandle(_Handle):
    """A call in an `AsyncQueue`; otherwise as `Handle`."""

    def __init__(
        self, link: AsyncLink, queue: str, id: UUID | None, conflict: Conflict | None = None
    ) -> None:
        super().__init__(queue, id, conflict)
        self._link = link

    async def state(self) -> CallState | None:
        """Return the state of the call; None when it keeps no record, or keeps one no more."""
        return None if self._id is None else (await self._read(self._id)).state

    async def result(self) -> Any:
        """Return what the task returned, without waiting. As `Handle.result`."""
        return (await self._read(self._known_id)).result(self._known_id, self._queue)

    async def wait(self, timeout: Duration) -> Any:
        """Wait until the call has ended, and return what its task returned. As `Handle.wait`."""
        id, until = self._known_id, _end_of(timeout)
        while True:
            try:
                record = await self._next(id, until)
            except BROKEN as error:
                if not _may_try_again(error, until):
                    raise
                await asyncio.sleep(PAUSE)
                continue
            if _is_over(record, until):
                return record.result(id, self._queue)

    async def cancel(self) -> CallState | None:
        """Cancel the call, and return the state in which it was found, as `Queue.cancel`."""
        return None if self._id is None else await self._link.run(cancel(self._queue, self._id))

    async def _next(self, id: UUID, until: float) -> Record:
        """Return the record when the call has ended, the time is up, or the connection broke.

        What ends before it is read is in the record, and what ends later is heard.
        """
        connection = await self._link.connect()
        try:
            await self._link.subscribe(connection, key_of_record(self._queue, id))
            record = await self._read(id)
            if record.state is None:  # it may have ended just now, and keep nothing
                end = await self._link.heard(connection)
            elif _is_over(record, until):
                return record
            else:
                end = await self._link.hear(connection, until)
            if end is not None:
                return Record.of_end(end)
        finally:
            await self._link.close(connection)
        return await self._read(id)  # it says what was missed

    async def _read(self, id: UUID) -> Record:
        return Record.of_reply(await self._link.once(*read_command(self._queue, id)))


def _end_of(timeout: Any) -> float:
    return time.monotonic() + timedelta_of(timeout, "timeout").total_seconds()


def _is_over(record: Record, until: float) -> bool:
    """Whether there is nothing to wait for: no record, an end, or no time."""
    return record.state is None or record.state.is_final or time.monotonic() >= until


def _may_try_again(error: Exception, until: float) -> bool:
    return not isinstance(error, redis.AuthenticationError) and time.monotonic() + PAUSE < until
