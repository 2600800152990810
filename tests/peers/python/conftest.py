"""The Redis and the programs of both languages that these tests need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

HERE = Path(__file__).parent
COMPAT = HERE.parents[2] / "python-compat"
sys.path[:0] = [str(COMPAT / "src"), str(COMPAT / "tests")]

from processes import Programs, build_go
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


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(HERE.parent / "go", tmp_path_factory.mktemp("go") / "delayed-test")


@pytest.fixture
def programs(
    redis_socket: Path, go_program: Path, tmp_path: Path, conn: redis.Redis
) -> Iterator[Programs]:
    running = Programs(f"unix://{redis_socket}", go_program, tmp_path, COMPAT / "src")
    yield running
    running.kill_all()
