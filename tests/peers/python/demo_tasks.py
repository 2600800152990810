"""What can the Python worker run? Each run leaves one line in the file named by RECORD_FILE."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgpack


def record(n: int) -> None:
    """Note `n`."""
    _append(str(n))


def add(a: int, b: int) -> None:
    """Note a sum."""
    _append(f"{a}+{b}={a + b}")


def show(*args: object, **kwargs: object) -> None:
    """Note all arguments."""
    _append(f"{args!r} {dict(sorted(kwargs.items()))!r}")


def hold(n: int) -> None:
    """Note `n` at the begin and at the end; in between wait for the file named by HOLD_FILE."""
    _append(f"begin {n}")
    tick = threading.Event()
    while not Path(os.environ["HOLD_FILE"]).exists():
        tick.wait(0.005)
    _append(f"end {n}")


def fail(n: int) -> None:
    """Note `n`, then fail, so that the number of tries can be counted."""
    _append(str(n))
    raise RuntimeError(f"demo failure {n}")


def record_bytes(*payload: int) -> None:
    """Note the integer of a Go message: the worker hands its payload over byte by byte."""
    _append(str(msgpack.unpackb(bytes(payload))))


def _append(line: str) -> None:
    """Write the line in one piece: several workers may share the file."""
    file = os.open(os.environ["RECORD_FILE"], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
