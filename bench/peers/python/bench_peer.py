"""What the peers in Python share: the ledger, the three tasks' bodies, and the loop that sends."""

from __future__ import annotations

import os
import struct
import sys
import time
from typing import Callable

_ledger: int | None = None


def record(number: int) -> None:
    """Writes that a run of this number began."""
    global _ledger
    if _ledger is None:
        _ledger = os.open(os.environ["BENCH_LEDGER"], os.O_WRONLY | os.O_APPEND)
    os.write(_ledger, struct.pack("<QQQ", number, time.monotonic_ns(), os.getpid()))


def note(number: int) -> None:
    """Does nothing but its record."""
    record(number)


def sleep(number: int) -> None:
    """Sleeps for ever."""
    record(number)
    while True:
        time.sleep(3600)


def spin(number: int) -> None:
    """Computes for ever."""
    record(number)
    while True:
        pass


def limit() -> float | None:
    """Seconds after which a task is to be killed."""
    text = os.environ.get("BENCH_LIMIT")
    return float(text) if text else None


def answer(send: Callable[[str, range], None]) -> None:
    """Sends what the lines of the standard input ask for, until it ends."""
    for line in sys.stdin:
        task, first, count = line.split()
        began = time.monotonic_ns()
        send(task, range(int(first), int(first) + int(count)))
        print(began, flush=True)


def python() -> str:
    """The version of this Python."""
    return "Python {}.{}.{}".format(*sys.version_info[:3])
