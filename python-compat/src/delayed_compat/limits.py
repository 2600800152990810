"""Limits: how many calls that name one run at a time, or begin in a period."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

import redis

from .annotations import limits_of
from .arguments import kind_of
from .errors import InvalidTaskError, shown
from .link import AsyncLink, Link, Plan
from .scripts import SET_LIMIT, UNPARK, WAKE
from .times import Duration, timedelta_of

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["set"]

LIMITS = "delayed_limits"
"""The set of the names of limits."""

LONGEST = timedelta(days=366)
_MILLISECOND = timedelta(milliseconds=1)

MAX_UNPARKED = 200
"""`lua/unpark.lua` moves no more messages at once."""


@overload
def set(
    conn: redis.Redis,
    name: str,
    *,
    concurrency: int | None = None,
    rate: int | None = None,
    period: Duration | None = None,
    burst: int | None = None,
) -> None: ...


@overload
def set(
    conn: redis.asyncio.Redis,
    name: str,
    *,
    concurrency: int | None = None,
    rate: int | None = None,
    period: Duration | None = None,
    burst: int | None = None,
) -> Awaitable[None]: ...


def set(
    conn: redis.Redis | redis.asyncio.Redis,
    name: str,
    *,
    concurrency: int | None = None,
    rate: int | None = None,
    period: Duration | None = None,
    burst: int | None = None,
) -> Awaitable[None] | None:
    """Set what a limit allows, for all calls that name it, in all queues of this Redis.

    It holds from now on, also while calls wait or run: those that may run now do. A limit that is
    lowered ends no run.

        limits.set(conn, "github", concurrency=4, rate=100, period=60)

    Args:
        conn: A client of Redis. With an asyncio client the call is to be awaited.
        name: The name of the limit, as calls give it.
        concurrency: How many calls run at the same time, at least 1. None: any number.
        rate: How many begin in each period, evenly. None: any number.
        period: That period: a `timedelta` or a number of seconds, from 1 ms to 366 days.
        burst: How many may begin at once after a time in which fewer began than the rate allows. 1
            if it is not given.

    Raises:
        InvalidTaskError: When the name or the policy is not valid; nothing was set.
        redis.RedisError: When Redis failed. The limit may have been set; to set it again is
            harmless.
    """
    checked = limits_of(name) if isinstance(name, str) else None
    if not checked:
        raise InvalidTaskError(f"name is a {kind_of(name)}; give a str")
    plan = _set(name, _policy(concurrency, rate, period, burst))
    if isinstance(conn, redis.Redis):
        return Link(conn).run(plan)
    return AsyncLink(conn).run(plan)


def _policy(concurrency: Any, rate: Any, period: Any, burst: Any) -> list[str | int]:
    """Return the fields of a policy, each with its value."""
    numbers = {"concurrency": concurrency, "rate": rate, "burst": burst}
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise InvalidTaskError(f"{name} is a {kind_of(number)}; give a whole number from 1 on")
        if not 1 <= number < 2**32:
            raise InvalidTaskError(
                f"{name} is {shown(number)}; give a whole number from 1 to 2^32-1"
            )
    if concurrency is None and rate is None:
        raise InvalidTaskError("the limit limits nothing; give concurrency, or rate and period")
    if (rate is None) != (period is None) or (rate is None and burst is not None):
        raise InvalidTaskError("rate and period belong together, and burst to them")
    policy: list[str | int] = [] if concurrency is None else ["concurrency", concurrency]
    if rate is None:
        return policy
    time = timedelta_of(period, "period")
    if not _MILLISECOND <= time <= LONGEST:
        raise InvalidTaskError(f"period is {shown(period)}; give a time from 1 ms to 366 days")
    return [*policy, "rate", rate, "period", time // _MILLISECOND, "burst", burst or 1]


def _set(name: str, policy: list[str | int]) -> Plan[None]:
    """Set the policy of a limit, and let calls run that may run then."""
    keys = [f"{{delayed:{name}}}:{end}" for end in _ENDS]
    yield "EVAL", SET_LIMIT, 1, keys[0], *policy
    yield "SADD", LIMITS, name
    again = 1  # once, with those that were told to come earlier and have not
    while True:
        _, *entries = yield "EVAL", WAKE, len(keys), *keys, again, 0
        if not entries:
            return
        by_queue: dict[str, list[str]] = {}
        for entry in entries:
            digest, _, queue = entry.decode().partition(" ")
            by_queue.setdefault(queue, []).append(digest)
        for queue, digests in by_queue.items():
            of_queue = queue, f"{queue}_noti", f"{queue}:l:{name}", f"{queue}_parked"
            for first in range(0, len(digests), MAX_UNPARKED):
                part = digests[first : first + MAX_UNPARKED]
                yield "EVAL", UNPARK, len(of_queue), *of_queue, name, 0, *part
        again = 0


_ENDS = ("policy", "holders", "line", "state", "permits")
"""What the keys of a limit end in, in the order in which scripts take them."""
