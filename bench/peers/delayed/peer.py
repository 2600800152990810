"""delayed, in Python: a process runs one call at a time."""

from __future__ import annotations

import multiprocessing
import sys
from importlib.metadata import version

import bench_peer
import redis
from delayed.queue import Queue
from delayed.task import PyTask
from delayed.worker import Worker


def work(url: str, queue: str) -> None:
    """Runs calls, and never ends by itself."""
    Worker(Queue(queue, redis.Redis.from_url(url))).run()


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        versions = f"delayed {version('delayed')}, redis-py {redis.__version__}"
        print(f"{versions}, {bench_peer.python()}")
        return
    queues = bench_peer.queues()
    if command == "send":
        connection = redis.Redis.from_url(rest[0])
        targets = [Queue(name, connection) for name in queues]

        def send(task: str, numbers: range, data: bytes) -> None:
            for number in numbers:
                call = PyTask(f"bench_peer:{task}", bench_peer.arguments(number, data))
                targets[number % len(targets)].enqueue(call)

        bench_peer.answer(send)
    elif command == "worker":
        url, _, concurrency = rest
        # A worker has one queue, so each has at least one worker.
        workers = max(int(concurrency), len(queues))
        for at in range(1, workers):
            args = (url, queues[at % len(queues)])
            multiprocessing.Process(target=work, args=args, daemon=True).start()
        work(url, queues[0])


if __name__ == "__main__":
    main()
