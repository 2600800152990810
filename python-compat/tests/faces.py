"""Lets a test that was written once try both queues: `Queue`, and `AsyncQueue` behind a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from delayed_compat import AsyncHandle, AsyncQueue, CallState, Conflict, Handle, Queue
from delayed_compat.queue import Task


class HandleFace(Protocol):
    """What the handles of both queues can do."""

    @property
    def id(self) -> UUID | None: ...

    @property
    def is_new(self) -> bool: ...

    @property
    def conflict(self) -> Conflict | None: ...

    def state(self) -> CallState | None: ...

    def result(self) -> Any: ...

    def wait(self, timeout: Any) -> Any: ...

    def cancel(self) -> CallState | None: ...


class Face(Protocol):
    """What both queues can do."""

    def enqueue(self, task: Task) -> HandleFace: ...

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int: ...

    def handle(self, call: Any) -> HandleFace: ...

    def cancel(self, call: Any) -> CallState | None: ...

    def close(self) -> None: ...


class SyncFace:
    """A `Queue`, which loses the answers to the commands of these numbers, if any."""

    def __init__(
        self, socket: Path, lost: tuple[int, ...] = (), name: str = "mail", **options: Any
    ) -> None:
        class Connection(redis.UnixDomainSocketConnection):
            def send_command(self, *args: Any, **kwargs: Any) -> None:
                counter.sent(args)
                super().send_command(*args, **kwargs)  # type: ignore[no-untyped-call]

            def read_response(self, *args: Any, **kwargs: Any) -> Any:
                answer = super().read_response(*args, **kwargs)
                counter.answered()
                return answer

        counter = _Counter(lost)
        retry = Retry(NoBackoff(), 3)
        self._pool = redis.ConnectionPool(
            connection_class=Connection, path=str(socket), retry=retry, **options
        )
        self._queue = Queue(name, redis.Redis(connection_pool=self._pool))

    def enqueue(self, task: Task) -> Handle:
        return self._queue.enqueue(task)

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        return self._queue.enqueue_many(tasks, chunk)

    def handle(self, call: Any) -> Handle:
        return self._queue.handle(call)

    def cancel(self, call: Any) -> CallState | None:
        return self._queue.cancel(call)

    def close(self) -> None:
        self._pool.disconnect()


class AsyncFace:
    """An `AsyncQueue`, which loses answers as `SyncFace` does."""

    def __init__(
        self, socket: Path, lost: tuple[int, ...] = (), name: str = "mail", **options: Any
    ) -> None:
        class Connection(redis.asyncio.UnixDomainSocketConnection):
            async def send_command(self, *args: Any, **kwargs: Any) -> None:
                counter.sent(args)
                await super().send_command(*args, **kwargs)

            async def read_response(self, *args: Any, **kwargs: Any) -> Any:
                counter.awaited()
                answer = await super().read_response(*args, **kwargs)
                counter.answered()
                return answer

        counter = self._counter = _Counter(lost)
        self._loop = asyncio.new_event_loop()
        retry = AsyncRetry(NoBackoff(), 3)

        # A lock of Python 3.9 belongs to the loop of its maker.
        async def make() -> AsyncQueue:
            self._pool: Any = redis.asyncio.ConnectionPool(
                connection_class=Connection, path=str(socket), retry=retry, **options
            )
            return AsyncQueue(name, redis.asyncio.Redis(connection_pool=self._pool))

        self._queue = self._loop.run_until_complete(make())

    def run(self, work: Callable[[AsyncQueue], Coroutine[Any, Any, Any]]) -> Any:
        """Run `work` to its end."""
        return self._loop.run_until_complete(work(self._queue))

    @property
    def awaits_script(self) -> bool:
        """Whether it has sent a script and now reads the answer."""
        return self._counter.reads

    def enqueue(self, task: Task) -> AwaitedHandle:
        return AwaitedHandle(self, self.run(lambda queue: queue.enqueue(task)))

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        return int(self.run(lambda queue: queue.enqueue_many(tasks, chunk)))

    def handle(self, call: Any) -> AwaitedHandle:
        return AwaitedHandle(self, self._queue.handle(call))

    def cancel(self, call: Any) -> CallState | None:
        found: CallState | None = self.run(lambda queue: queue.cancel(call))
        return found

    def close(self) -> None:
        self._loop.run_until_complete(self._pool.disconnect())
        self._loop.close()


class AwaitedHandle:
    """An `AsyncHandle` behind the loop of its queue."""

    def __init__(self, face: AsyncFace, handle: AsyncHandle) -> None:
        self._face, self._handle = face, handle

    @property
    def id(self) -> UUID | None:
        return self._handle.id

    @property
    def is_new(self) -> bool:
        return self._handle.is_new

    @property
    def conflict(self) -> Conflict | None:
        return self._handle.conflict

    def state(self) -> CallState | None:
        found: CallState | None = self._face.run(lambda _: self._handle.state())
        return found

    def result(self) -> Any:
        return self._face.run(lambda _: self._handle.result())

    def wait(self, timeout: Any) -> Any:
        return self._face.run(lambda _: self._handle.wait(timeout))

    def cancel(self) -> CallState | None:
        found: CallState | None = self._face.run(lambda _: self._handle.cancel())
        return found


class _Counter:
    """Counts the scripts that were sent on all connections, and loses the answers to some."""

    def __init__(self, lost: tuple[int, ...]) -> None:
        self._lost = lost
        self._scripts = 0
        self._awaits_script = False
        self.reads = False

    def sent(self, command: tuple[Any, ...]) -> None:
        self._awaits_script = command[0] == "EVAL"
        self._scripts += self._awaits_script

    def awaited(self) -> None:
        self.reads = self._awaits_script

    def answered(self) -> None:
        self.reads = False
        if self._awaits_script and self._scripts in self._lost:
            raise redis.ConnectionError("the answer was lost")
