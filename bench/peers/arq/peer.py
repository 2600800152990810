"""arq: one process, one loop; results are not kept."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import arq
import bench_peer
import redis
from arq.connections import RedisSettings
from arq.worker import Worker, func

QUEUES = bench_peer.queues()


async def count(_: dict[str, Any], number: int) -> None:
    """Does nothing but count its run."""
    bench_peer.count(number)


async def mark(_: dict[str, Any], number: int) -> None:
    """Tells when it began."""
    bench_peer.mark(number)


async def mixed(_: dict[str, Any], number: int) -> None:
    """Takes 1 ms, and each tenth 100 ms."""
    await asyncio.sleep(bench_peer.pause(number))
    bench_peer.count(number)


async def carry(_: dict[str, Any], number: int, data: bytes) -> None:
    """Brings something along."""
    bench_peer.count(number)


async def send_all(url: str) -> None:
    """Enqueues what it is told."""
    pool = await arq.create_pool(RedisSettings.from_dsn(url))

    async def send(task: str, numbers: range, data: bytes) -> None:
        for number in numbers:
            queue = QUEUES[number % len(QUEUES)]
            await pool.enqueue_job(task, *bench_peer.arguments(number, data), _queue_name=queue)

    await bench_peer.answer_async(send)


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        print(f"arq {arq.VERSION}, redis-py {redis.__version__}, {bench_peer.python()}")
    elif command == "send":
        asyncio.run(send_all(rest[0]))
    elif command == "worker":
        assert len(QUEUES) == 1, "a worker serves one queue"
        asyncio.set_event_loop(asyncio.new_event_loop())
        worker = Worker(
            [func(task, name=task.__name__, keep_result=0) for task in (count, mark, mixed, carry)],
            queue_name=QUEUES[0],
            redis_settings=RedisSettings.from_dsn(rest[0]),
            max_jobs=int(rest[2]),
            keep_result=0,
        )
        worker.run()


if __name__ == "__main__":
    main()
