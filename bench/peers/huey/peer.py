"""huey: one process with threads; no results."""

from __future__ import annotations

import sys

import bench_peer
import huey
import redis

# One consumer serves one queue, so that others have consumers of their own.
QUEUES = bench_peer.queues()


def open_queue(name: str, url: str) -> huey.RedisHuey:
    """A queue with its tasks. Each thread has a connection: by itself redis-py allows 100."""
    pool = redis.ConnectionPool.from_url(url, max_connections=1000)
    queue = huey.RedisHuey(name, connection_pool=pool, results=False)
    for task in ("count", "mark", "mixed", "carry"):
        setattr(queue, f"bench_{task}", queue.task(name=task)(bench_peer.TASKS[task]))
    return queue


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        print(f"huey {huey.__version__}, redis-py {redis.__version__}, {bench_peer.python()}")
        return
    queues = [open_queue(name, rest[0]) for name in QUEUES]
    if command == "send":

        def send(task: str, numbers: range, data: bytes) -> None:
            for number in numbers:
                queue = queues[number % len(queues)]
                getattr(queue, f"bench_{task}")(*bench_peer.arguments(number, data))

        bench_peer.answer(send)
    elif command == "worker":
        assert len(queues) == 1, "a consumer serves one queue"
        consumer = queues[0].create_consumer(workers=int(rest[2]), worker_type="thread")
        consumer.run()


if __name__ == "__main__":
    main()
