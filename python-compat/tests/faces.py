"""Lets a test that was written once try both queues: `Queue`, and `AsyncQueue` behind a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from delayed_compat import AsyncQueue, Queue, RustTask
from delayed_compat.queue import Task


class Face(Protocol):
    """What both queues can do."""

    def enqueue(self, task: Task) -> None: ...

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int: ...

    def cancel(self, call: Any) -> bool: ...

    def close(self) -> None: ...


class SyncFace:
    """A `Queue`, which loses the answers to the commands of these numbers, if any."""

    def __init__(self, socket: Path, lost: tuple[int, ...] = (), name: str = "mail") -> None:
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
            connection_class=Connection, path=str(socket), retry=retry
        )
        self._queue = Queue(name, redis.Redis(connection_pool=self._pool))

    def enqueue(self, task: Task) -> None:
        self._queue.enqueue(task)

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        return self._queue.enqueue_many(tasks, chunk)

    def cancel(self, call: Any) -> bool:
        return self._queue.cancel(call)

    def close(self) -> None:
        self._pool.disconnect()


class AsyncFace:
    """An `AsyncQueue`, which loses answers as `SyncFace` does."""

    def __init__(self, socket: Path, lost: tuple[int, ...] = (), name: str = "mail") -> None:
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
                connection_class=Connection, path=str(socket), retry=retry
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

    def enqueue(self, task: Task) -> None:
        self.run(lambda queue: queue.enqueue(task))

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        return int(self.run(lambda queue: queue.enqueue_many(tasks, chunk)))

    def cancel(self, call: RustTask | Any) -> bool:
        return bool(self.run(lambda queue: queue.cancel(call)))

    def close(self) -> None:
        self._loop.run_until_complete(self._pool.disconnect())
        self._loop.close()


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
