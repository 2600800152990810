"""Celery: acknowledged after the run, as it is here; no results."""

from __future__ import annotations

import sys

import bench_peer
import celery
import redis

# The pool that its guide has for tasks that compute, and beyond that one for tasks that wait.
MOST_PROCESSES = 10

app = celery.Celery("bench")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_default_queue="bench",
    task_ignore_result=True,
    task_time_limit=bench_peer.limit(),
    # As its guide to optimizing has it: many for short tasks, one for long ones.
    worker_prefetch_multiplier=1 if bench_peer.limit() else 64,
)

TASKS = {name: app.task(name=name)(function) for name, function in bench_peer.TASKS.items()}
QUEUES = bench_peer.queues()


def send(task: str, numbers: range, data: bytes) -> None:
    """Enqueues calls, over one connection."""
    # What is sent is JSON.
    text = data.decode()
    with app.producer_or_acquire() as producer:
        for number in numbers:
            TASKS[task].apply_async(
                (number, text) if text else (number,),
                producer=producer,
                queue=QUEUES[number % len(QUEUES)],
            )


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        print(f"Celery {celery.__version__}, redis-py {redis.__version__}, {bench_peer.python()}")
        return
    app.conf.broker_url = rest[0]
    if command == "send":
        bench_peer.answer(send)
    elif command == "worker":
        _, way, concurrency = rest
        pool = "prefork"
        if way == "inline":
            pool = "solo"
        elif way == "usual" and int(concurrency) > MOST_PROCESSES:
            pool = "threads"
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        app.worker_main(["worker", "-P", pool, "-c", concurrency, "-Q", ",".join(QUEUES), *quiet])


if __name__ == "__main__":
    main()
