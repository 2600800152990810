"""The Redis that every test of this package talks to: one server, emptied before each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from delayed_compat import Queue
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
