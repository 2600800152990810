"""Do items fill batches as those of Rust do, and which are refused?

`tests/batches` compares them with those of Rust, and has a worker that runs them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgpack
import pytest
import redis

from delayed_compat import EnqueueError, Fate, InvalidTaskError, Queue, RustItem, RustTask, chain
from delayed_compat.item import fillings
from delayed_compat.queue import Task
from faces import Face

PATH = "demo::index"


def item(n: Any, **options: Any) -> RustItem:
    return RustItem(PATH, n, **{"max": 5, "within": 60, **options})


def flow_of(part: Any) -> Any:
    return chain(part)


def filling(conn: redis.Redis, name: str = PATH) -> list[Any]:
    """Return the items of a batch that fills."""
    _, *items = conn.lrange(f"mail:g:{name}", 0, -1) or [b""]
    return [msgpack.unpackb(item) for item in items]


def waiting(conn: redis.Redis) -> list[tuple[str, Any]]:
    """Return the path and the arguments of each message, after a look at the notifications."""
    assert conn.lrange("mail_noti", 0, -1) == [b"1"] * conn.llen("mail")
    messages = [msgpack.unpackb(message) for message in conn.lrange("mail", 0, -1)]
    return [(path, msgpack.unpackb(payload)) for path, payload in messages]


def test_full_batch_becomes_a_message(face: Face, conn: redis.Redis) -> None:
    for n in range(7):
        handle = face.enqueue(item(n))
        assert (handle.id, handle.is_new) == (None, True)
    assert waiting(conn) == [(PATH, [0, 1, 2, 3, 4])]
    assert filling(conn) == [5, 6]
    assert conn.smembers("delayed_queues") == {b"mail"}, "a sweeper has to find the queue"


def test_bulk_fills_its_own_batches(face: Face, conn: redis.Redis) -> None:
    face.enqueue(item("first"))
    assert face.enqueue_many(item(n) for n in range(13)) == 13
    assert waiting(conn) == [(PATH, [0, 1, 2, 3, 4]), (PATH, [5, 6, 7, 8, 9])]
    assert filling(conn) == ["first", 10, 11, 12]


def test_each_batch_of_a_bulk_gets_its_own_items(face: Face, conn: redis.Redis) -> None:
    keyed = [item(n, key="even" if n % 2 == 0 else None) for n in range(10)]
    other = [RustItem("demo::other", n, max=2, within=60) for n in range(3)]
    assert face.enqueue_many([*keyed, *other]) == 13
    even, odd, others = [0, 2, 4, 6, 8], [1, 3, 5, 7, 9], [0, 1]
    assert waiting(conn) == [(PATH, even), (PATH, odd), ("demo::other", others)]
    assert filling(conn, "demo::other") == [2]
    assert (filling(conn), filling(conn, f"{PATH} even")) == ([], [])


def test_items_are_sent_last_a_thousand_at_a_time(face: Face, conn: redis.Redis) -> None:
    conn.config_resetstat()
    tasks: list[Task] = [item(n, max=10_000) for n in range(2500)]
    by_itself = RustTask(PATH, (["by itself"],))
    tasks.append(by_itself)
    assert face.enqueue_many(tasks, chunk=100_000) == 2501
    stats: Any = conn.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 1 + 3
    assert conn.lrange("mail", 0, -1) == [by_itself.serialize()]
    assert filling(conn) == list(range(2500))


def test_batch_is_due_by_within_or_grace(conn: redis.Redis, queue: Queue) -> None:
    queue.enqueue(item(1, within=0.0011))
    queue.enqueue(item(1, within=timedelta(hours=1), grace=0.25, key="k"))
    seconds, microseconds = conn.time()
    now = int(seconds) * 1000 + int(microseconds) // 1000
    entries: Any = conn.zrange("mail_due", 0, -1, withscores=True)
    due = dict(entries)
    began = int(conn.lindex(f"mail:g:{PATH}", 0).split()[0])  # type: ignore[union-attr]
    assert due[f"g{PATH}".encode()] == began + 2, "expected whole milliseconds, rounded up"
    began = int(conn.lindex(f"mail:g:{PATH} k", 0).split()[0])  # type: ignore[union-attr]
    assert due[f"g{PATH} k".encode()] == began + 250
    assert now - 60_000 < began <= now


def test_full_batches_are_made_of_items_that_are_not_too_large() -> None:
    def sent(*sizes: int) -> tuple[Any, ...]:
        _, most, _, _, full, rest, *more = fillings(item(b"x" * size, max=2) for size in sizes)
        assert len(more) == int(full) + int(rest)
        return most, full, rest

    large = 4 << 20
    assert sent(1, 1, 1, 1, 1) == (2, 2, 1)
    assert sent(1) == (2, 0, 1)
    assert sent(1, 1, large, 1, 1, 1) == (2, 1, 4)


def test_item_keeps_what_it_was_made_of(conn: redis.Redis, queue: Queue) -> None:
    page = {"url": "/"}
    first = item(page, key="eu", queue="mail")
    page["url"] = "changed"
    queue.enqueue(pickle.loads(pickle.dumps(first)))
    assert filling(conn, f"{PATH} eu") == [{"url": "/"}]
    assert (first.path, first.key, first.queue) == (PATH, "eu", "mail")
    assert repr(first) == "RustItem('demo::index', 7 bytes, key='eu')"


def test_lost_reply_leaves_items_in_doubt(conn: redis.Redis, make: Callable[..., Face]) -> None:
    with pytest.raises(EnqueueError, match="the answer was lost") as caught:
        make(lost=(2,)).enqueue_many((item(n) for n in range(10)), chunk=4)
    expected = [Fate.APPLIED] * 4 + [Fate.IN_DOUBT] * 4 + [Fate.NOT_APPLIED] * 2
    assert caught.value.fates == expected
    assert (waiting(conn), filling(conn)) == ([(PATH, [0, 1, 2, 3, 4])], [5, 6, 7])


def test_key_of_another_type_is_an_error(face: Face, conn: redis.Redis) -> None:
    conn.set(f"mail:g:{PATH}", "mine")
    with pytest.raises(EnqueueError, match="WRONGTYPE") as caught:
        face.enqueue(item(1))
    assert (caught.value.in_doubt, caught.value.not_sent) == (0, 1)
    assert conn.get(f"mail:g:{PATH}") == b"mine"
    assert conn.exists("mail", "mail_noti", "mail_due") == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": 5}, "path is a int; give the Rust task's path as a str"),
        ({"path": ""}, "path is ''; give"),
        ({"path": "a b"}, "RustItem 'a b': path contains a space"),
        ({"path": "a\0"}, "path contains a space or a control character"),
        ({"item": Decimal(1)}, f"RustItem '{PATH}': item is a Decimal, which"),
        ({"item": [{"at": datetime(2030, 1, 1)}]}, r"item\[0\]\['at'\] is the naive datetime"),
        ({"item": 2**64}, "item is 18446744073709551616, beyond 64 bits"),
        ({"max": 0}, "max is 0; give a whole number from 1 to 10000"),
        ({"max": 10_001}, "max is 10001; give a whole number from 1 to 10000"),
        ({"max": True}, "max is a bool; give a whole number"),
        ({"max": 1.0}, "max is a float"),
        ({"within": 0}, "within is 0; give a time above 0, up to 365 days"),
        ({"within": timedelta(days=366)}, "within is .*; give a time above 0, up to 365 days"),
        ({"within": -1}, "within is negative"),
        ({"within": "2s"}, "within is a str; give a timedelta"),
        ({"within": None}, "within is a NoneType; give a timedelta"),
        ({"grace": 0}, "grace is 0; give a time above 0"),
        ({"grace": 61}, "grace is 61, longer than within"),
        ({"key": ""}, "key is ''; give 1 to 200 bytes of printable text without spaces"),
        ({"key": "a b"}, "key is 'a b'; give 1 to 200 bytes"),
        ({"key": "\u200b"}, "key is .*; give 1 to 200 bytes"),
        ({"key": "\ud800"}, "key is .*; give 1 to 200 bytes"),
        ({"key": "\u00e9" * 101}, "key is .*; give 1 to 200 bytes"),
        ({"key": 7}, "key is a int; give a str"),
    ],
)
def test_item_that_cannot_be_meant_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        RustItem(**{"path": PATH, "item": 1, "max": 5, "within": 60, **options})


@pytest.mark.parametrize(
    ("send", "said"),
    [
        (
            lambda queue: queue.enqueue(item(1, queue="other")),
            "is for the queue 'other'",
        ),
        (
            lambda queue: queue.enqueue_many([item(1), item(2, queue="other")]),
            "RustItem .* is for the",
        ),
        (lambda queue: queue.cancel(item(1)), "id is RustItem"),
        (lambda queue: queue.enqueue(flow_of(item(1))), "a RustItem cannot be a part of a flow"),
        (lambda queue: queue.periodic.add("x", "@hourly", item(1)), "is an item of a batch"),
        (lambda queue: item(1).serialize(), "enqueue it with delayed_compat.Queue or AsyncQueue"),
        (lambda queue: Queue("x_noti", queue._conn).enqueue(item(1)), "the queue name 'x_noti'"),
    ],
)
def test_item_in_the_wrong_place_is_refused(
    conn: redis.Redis, queue: Queue, send: Callable[[Any], Any], said: str
) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        send(queue)
    assert conn.keys("*") == []


def test_key_has_as_many_bytes_as_it_may(conn: redis.Redis, queue: Queue) -> None:
    key = "\u00e9" * 100
    queue.enqueue(item(1, key=key))
    assert filling(conn, f"{PATH} {key}") == [1]
