"""The Redis that every test of this package talks to: one server, emptied before each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from delayed_compat import Queue
from faces import AsyncFace, Face, SyncFace
from redis_server import running_redis


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[Path]:
    with running_redis() as socket:
        yield socket


@pytest.fixture
def conn(redis_socket: Path) -> Iterator[redis.Redis]:
    with redis.Redis(unix_socket_path=str(redis_socket)) as client:
        client.flushall()
        yield client


@pytest.fixture
def queue(conn: redis.Redis) -> Queue:
    return Queue("mail", conn)


@pytest.fixture(params=[SyncFace, AsyncFace], ids=["sync", "asyncio"])
def make(request: pytest.FixtureRequest, redis_socket: Path) -> Iterator[Callable[..., Face]]:
    """Make a queue of either kind, by default on the Redis of the tests."""
    made: list[Face] = []

    def of(socket: Path = redis_socket, **options: Any) -> Face:
        made.append(request.param(socket, **options))
        return made[-1]

    yield of
    for face in made:
        face.close()


@pytest.fixture
def face(make: Callable[..., Face], conn: redis.Redis) -> Face:
    return make()
