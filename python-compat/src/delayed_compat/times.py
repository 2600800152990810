"""Turns durations and moments into the whole milliseconds that travel."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any, Union

from .errors import InvalidTaskError, shown

__all__ = ["Duration", "Moment", "delay_ms", "moment_ms", "span_ms", "timedelta_of", "timeout_ms"]

Duration = Union[timedelta, float]
"""A duration as a caller may give it: a `timedelta`, or a number of seconds."""

Moment = Union[datetime, float]
"""A moment as a caller may give it: a `datetime` with a time zone, or seconds since 1970 (UTC)."""

FURTHEST = timedelta(days=101 * 366)
"""A call is scheduled for that far ahead at most: more than a hundred years."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def timedelta_of(value: Any, name: str) -> timedelta:
    """Return a duration that is not negative; numbers are seconds, rounded to microseconds.

    Raises:
        InvalidTaskError: When it is no duration, is negative, is not finite or is too long for a
            `timedelta`.
    """
    if isinstance(value, timedelta):
        duration = value
    else:
        seconds = _number(value, name, "a timedelta or a number of seconds")
        try:
            duration = timedelta(seconds=seconds)
        except OverflowError:
            raise InvalidTaskError(f"{name} is {shown(value)} seconds, which is too long") from None
    if duration < timedelta(0):
        raise InvalidTaskError(f"{name} is negative ({shown(value)}); give a duration of 0 or more")
    return duration


def delay_ms(value: Any, name: str) -> int:
    """Return how many milliseconds from now a call is due; what is less than one is dropped."""
    duration = timedelta_of(value, name)
    if duration > FURTHEST:
        raise _too_far(name, value)
    return duration // _MILLISECOND


def span_ms(value: Any, name: str) -> int:
    """Return a duration in milliseconds, rounded up; at most a hundred years."""
    duration = timedelta_of(value, name)
    if duration > FURTHEST:
        raise InvalidTaskError(f"{name} is {shown(value)}; a hundred years is the most")
    return _round_up(duration // _MICROSECOND)


def timeout_ms(value: Any, name: str) -> int:
    """Return a limit in milliseconds, rounded up, and at least 1."""
    return max(_round_up(timedelta_of(value, name) // _MICROSECOND), 1)


def moment_ms(value: Any, name: str, *, is_due: bool = False) -> int:
    """Return a moment in milliseconds since 1970, rounded up; 0 for what lies before 1970.

    Args:
        value: A `datetime` with a time zone, or seconds since 1970.
        name: What the argument is called, for an error.
        is_due: Whether a call is to be due then: not more than a hundred years ahead.

    Raises:
        InvalidTaskError: When it is no moment, has no time zone, or is too far ahead.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidTaskError(
                f"{name} is the naive datetime {value}; give it a time zone, "
                "such as value.replace(tzinfo=timezone.utc)"
            )
        microseconds = (value - _EPOCH) // _MICROSECOND
    else:
        seconds = _number(value, name, "a datetime with a time zone or seconds since 1970")
        microseconds = seconds * 1_000_000 if isinstance(seconds, int) else round(seconds * 1e6)
    now = (datetime.now(timezone.utc) - _EPOCH) // _MICROSECOND
    if is_due and microseconds - now > FURTHEST // _MICROSECOND:
        raise _too_far(name, value)
    milliseconds = max(_round_up(microseconds), 0)
    if milliseconds >= 2**64:
        raise InvalidTaskError(f"{name} is {shown(value)}, beyond 64 bits of milliseconds")
    return milliseconds


def _number(value: Any, name: str, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTaskError(f"{name} is a {type(value).__qualname__}; give {expected}")
    if isinstance(value, float) and not math.isfinite(value * 1e6):
        raise InvalidTaskError(f"{name} is {shown(value)}; give {expected}")
    return value


def _round_up(microseconds: int) -> int:
    return -(-microseconds // 1000)


def _too_far(name: str, value: Any) -> InvalidTaskError:
    return InvalidTaskError(
        f"{name} is {shown(value)}; a call is scheduled for a hundred years from now at the most"
    )
