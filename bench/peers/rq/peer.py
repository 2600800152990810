"""RQ: a work-horse forked for each job; no results."""

from __future__ import annotations

import sys

# Before the fork, as its notes on performance have it.
import bench_peer
import redis
import rq
import rq.version
from rq.worker import SimpleWorker, Worker
from rq.worker_pool import WorkerPool

CHUNK = 1000


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        print(f"RQ {rq.version.VERSION}, redis-py {redis.__version__}, {bench_peer.python()}")
        return
    connection = redis.Redis.from_url(rest[0])
    queue = rq.Queue("bench", connection=connection)
    if command == "send":
        # Whole seconds are all that it takes.
        timeout = int(bench_peer.limit() or 180)

        def send(task: str, numbers: range) -> None:
            name = f"bench_peer.{task}"
            jobs = [
                rq.Queue.prepare_data(name, (number,), timeout=timeout, result_ttl=0)
                for number in numbers
            ]
            for first in range(0, len(jobs), CHUNK):
                queue.enqueue_many(jobs[first : first + CHUNK])

        bench_peer.answer(send)
    elif command == "worker":
        _, way, concurrency = rest
        kind = SimpleWorker if way == "inline" else Worker
        if concurrency == "1":
            kind([queue], connection=connection).work(logging_level="WARNING")
        else:
            pool = WorkerPool(
                [queue], connection=connection, num_workers=int(concurrency), worker_class=kind
            )
            pool.start(logging_level="WARNING")


if __name__ == "__main__":
    main()
