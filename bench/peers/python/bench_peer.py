"""What the peers in Python share: the tasks, what they write, and the loop that sends."""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
import time
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable

# What is sent: a task, its numbers, and the bytes that each call carries.
Send = Callable[[str, range, bytes], None]
SendAsync = Callable[[str, range, bytes], Awaitable[None]]

_ledger: int | None = None
_TICK = 0.001


class Tally:
    """For each call: when it was sent, when it began, and how often it ran."""

    def __init__(self) -> None:
        with open(os.environ["BENCH_TALLY"], "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._calls = len(self._map) // 17
        self._runs = 16 * self._calls
        self._begun = 8 * self._calls

    def count(self, number: int) -> None:
        """A run of this call began."""
        self._map[self._runs + number] += 1

    def mark(self, number: int) -> None:
        """A run of this call began, now."""
        struct.pack_into("<Q", self._map, self._begun + 8 * number, time.monotonic_ns())
        self.count(number)

    def sent(self, number: int, at: int) -> None:
        """This call was sent."""
        struct.pack_into("<Q", self._map, 8 * number, at)


# Before a fork, so that what is forked has it.
_tally = Tally() if "BENCH_TALLY" in os.environ else None


def tally() -> Tally:
    """The one that the environment names."""
    assert _tally is not None, "the tally is named"
    return _tally


def count(number: int) -> None:
    """Does nothing but count its run."""
    tally().count(number)


def mark(number: int) -> None:
    """Tells when it began."""
    tally().mark(number)


def mixed(number: int) -> None:
    """Takes 1 ms, and each tenth 100 ms."""
    time.sleep(pause(number))
    tally().count(number)


def pause(number: int) -> float:
    """The seconds that `mixed` takes."""
    return 0.001 if number % 10 else 0.1


def carry(number: int, data: bytes | str) -> None:
    """Brings something along."""
    tally().count(number)


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


TASKS = {task.__name__: task for task in (count, mark, mixed, carry, note, sleep, spin)}


def limit() -> float | None:
    """Seconds after which a task is to be killed."""
    text = os.environ.get("BENCH_LIMIT")
    return float(text) if text else None


def queues() -> list[str]:
    """The queues that calls go to, by turns."""
    return os.environ.get("BENCH_QUEUES", "bench").split(",")


def arguments(number: int, data: bytes) -> tuple[int] | tuple[int, bytes]:
    """What a call has: data only when it carries some."""
    return (number, data) if data else (number,)


def answer(send: Send) -> None:
    """Sends what the lines of the standard input ask for, until it ends."""
    for line in sys.stdin:
        how, task, first, last, amount = _read(line)
        began = time.monotonic_ns()
        if how == "bulk":
            send(task, range(first, last), b"x" * amount)
        elif how == "each":
            with ThreadPoolExecutor(amount) as pool:
                shares = [range(first + at, last, amount) for at in range(amount)]
                list(pool.map(partial(_one_by_one, send, task), shares))
        else:
            for due, numbers in _turns(first, last, amount):
                time.sleep(max(0.0, due - time.monotonic()))
                _sent(numbers, due)
                send(task, numbers, b"")
        print(began, time.monotonic_ns(), flush=True)


async def answer_async(send: SendAsync) -> None:
    """The same for what is asynchronous."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        how, task, first, last, amount = _read(line)
        began = time.monotonic_ns()
        if how == "bulk":
            await send(task, range(first, last), b"x" * amount)
        elif how == "each":
            shares = [range(first + at, last, amount) for at in range(amount)]
            await asyncio.gather(*(_one_by_one_async(send, task, share) for share in shares))
        else:
            for due, numbers in _turns(first, last, amount):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                _sent(numbers, due)
                await send(task, numbers, b"")
        print(began, time.monotonic_ns(), flush=True)


def _read(line: str) -> tuple[str, str, int, int, int]:
    how, task, first, count, amount = line.split()
    return how, task, int(first), int(first) + int(count), int(amount)


def _one_by_one(send: Send, task: str, numbers: range) -> None:
    for number in numbers:
        send(task, range(number, number + 1), b"")


async def _one_by_one_async(send: SendAsync, task: str, numbers: range) -> None:
    for number in numbers:
        await send(task, range(number, number + 1), b"")


def _turns(first: int, last: int, rate: int) -> Iterator[tuple[float, range]]:
    """When something is due, and what."""
    began, turn, done = time.monotonic(), 0, first
    while done < last:
        turn += 1
        end = min(last, first + turn * rate // 1000)
        if end > done:
            yield began + turn * _TICK, range(done, end)
            done = end


def _sent(numbers: range, due: float) -> None:
    """A call counts as sent when its turn had come, if that was missed."""
    now = time.monotonic()
    at = int((due if now > due + 2 * _TICK else now) * 1e9)
    for number in numbers:
        tally().sent(number, at)


def python() -> str:
    """The version of this Python."""
    return "Python {}.{}.{}".format(*sys.version_info[:3])
