"""The original's queues, which can also enqueue many tasks at once and schedule Rust tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Union
from uuid import UUID

import redis
from delayed.logger import logger
from delayed.queue import Queue as OriginalQueue

from .bulk import QUEUES, Bulk
from .bulk import Task as SingleTask
from .call_id import CallId, parse_id
from .call_state import CallState
from .errors import InvalidTaskError
from .flow import Chain, Flow, Group, task_for
from .foreign import GoTask, PyTask
from .handle import AsyncHandle, Handle
from .link import AsyncLink, Link, is_refusal
from .periodic import AsyncPeriodic, Periodic
from .task import RustTask

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["AsyncQueue", "Queue", "Task"]

Task = Union[SingleTask, Flow, Chain, Group]
"""What a queue enqueues."""

_WITH_ID = (RustTask, Flow, PyTask, GoTask)


class Queue(OriginalQueue):
    """The original `delayed.queue.Queue`, which can do more.

    Args:
        name: The name of the queue.
        conn: A client of Redis.
        dequeue_timeout: How long `dequeue` waits for a task, in seconds.
        keep_alive_timeout: How long a worker counts as alive, in seconds.
    """

    _is_known = False

    if TYPE_CHECKING:  # the original's own, which has no annotations for these

        def __init__(
            self,
            name: str,
            conn: redis.Redis,
            dequeue_timeout: float = 1,
            keep_alive_timeout: float = 60,
        ) -> None: ...

    def enqueue(self, task: Task, release: bool = False) -> Handle:
        """Enqueue one task, as the original does, or with the options that it has; or a flow.

        Args:
            task: A `RustTask`, a `PyTask`, a `GoTask`, a `RustItem`, a `Flow`, a chain or a group.
            release: Whether to release what this queue dequeued last.

        Returns:
            A handle of the call. Of a unique one that came second it is that of the first.

        Raises:
            InvalidTaskError: When the task is for another queue, or a `RustStep`; nothing was sent.
            redis.RedisError: When Redis failed while a task without such options was enqueued.
            CallExistsError: When there is a call with its id: an `AlreadyScheduledError` when that
                one is scheduled.
            QueueFullError: When `max_len` messages wait, unless `overflow` makes room.
            EnqueueError: When Redis failed while a call was scheduled or submitted; `in_doubt` is 1
                where that may have happened. To enqueue the same `RustTask` again never enqueues it
                twice as long as it is scheduled or has a record.
        """
        single = task_for(task, self._name)
        if not getattr(single, "needs_script", False):
            original: Any = super()  # its annotation knows no RustTask
            original.enqueue(single, release)
            return Handle(self._link, self._name, _known_id(single))
        bulk = Bulk(self._name, [single], 1)
        self._send(bulk)
        bulk.check_one()
        if release:
            self.release()  # type: ignore[no-untyped-call]
        return Handle(self._link, self._name, *(bulk.conflict or (_known_id(single),)))

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        """Enqueue all `tasks`, a chunk at a time, and return how many they were.

        Those without options of a script are enqueued first, in their order; then the others are
        scheduled; then those are sent that have the id that they were given, keep a record, are
        unique, or have `front` or `max_len`; items of batches are sent last.
        A unique call that comes second is no error.

        Every task is serialised before anything is sent, so that a bad one leaves the queue as it
        was; all messages are therefore held in memory at once. Each chunk, its notifications
        included, is one atomic step in Redis: it is applied whole or not at all. It is sent once,
        also where the connection is set to repeat failed commands: that could enqueue it twice.

        Args:
            tasks: `RustTask`, `PyTask`, `GoTask`, `RustItem` and flows in any mixture; a generator
                will do.
            chunk: How many tasks go in one step, at most 100,000; 500 of those that are scheduled,
                100 of those with other such options, and 1000 items of batches.

        Raises:
            InvalidTaskError: When a task cannot be sent; nothing was sent.
            EnqueueError: When Redis failed, or some calls were refused: their id exists already, or
                the queue is full. All but those are enqueued then. It says what is on the queue for
                certain.
            ValueError: When `chunk` is no whole number from 1 to 100,000; nothing was sent.
        """
        bulk = Bulk(self._name, (task_for(task, self._name) for task in tasks), chunk)
        self._send(bulk)
        bulk.check()
        return bulk.total

    def handle(self, call: RustTask | Flow | PyTask | GoTask | CallId) -> Handle:
        """Return a handle of a call or a flow that was enqueued before, perhaps by another process.

        Raises:
            InvalidTaskError: When that is no id, or the task has none.
        """
        return Handle(self._link, self._name, _id_of(call))

    def cancel(self, call: RustTask | Flow | PyTask | GoTask | CallId) -> CallState | None:
        """Cancel a call or a flow, whatever its state.

        A scheduled one is removed. A waiting one is marked, and the worker that claims it drops it.
        A running one is asked to end, and killed if it runs in a process of its own; it is not
        retried. One that has ended stays as it is. A flow that has begun ends at once, and a worker
        cancels its steps.

        Args:
            call: The `RustTask`, the `Flow`, a scheduled `PyTask` or `GoTask`, or the id of a call.

        Returns:
            The state in which it was found; None when no call with this id is known.

        Raises:
            InvalidTaskError: When that is no id, or the task has none.
            redis.RedisError: When Redis failed. The call may be cancelled or not; it does no harm
                to cancel it again.
        """
        return self.handle(call).cancel()

    @property
    def periodic(self) -> Periodic:
        """The periodic tasks of the queue."""
        return Periodic(self._link, self._name)

    @property
    def _link(self) -> Link:
        return Link(self._conn)

    def _send(self, bulk: Bulk) -> None:
        if bulk.has_scripts and not self._is_known:
            try:
                self._link.once("SADD", QUEUES, self._name)
            except (redis.RedisError, OSError) as error:
                raise bulk.failed(None, error) from error
            self._is_known = True
        for request in bulk.requests():
            connected = False
            try:
                connection = self._link.connect()
                connected = True
                reply = self._link.ask(connection, "EVAL", *request.arguments)
            except (redis.RedisError, OSError) as error:
                in_doubt = request if connected and not is_refusal(error) else None
                raise bulk.failed(in_doubt, error) from error
            bulk.applied(request, reply)


class AsyncQueue:
    """The `delayed.queue.AsyncQueue` of the original 1.3, which can do more.

    It enqueues; it does not dequeue. Any version of the original will do.

    Args:
        name: The name of the queue.
        conn: An asyncio client of Redis.
    """

    def __init__(self, name: str, conn: redis.asyncio.Redis) -> None:
        self._name = name
        self._noti_key = f"{name}_noti"
        self._processing_key = f"{name}_processing"
        self._conn = conn
        self._link = AsyncLink(conn)
        self._is_known = False

    async def enqueue(self, task: Task) -> AsyncHandle:
        """Enqueue one task, and return a handle of the call. As `Queue.enqueue`.

        When it is cancelled the task may be enqueued all the same.

        Raises:
            InvalidTaskError: When the task cannot be sent; nothing was sent.
            redis.RedisError: As `Queue.enqueue`.
            CallExistsError: As `Queue.enqueue`.
            QueueFullError: As `Queue.enqueue`.
            EnqueueError: As `Queue.enqueue`.
        """
        single = task_for(task, self._name)
        bulk = Bulk(self._name, [single], 1)
        if bulk.has_scripts:
            await self._send(bulk)
            bulk.check_one()
            return AsyncHandle(self._link, self._name, *(bulk.conflict or (_known_id(single),)))
        logger.debug("Enqueuing task %s.", single._func_path)
        async with self._conn.pipeline(transaction=True) as pipe:
            for message in bulk.messages:
                pipe.rpush(self._name, message)
                pipe.rpush(self._noti_key, "1")
            await pipe.execute()
        logger.debug("Enqueued task %s.", single._func_path)
        return AsyncHandle(self._link, self._name, _known_id(single))

    async def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        """Enqueue all `tasks`, a chunk at a time, and return how many they were.

        As `Queue.enqueue_many`. When it is cancelled, some chunks may have been applied.

        Raises:
            InvalidTaskError: When a task cannot be sent; nothing was sent.
            EnqueueError: As `Queue.enqueue_many`.
            ValueError: When `chunk` is no whole number from 1 to 100,000; nothing was sent.
        """
        bulk = Bulk(self._name, (task_for(task, self._name) for task in tasks), chunk)
        await self._send(bulk)
        bulk.check()
        return bulk.total

    def handle(self, call: RustTask | Flow | PyTask | GoTask | CallId) -> AsyncHandle:
        """Return a handle of a call that was enqueued before. As `Queue.handle`."""
        return AsyncHandle(self._link, self._name, _id_of(call))

    async def cancel(self, call: RustTask | Flow | PyTask | GoTask | CallId) -> CallState | None:
        """Cancel a call, and return the state in which it was found. As `Queue.cancel`."""
        return await self.handle(call).cancel()

    @property
    def periodic(self) -> AsyncPeriodic:
        """The periodic tasks of the queue."""
        return AsyncPeriodic(self._link, self._name)

    async def _send(self, bulk: Bulk) -> None:
        if bulk.has_scripts and not self._is_known:
            try:
                await self._link.once("SADD", QUEUES, self._name)
            except (redis.RedisError, OSError) as error:
                raise bulk.failed(None, error) from error
            self._is_known = True
        for request in bulk.requests():
            connected = False
            try:
                connection = await self._link.connect()
                connected = True
                reply = await self._link.ask(connection, "EVAL", *request.arguments)
            except (redis.RedisError, OSError) as error:
                in_doubt = request if connected and not is_refusal(error) else None
                raise bulk.failed(in_doubt, error) from error
            bulk.applied(request, reply)


def _known_id(task: SingleTask) -> UUID | None:
    return task.id if isinstance(task, _WITH_ID) else None


def _id_of(call: RustTask | Flow | PyTask | GoTask | CallId) -> UUID:
    if not isinstance(call, _WITH_ID):
        return parse_id(call)
    if call.id is None:
        raise InvalidTaskError(f"{call!r} has no id, so it can be neither followed nor cancelled")
    return call.id
