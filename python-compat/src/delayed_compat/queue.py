"""The original's queues, which can also enqueue many tasks at once and schedule Rust tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import redis
from delayed.logger import logger
from delayed.queue import Queue as OriginalQueue

from .bulk import QUEUES, Argument, Bulk, Task, is_refusal, keys_of_timetable
from .call_id import CallId, parse_id
from .errors import InvalidTaskError
from .scripts import CANCEL
from .task import RustTask

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["AsyncQueue", "Queue", "Task"]


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

    def enqueue(self, task: Task, release: bool = False) -> None:
        """Enqueue one task, as the original does, or schedule a `RustTask` with `after` or `at`.

        Args:
            task: A `RustTask`, a `PyTask` or a `GoTask`.
            release: Whether to release what this queue dequeued last.

        Raises:
            redis.RedisError: When Redis failed while a task was enqueued at once.
            AlreadyScheduledError: When the timetable has the id of a scheduled call already.
            EnqueueError: When Redis failed while a call was scheduled; `in_doubt` is 1 where it may
                have been scheduled. To enqueue the same `RustTask` again never schedules it twice
                before it is due.
        """
        if not isinstance(task, RustTask) or not task.is_scheduled:
            original: Any = super()  # its annotation knows no RustTask
            original.enqueue(task, release)
            return
        bulk = Bulk(self._name, [task], 1)
        self._send(bulk)
        bulk.check_one()
        if release:
            self.release()  # type: ignore[no-untyped-call]

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        """Enqueue all `tasks`, a chunk at a time, and return how many they were.

        Those that are not scheduled are enqueued first, in their order; then the others are
        scheduled.

        Every task is serialised before anything is sent, so that a bad one leaves the queue as it
        was; all messages are therefore held in memory at once. Each chunk, its notifications
        included, is one atomic step in Redis: it is applied whole or not at all. It is sent once,
        also where the connection is set to repeat failed commands: that could enqueue it twice.

        Args:
            tasks: `RustTask`, `PyTask` and `GoTask` in any mixture; a generator will do.
            chunk: How many tasks go in one step, at most 100,000; 500 of those that are scheduled.

        Raises:
            InvalidTaskError: When a task cannot be sent; nothing was sent.
            EnqueueError: When Redis failed, or the timetable has an id already; all but the latter
                are scheduled then. It says what is on the queue for certain.
            ValueError: When `chunk` is no whole number from 1 to 100,000; nothing was sent.
        """
        bulk = Bulk(self._name, tasks, chunk)
        self._send(bulk)
        bulk.check()
        return bulk.total

    def cancel(self, call: RustTask | CallId) -> bool:
        """Cancel a scheduled call: it is taken out of the timetable, and never runs.

        Args:
            call: The scheduled `RustTask`, or the id of a call.

        Returns:
            Whether it was there. False: it waits in its queue by now, and a Rust worker drops it
            instead of running it; or it runs, has run or was never scheduled.

        Raises:
            InvalidTaskError: When that is no id, or the task has none.
            redis.RedisError: When Redis failed. The call may be cancelled or not; it does no harm
                to cancel it again.
        """
        return _was_scheduled(self._once("EVAL", *_cancel(self._name, call)))

    def _send(self, bulk: Bulk) -> None:
        if bulk.has_scheduled and not self._is_known:
            try:
                self._once("SADD", QUEUES, self._name)
            except (redis.RedisError, OSError) as error:
                raise bulk.failed(None, error) from error
            self._is_known = True
        for request in bulk.requests():
            connected = False
            try:
                connection = self._conn.connection_pool.get_connection()
                connected = True
                reply = self._ask(connection, "EVAL", *request.arguments)
            except (redis.RedisError, OSError) as error:
                in_doubt = request if connected and not is_refusal(error) else None
                raise bulk.failed(in_doubt, error) from error
            bulk.applied(request, reply)

    def _once(self, *command: Argument) -> Any:
        return self._ask(self._conn.connection_pool.get_connection(), *command)

    def _ask(self, connection: Any, *command: Argument) -> Any:
        """Send a command once, and give the connection back.

        Not by a method of the client: that sends again, unasked, when an answer is lost.
        """
        try:
            connection.send_command(*command)
            return connection.read_response()
        except BaseException as error:
            if not (isinstance(error, Exception) and is_refusal(error)):
                connection.disconnect()
            raise
        finally:
            self._conn.connection_pool.release(connection)


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
        self._is_known = False

    async def enqueue(self, task: Task) -> None:
        """Enqueue one task, or schedule a `RustTask` with `after` or `at`.

        When it is cancelled the task may be enqueued all the same.

        Raises:
            InvalidTaskError: When the task cannot be sent; nothing was sent.
            redis.RedisError: When Redis failed while a task was enqueued at once.
            AlreadyScheduledError: As `Queue.enqueue`.
            EnqueueError: As `Queue.enqueue`.
        """
        bulk = Bulk(self._name, [task], 1)
        if bulk.has_scheduled:
            await self._send(bulk)
            bulk.check_one()
            return
        logger.debug("Enqueuing task %s.", task._func_path)
        async with self._conn.pipeline(transaction=True) as pipe:
            for message in bulk.messages:
                pipe.rpush(self._name, message)
                pipe.rpush(self._noti_key, "1")
            await pipe.execute()
        logger.debug("Enqueued task %s.", task._func_path)

    async def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        """Enqueue all `tasks`, a chunk at a time, and return how many they were.

        As `Queue.enqueue_many`. When it is cancelled, some chunks may have been applied.

        Raises:
            InvalidTaskError: When a task cannot be sent; nothing was sent.
            EnqueueError: As `Queue.enqueue_many`.
            ValueError: When `chunk` is no whole number from 1 to 100,000; nothing was sent.
        """
        bulk = Bulk(self._name, tasks, chunk)
        await self._send(bulk)
        bulk.check()
        return bulk.total

    async def cancel(self, call: RustTask | CallId) -> bool:
        """Cancel a scheduled call, and return whether it was there. As `Queue.cancel`."""
        return _was_scheduled(await self._once("EVAL", *_cancel(self._name, call)))

    async def _send(self, bulk: Bulk) -> None:
        if bulk.has_scheduled and not self._is_known:
            try:
                await self._once("SADD", QUEUES, self._name)
            except (redis.RedisError, OSError) as error:
                raise bulk.failed(None, error) from error
            self._is_known = True
        for request in bulk.requests():
            connected = False
            try:
                connection = await self._pool.get_connection()
                connected = True
                reply = await self._ask(connection, "EVAL", *request.arguments)
            except (redis.RedisError, OSError) as error:
                in_doubt = request if connected and not is_refusal(error) else None
                raise bulk.failed(in_doubt, error) from error
            bulk.applied(request, reply)

    @property
    def _pool(self) -> Any:  # partly without annotations
        return self._conn.connection_pool

    async def _once(self, *command: Argument) -> Any:
        return await self._ask(await self._pool.get_connection(), *command)

    async def _ask(self, connection: Any, *command: Argument) -> Any:
        """Send a command once, and give the connection back, as `Queue` does."""
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        except BaseException as error:
            if not (isinstance(error, Exception) and is_refusal(error)):
                await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)


def _cancel(queue: str, call: RustTask | CallId) -> Sequence[Argument]:
    """Return the arguments of the script that cancels a call."""
    if isinstance(call, RustTask) and call.id is None:
        raise InvalidTaskError(f"{call!r} has no id, so it was not scheduled")
    id = call.id if isinstance(call, RustTask) else parse_id(call)
    due, later, _ = keys_of_timetable(queue)
    cancelled = f"{queue}_cancelled"
    return CANCEL, 3, due, later, cancelled, queue, "python", parse_id(id).bytes


def _was_scheduled(states: Sequence[bytes | str]) -> bool:
    """Return whether the script found the call in the timetable."""
    return states[0] in (b"scheduled", b"retrying", "scheduled", "retrying")
