"""How do these programs reach their queue, and how do they end when they are told to?"""

from __future__ import annotations

import argparse
import os
import select
import signal
from collections.abc import Callable

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser of the flags that all programs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--redis", required=True, metavar="URL", help="redis:// or unix://")
    parser.add_argument("--queue", required=True, metavar="NAME")
    return parser


def connect(url: str, timeout: float | None = None) -> redis.Redis:
    """Return a client of the Redis at `url`, which waits that many seconds for each reply."""
    if timeout is None:
        return redis.Redis.from_url(url)
    # A push whose reply was lost is not sent again: it may have been applied.
    return redis.Redis.from_url(url, socket_timeout=timeout, retry=Retry(NoBackoff(), 0))


def on_stop(stop: Callable[[], None]) -> Callable[[float], None]:
    """Call `stop` at SIGTERM or SIGINT, and return a sleep that such a signal ends."""
    woken, wake = os.pipe()

    def handle(_number: int, _frame: object) -> None:
        stop()
        os.write(wake, b"1")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)

    def sleep(seconds: float) -> None:
        if select.select([woken], [], [], seconds)[0]:
            stop()  # again: it does nothing before the loop runs

    return sleep
