"""Do limits get the policy that Rust writes, and which are refused?

`tests/limited` compares them with those of Rust, and has the calls that wait for them.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from delayed_compat import InvalidTaskError, limits


def policy(conn: redis.Redis) -> Any:
    return conn.hgetall("{delayed:github}:policy")


def test_a_policy_takes_the_place_of_the_one_before(conn: redis.Redis) -> None:
    limits.set(conn, "github", concurrency=4, rate=100, period=timedelta(minutes=1), burst=7)
    assert policy(conn) == {
        b"concurrency": b"4",
        b"rate": b"100",
        b"period": b"60000",
        b"burst": b"7",
    }
    limits.set(conn, "github", rate=5, period=0.5)
    assert policy(conn) == {b"rate": b"5", b"period": b"500", b"burst": b"1"}
    assert conn.smembers("delayed_limits") == {b"github"}


def test_an_asyncio_client_awaits_it(conn: redis.Redis, redis_socket: Path) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(unix_socket_path=str(redis_socket)) as client:
            await limits.set(client, "github", concurrency=1)

    asyncio.run(main())
    assert policy(conn) == {b"concurrency": b"1"}


def test_a_client_that_decodes_replies_sets_it_too(redis_socket: Path, conn: redis.Redis) -> None:
    with redis.Redis(unix_socket_path=str(redis_socket), decode_responses=True) as client:
        limits.set(client, "github", concurrency=1)
    assert policy(conn) == {b"concurrency": b"1"}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (5, {"concurrency": 1}, "name is a int; give a str"),
        ("", {"concurrency": 1}, "limit is ''; give 1 to 200 bytes"),
        ("a b", {"concurrency": 1}, "limit is 'a b'; give 1 to 200 bytes"),
        ("x", {}, "the limit limits nothing"),
        ("x", {"burst": 1}, "the limit limits nothing"),
        ("x", {"concurrency": 0}, "concurrency is 0; give a whole number from 1"),
        ("x", {"concurrency": True}, "concurrency is a bool"),
        ("x", {"rate": 2**32, "period": 1}, "rate is 4294967296; give"),
        ("x", {"rate": 1}, "rate and period belong together"),
        ("x", {"concurrency": 1, "period": 1}, "rate and period belong together"),
        ("x", {"concurrency": 1, "burst": 1}, "and burst to them"),
        ("x", {"rate": 1, "period": 1, "burst": 0}, "burst is 0"),
        ("x", {"rate": 1, "period": 0}, "period is 0; give a time from 1 ms to 366 days"),
        ("x", {"rate": 1, "period": timedelta(days=367)}, "period is .*; give a time from 1 ms"),
        ("x", {"rate": 1, "period": "1m"}, "period is a str; give a timedelta"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(
    conn: redis.Redis, name: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        limits.set(conn, name, **options)
    assert conn.keys("*") == []
