"""Celery's chains and chords, for `bench/flows`: a worker, and a sender that waits for results."""

from __future__ import annotations

import sys
import time

import celery

app = celery.Celery("flows")
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=64)


@app.task(name="number")
def number(n: int) -> int:
    """Returns its argument."""
    return n


@app.task(name="add")
def add(total: int, n: int) -> int:
    """Adds to what came before it."""
    return total + n


@app.task(name="total")
def total(numbers: list[int]) -> int:
    """Adds what all members returned."""
    return sum(numbers)


def main() -> None:
    """Does what the command line says."""
    command, url, *rest = sys.argv[1:]
    app.conf.broker_url = app.conf.result_backend = url
    if command == "worker":
        pool, concurrency = rest
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        app.worker_main(["worker", "-P", pool, "-c", concurrency, *quiet])
        return
    kind, flows, size = rest[0], int(rest[1]), int(rest[2])
    begun = time.monotonic()
    results = []
    for _ in range(flows):
        if kind == "chain":
            flow = celery.chain(number.s(1), *(add.s(1) for _ in range(size - 1)))
        else:
            flow = celery.chord((number.s(1) for _ in range(size)), total.s())
        results.append(flow.apply_async())
    for result in results:
        assert result.get(timeout=60) == size
    print(time.monotonic() - begun)


if __name__ == "__main__":
    main()
