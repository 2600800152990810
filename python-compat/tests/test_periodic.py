"""Are periodic tasks defined with the bytes of a Rust client, and what cannot be one refused?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from delayed_compat import (
    AsyncQueue,
    Flow,
    GoTask,
    InvalidTaskError,
    PyTask,
    Queue,
    RustStep,
    RustTask,
    chain,
    group,
)
from delayed_compat.periodic import definition_of
from flows import flow as described

VECTORS = Path(__file__).parents[2] / "tests" / "wire" / "periodic.json"
TASK = RustTask("demo::report", ("full",))


def task(case: dict[str, Any]) -> Any:
    if case["language"] == "flow":
        return described(case["flow"])
    kinds = {"rust": RustTask, "python": PyTask, "go": GoTask}
    kind: Any = kinds[case["language"]]
    if case["language"] == "rust":
        return kind(case["path"], case["args"], case["kwargs"], **case["options"])
    return kind(case["path"], case["args"])


@pytest.mark.parametrize(
    "case", json.loads(VECTORS.read_text())["cases"], ids=lambda case: str(case["name"])
)
def test_a_definition_has_the_bytes_that_rust_writes(case: dict[str, Any]) -> None:
    definition = definition_of("q", task=task(case), **case["definition"])
    assert definition.hex() == case["hex"]


def test_a_task_is_defined_changed_paused_and_removed(conn: redis.Redis, queue: Queue) -> None:
    assert queue.periodic.add("nightly", "0 3 * * *", TASK, tz="Europe/Berlin")
    assert conn.zscore("mail_due", "pnightly") == 0
    assert conn.sismember("delayed_queues", "mail")
    assert not queue.periodic.add("nightly", "@daily", TASK, replace=False)
    assert queue.periodic.add("nightly", "@daily", TASK)
    assert b"@daily" in (conn.hget("mail_periodic", "d:nightly") or b"")
    assert queue.periodic.pause("nightly") is True
    assert queue.periodic.pause("nightly") is False
    assert conn.zcard("mail_due") == 0
    assert queue.periodic.resume("nightly") is True
    assert queue.periodic.resume("other") is None
    assert queue.periodic.remove("nightly")
    assert not queue.periodic.remove("nightly")
    assert conn.keys("mail_*") == []


def test_overlap_queue_sets_its_limit(conn: redis.Redis, queue: Queue) -> None:
    queue.periodic.add("sync", "@hourly", TASK, overlap="queue")
    assert conn.hgetall("{delayed:periodic:mail:sync}:policy") == {b"concurrency": b"1"}
    assert conn.smembers("delayed_limits") == {b"periodic:mail:sync"}


def test_the_same_works_in_asyncio(redis_socket: Path, conn: redis.Redis) -> None:
    async def define() -> None:
        client = redis.asyncio.Redis(unix_socket_path=str(redis_socket))
        queue = AsyncQueue("mail", client)
        assert await queue.periodic.add("nightly", "0 3 * * *", TASK)
        assert await queue.periodic.pause("nightly")
        assert await queue.periodic.resume("nightly")
        assert await queue.periodic.remove("nightly")
        await client.aclose()

    asyncio.run(define())
    assert conn.keys("mail_*") == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "two words"}, "the name is not valid"),
        ({"name": ""}, "the name is not valid"),
        ({"cron": "0 3 * *"}, "give five fields"),
        ({"cron": "@often"}, "give five fields"),
        ({"tz": "Europe/Bärlin"}, "give a name such as 'Europe/Berlin'"),
        ({"overlap": "wait"}, "give 'allow', 'skip' or 'queue'"),
        ({"missed": "all:0"}, "'all:N' up to 1000"),
        ({"task": RustTask("f", after=5)}, "leave out after, at, id"),
        ({"task": PyTask("m:f"), "overlap": "skip"}, "nobody knows when"),
        ({"task": GoTask("m.F"), "expires": 5}, "no place for expires"),
        ({"task": Flow(chain(TASK), after=5)}, "leave out all but on_error and keep"),
        ({"task": Flow(chain(TASK), id="a")}, "leave out all but on_error and keep"),
        ({"task": Flow(chain(TASK), front=True)}, "leave out all but on_error and keep"),
        ({"task": chain(RustStep("f"))}, "there is no result before it"),
        ({"task": RustStep("f")}, "make it part of a flow"),
        ({"task": group([TASK]), "overlap": "queue"}, "give overlap 'allow' or 'skip'"),
    ],
)
def test_what_cannot_be_one_is_refused(queue: Queue, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidTaskError, match=r"^periodic task ") as refused:
        queue.periodic.add(**{"name": "n", "cron": "@daily", "task": TASK, **options})
    assert says in str(refused.value)
