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
    queues = [rq.Queue(name, connection=connection) for name in bench_peer.queues()]
    if command == "send":
        # Whole seconds are all that it takes.
        timeout = int(bench_peer.limit() or 180)

        def send(task: str, numbers: range, data: bytes) -> None:
            name = f"bench_peer.{task}"
            for at, queue in enumerate(queues):
                own = [number for number in numbers if number % len(queues) == at]
                jobs = [
                    rq.Queue.prepare_data(
                        name, bench_peer.arguments(number, data), timeout=timeout, result_ttl=0
                    )
                    for number in own
                ]
                for first in range(0, len(jobs), CHUNK):
                    queue.enqueue_many(jobs[first : first + CHUNK])

        bench_peer.answer(send)
    elif command == "worker":
        _, way, concurrency = rest
        kind = SimpleWorker if way == "inline" else Worker
        if concurrency == "1":
            kind(queues, connection=connection).work(logging_level="WARNING")
        else:
            pool = WorkerPool(
                queues, connection=connection, num_workers=int(concurrency), worker_class=kind
            )
            pool.start(logging_level="WARNING")


if __name__ == "__main__":
    main()
