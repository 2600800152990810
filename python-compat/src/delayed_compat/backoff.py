"""Says how long a failed call waits before it is tried again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any

from .errors import InvalidTaskError, shown
from .times import Duration, timedelta_of

__all__ = ["Backoff"]

_LONGEST = timedelta(days=365)
_SPAN = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,19})?)\s*([A-Za-zµ]+)")
_MICROSECONDS = {
    unit: microseconds
    for units, microseconds in {
        "us usec µs": 1,
        "ms msec millis": 1000,
        "s sec secs second seconds": 1_000_000,
        "m min mins minute minutes": 60_000_000,
        "h hr hrs hour hours": 3_600_000_000,
        "d day days": 86_400_000_000,
        "w wk wks week weeks": 7 * 86_400_000_000,
        "M month months": 2_630_016_000_000,
        "y yr yrs year years": 31_557_600_000_000,
    }.items()
    for unit in units.split()
}
_WRITTEN = ("month", "day", "h", "m", "s", "ms", "us")


@dataclass(frozen=True)
class Backoff:
    """How long a call waits after each failed attempt, as Rust's `Backoff`; up to a quarter more.

    Made by `none`, `fixed`, `linear`, `exponential` or, from a text, `parse`. Durations are a
    `timedelta` or a number of seconds, from 1 µs to 365 days.
    """

    text: str
    """As it travels, and as `--backoff` takes it: `none`, `fixed:30s`, `linear:10s..5m` or
    `exponential:1s..10m`."""

    @classmethod
    def none(cls) -> Backoff:
        """Not at all: it goes to the tail of its queue at once."""
        return cls("none")

    @classmethod
    def fixed(cls, delay: Duration) -> Backoff:
        """The same time after each attempt."""
        return cls(f"fixed:{_write(_wait(delay, 'delay'))}")

    @classmethod
    def linear(cls, first: Duration, max: Duration) -> Backoff:
        """The time `first`, twice that, three times that, and so on, but not longer than `max`."""
        return cls(f"linear:{_range(first, max)}")

    @classmethod
    def exponential(cls, first: Duration, max: Duration) -> Backoff:
        """The time `first`, doubled after each attempt, but not longer than `max`."""
        return cls(f"exponential:{_range(first, max)}")

    @classmethod
    def parse(cls, text: str) -> Backoff:
        """Read a back-off as Rust's command line does, such as `linear:10s..5m`.

        Raises:
            InvalidTaskError: When it is none.
        """
        kind, colon, rest = text.strip().partition(":")
        if kind == "none" and not colon:
            return cls.none()
        first, dots, last = rest.partition("..")
        try:
            if kind == "fixed" and not dots:
                return cls.fixed(_read(rest))
            if kind in ("linear", "exponential") and dots:
                make = cls.linear if kind == "linear" else cls.exponential
                return make(_read(first), _read(last))
        except InvalidTaskError as error:
            raise _refuse(text, f"; {error}") from None
        raise _refuse(text, "")

    def __str__(self) -> str:
        return self.text


def backoff_text(value: Any) -> str:
    """Return what travels of a `Backoff` or its text."""
    if isinstance(value, Backoff):
        value = value.text  # read again: nothing keeps a caller from making one of any text
    if not isinstance(value, str):
        raise InvalidTaskError(f"backoff is a {type(value).__qualname__}; give a Backoff or a str")
    return Backoff.parse(value).text


def _wait(value: Any, name: str) -> timedelta:
    duration = timedelta_of(value, name)
    if not duration:
        raise InvalidTaskError("a wait is longer than 0")
    if duration > _LONGEST:
        raise InvalidTaskError("a wait is at most 365d")
    return duration


def _range(first: Any, last: Any) -> str:
    begin, end = _wait(first, "first"), _wait(last, "max")
    if begin > end:
        raise InvalidTaskError("the first wait is longer than the last")
    return f"{_write(begin)}..{_write(end)}"


def _read(text: str) -> timedelta:
    spans = list(_SPAN.finditer(text))
    if not spans or "".join(span.group() for span in spans) != text.rstrip():
        raise InvalidTaskError(f"{shown(text)} is no duration such as 30s or 1h30m")
    total = Fraction(0)
    for span in spans:
        number, unit = span.groups()
        if unit not in _MICROSECONDS:
            raise InvalidTaskError(f"{shown(text)} has the unknown unit {shown(unit)}")
        total += Fraction(number) * _MICROSECONDS[unit]
    if total.denominator != 1:
        raise InvalidTaskError(f"{shown(text)} is not a whole number of microseconds")
    if total > _LONGEST // timedelta(microseconds=1):
        raise InvalidTaskError("a wait is at most 365d")
    return timedelta(microseconds=int(total))


def _write(duration: timedelta) -> str:
    """Write it as Rust does: the largest units first, without spaces."""
    rest, parts = duration // timedelta(microseconds=1), ""
    for unit in _WRITTEN:
        count, rest = divmod(rest, _MICROSECONDS[unit])
        if count:
            parts += f"{count}{unit}{'s' if count > 1 and unit in ('month', 'day') else ''}"
    return parts


def _refuse(text: str, problem: str) -> InvalidTaskError:
    return InvalidTaskError(
        f"{shown(text)} is not a back-off: use none, fixed:30s, linear:10s..5m or "
        f"exponential:1s..10m{problem}"
    )
