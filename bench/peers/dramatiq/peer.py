"""dramatiq: processes with threads, as its command line starts them; no results."""

from __future__ import annotations

import os
import sys

import bench_peer
import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

QUEUES = bench_peer.queues()


def main() -> None:
    """Does what the command line says."""
    command, *rest = sys.argv[1:]
    if command == "version":
        print(
            f"dramatiq {dramatiq.__version__}, redis-py {redis.__version__}, {bench_peer.python()}"
        )
    elif command == "send":
        broker = declare(rest[0])

        def send(task: str, numbers: range, data: bytes) -> None:
            # What is sent is JSON.
            text = data.decode()
            for number in numbers:
                arguments = (number, text) if text else (number,)
                queue = QUEUES[number % len(QUEUES)]
                broker.enqueue(
                    broker.get_actor(f"{task}-{queue}").message_with_options(args=arguments)
                )

        bench_peer.answer(send)
    elif command == "worker":
        url, _, concurrency = rest
        processes = min(2, int(concurrency))
        os.environ["BENCH_URL"] = url
        threads = str(-(-int(concurrency) // processes))
        words = ["--processes", str(processes), "--threads", threads, "--path"]
        words += [os.path.dirname(os.path.abspath(__file__)), "--", "peer"]
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", *words])


def declare(url: str) -> RedisBroker:
    """An actor belongs to one queue."""
    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)
    for name in ("count", "mark", "mixed", "carry"):
        for queue in QUEUES:
            actor = dramatiq.actor(actor_name=f"{name}-{queue}", queue_name=queue)
            actor(bench_peer.TASKS[name])
    return broker


if __name__ == "__main__":
    main()
elif "BENCH_URL" in os.environ:
    declare(os.environ["BENCH_URL"])
