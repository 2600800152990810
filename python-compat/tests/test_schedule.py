"""Are calls scheduled whole and once, and cancelled, also when Redis fails in the middle?"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest
import redis
from delayed.queue import Queue as OriginalQueue
from delayed.task import GoTask, PyTask

from delayed_compat import (
    AlreadyScheduledError,
    AsyncQueue,
    CallState,
    CompatError,
    EnqueueError,
    Fate,
    InvalidTaskError,
    Queue,
    RustTask,
)
from faces import AsyncFace, Face

PATH = "demo::tasks::add"
HOUR = timedelta(hours=1)
ID = UUID("018bcfe5-687b-7b5c-8a3e-0123456789ab")


def later(n: int, **options: Any) -> RustTask:
    return RustTask(PATH, (n, 1), **{"after": HOUR, **options})


def timetable(conn: redis.Redis) -> dict[UUID, tuple[int, Any]]:
    """Return when each scheduled call is due (ms since 1970), and its message."""
    messages: Any = conn.hgetall("mail_later")
    dues: Any = conn.zrange("mail_due", 0, -1, withscores=True)
    assert {b"c" + id for id in messages} == {member for member, _ in dues}
    return {UUID(bytes=member[1:]): (int(due), messages[member[1:]]) for member, due in dues}


def arguments(message: bytes) -> Any:
    return msgpack.unpackb(msgpack.unpackb(message)[1])


def server_ms(conn: redis.Redis) -> int:
    seconds, microseconds = conn.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def test_a_call_is_scheduled_by_the_clock_of_redis(face: Face, conn: redis.Redis) -> None:
    before = server_ms(conn)
    task = later(1, after=90.25)
    face.enqueue(task)
    after = server_ms(conn)
    assert isinstance(task.id, UUID)
    assert (task.id.version, task.is_scheduled) == (7, True)
    ((id, (due, message)),) = timetable(conn).items()
    assert id == task.id
    assert before + 90_250 <= due <= after + 90_250
    path, payload, meta = msgpack.unpackb(message)
    assert (path, msgpack.unpackb(payload)) == (PATH, [1, 1])
    assert meta == {"i": id.bytes, "k": {}}
    assert conn.llen("mail") == conn.llen("mail_noti") == 0
    assert conn.smembers("delayed_queues") == {b"mail"}, "a sweeper has to find the queue"


@pytest.mark.parametrize(
    ("moment", "due"),
    [
        (datetime(2100, 1, 1, tzinfo=timezone.utc), 4_102_444_800_000),
        (datetime(2100, 1, 1, 1, tzinfo=timezone(HOUR)), 4_102_444_800_000),
        (4_102_444_800, 4_102_444_800_000),
        (4_102_444_800.5, 4_102_444_800_500),
        (datetime(2100, 1, 1, microsecond=1, tzinfo=timezone.utc), 4_102_444_800_001),
    ],
)
def test_a_call_is_scheduled_for_a_moment(
    face: Face, conn: redis.Redis, moment: Any, due: int
) -> None:
    face.enqueue(RustTask(PATH, at=moment, id=ID))
    assert {id: at for id, (at, _) in timetable(conn).items()} == {ID: due}


@pytest.mark.parametrize(
    "moment",
    [datetime(1969, 12, 31, tzinfo=timezone.utc), datetime.min.replace(tzinfo=timezone.utc), -1, 0],
)
def test_a_moment_that_has_passed_is_now(face: Face, conn: redis.Redis, moment: Any) -> None:
    before = server_ms(conn)
    face.enqueue(RustTask(PATH, at=moment, id=ID))
    assert before <= timetable(conn)[ID][0] <= server_ms(conn)


def test_whoever_moves_what_is_due_is_told(face: Face, conn: redis.Redis) -> None:
    conn.set("mail_timetable", "somebody")
    client: Any = conn
    with client.pubsub() as heard:
        heard.subscribe("mail:due")
        assert heard.get_message(timeout=10)
        face.enqueue(later(1))
        message = heard.get_message(timeout=10)
        assert message
        assert message["data"] == b"3600000"
    assert not conn.exists("mail_timetable")


def test_a_known_id_is_refused_and_the_first_call_stays(face: Face, conn: redis.Redis) -> None:
    face.enqueue(later(1, id=ID))
    before = timetable(conn)
    with pytest.raises(AlreadyScheduledError, match=f"{ID} is already scheduled in mail") as caught:
        face.enqueue(later(2, id=ID))
    assert (caught.value.id, caught.value.queue) == (ID, "mail")
    assert vars(pickle.loads(pickle.dumps(caught.value))) == vars(caught.value)
    assert timetable(conn) == before
    one = later(3)
    face.enqueue(one)
    with pytest.raises(AlreadyScheduledError):
        face.enqueue(one)


def test_cancel_says_in_which_state_the_call_was(face: Face, conn: redis.Redis) -> None:
    tasks = [later(n) for n in range(4)]
    assert face.enqueue_many([*tasks, later(4, id=ID)]) == 5
    assert face.cancel(tasks[0]) is CallState.SCHEDULED
    assert face.cancel(tasks[0]) is None
    ids = [task.id for task in tasks[1:] if task.id]
    for id in (ids[0], ids[1].bytes, ids[2].hex.upper()):
        assert face.cancel(id) is CallState.SCHEDULED
    assert list(timetable(conn)) == [ID]
    waits = RustTask(PATH, id=ID)
    with pytest.raises(AlreadyScheduledError):
        face.enqueue(waits)
    assert conn.zcard("mail_cancelled") == 0
    assert face.cancel(str(ID)) is CallState.SCHEDULED
    face.enqueue(waits)
    assert face.cancel(waits) is CallState.WAITING
    assert conn.zrange("mail_cancelled", 0, -1) == [ID.bytes]
    assert conn.lrange("mail", 0, -1) == [waits._message()]


def test_cancel_needs_an_id(face: Face) -> None:
    with pytest.raises(InvalidTaskError, match="has no id, so it can be neither followed nor"):
        face.cancel(RustTask(PATH))
    with pytest.raises(InvalidTaskError, match="id is ''; give a UUID"):
        face.cancel("")


def test_cancel_with_a_key_of_another_type_raises(face: Face, conn: redis.Redis) -> None:
    conn.set("mail_later", "mine")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        face.cancel(ID)


def test_many_of_all_kinds(face: Face, conn: redis.Redis) -> None:
    tasks = [
        task for n in range(1100) for task in (RustTask(PATH, (n,)), later(n), PyTask("m:f", (n,)))
    ]
    assert face.enqueue_many(iter([*tasks, GoTask("p.G")])) == 3301
    waiting: Any = conn.lrange("mail", 0, -1)
    expected = [task.serialize() for task in tasks if not getattr(task, "is_scheduled", False)]
    assert waiting == [*expected, GoTask("p.G").serialize()]
    assert conn.llen("mail_noti") == 2201
    assert sorted(arguments(message) for _, message in timetable(conn).values()) == [
        [n, 1] for n in range(1100)
    ]


def test_a_hundred_thousand_in_one_bulk(face: Face, conn: redis.Redis) -> None:
    assert face.enqueue_many((later(n) for n in range(100_000)), chunk=100_000) == 100_000
    assert len(timetable(conn)) == 100_000


def test_known_ids_of_a_bulk_are_refused_and_all_others_applied(
    face: Face, conn: redis.Redis
) -> None:
    face.enqueue(later(0, id=ID))
    tasks = [RustTask(PATH, (1,)), later(2, id=ID), later(3), RustTask(PATH, (4,))]
    with pytest.raises(EnqueueError, match=f"3 of 4 .* 1 were not: .*{ID}") as caught:
        face.enqueue_many(tasks)
    error = caught.value
    assert error.fates == [Fate.APPLIED, Fate.NOT_APPLIED, Fate.APPLIED, Fate.APPLIED]
    assert (error.applied, error.in_doubt, error.not_sent) == (3, 0, 1)
    assert isinstance(error.__cause__, AlreadyScheduledError)
    assert pickle.loads(pickle.dumps(error)).fates == error.fates
    assert (conn.llen("mail"), len(timetable(conn))) == (2, 2)


def test_one_bad_task_and_nothing_is_sent(face: Face, conn: redis.Redis) -> None:
    with pytest.raises(InvalidTaskError, match="task 2 "):
        face.enqueue_many([later(1), RustTask(PATH), PyTask("m:f", (object(),))])
    assert conn.keys() == []


@pytest.mark.parametrize("taken", ["mail_due", "mail_later"])
def test_a_key_of_another_type_leaves_nothing_behind(
    face: Face, conn: redis.Redis, taken: str
) -> None:
    conn.set(taken, "mine")
    with pytest.raises(EnqueueError, match="WRONGTYPE") as caught:
        face.enqueue(later(1))
    assert (caught.value.applied, caught.value.in_doubt) == (0, 0)
    with pytest.raises(EnqueueError, match="WRONGTYPE") as caught:
        face.enqueue_many([RustTask(PATH), later(1), later(2)])
    assert caught.value.fates == [Fate.APPLIED, Fate.NOT_APPLIED, Fate.NOT_APPLIED]
    assert isinstance(caught.value.__cause__, redis.ResponseError)
    conn.delete("mail", "mail_noti", "delayed_queues")
    assert conn.keys() == [taken.encode()]


def test_a_full_redis_leaves_nothing_behind(face: Face, conn: redis.Redis) -> None:
    face.enqueue(later(0))
    before = timetable(conn)
    conn.config_set("maxmemory", 1)
    try:
        with pytest.raises(EnqueueError, match=r"(?i)maxmemory") as caught:
            face.enqueue_many([later(1), later(2)])
    finally:
        conn.config_set("maxmemory", 0)
    assert (caught.value.applied, caught.value.in_doubt, caught.value.not_sent) == (0, 0, 2)
    assert timetable(conn) == before


def test_a_lost_answer_is_in_doubt_and_a_retry_is_safe(
    make: Callable[..., Face], conn: redis.Redis
) -> None:
    face = make(lost=(1,))
    task = later(1)
    with pytest.raises(EnqueueError, match="1 may have been, 0 were not: the answer") as caught:
        face.enqueue(task)
    assert caught.value.fates == [Fate.IN_DOUBT]
    with pytest.raises(AlreadyScheduledError):
        face.enqueue(task)
    assert len(timetable(conn)) == 1


def test_a_lost_answer_of_a_bulk_leaves_its_chunk_in_doubt(
    make: Callable[..., Face], conn: redis.Redis
) -> None:
    tasks = [task for n in range(6) for task in (later(n), RustTask(PATH, (n,)))]
    with pytest.raises(EnqueueError, match="the answer was lost") as caught:
        make(lost=(3,)).enqueue_many(tasks, chunk=4)
    sure, doubt, none = Fate.APPLIED, Fate.IN_DOUBT, Fate.NOT_APPLIED
    assert caught.value.fates == [doubt, sure] * 4 + [none, sure] * 2
    assert (conn.llen("mail"), len(timetable(conn))) == (6, 4)


def test_a_redis_that_is_down_leaves_nothing_in_doubt(
    make: Callable[..., Face], tmp_path: Path
) -> None:
    face = make(tmp_path / "none")
    with pytest.raises(EnqueueError) as caught:
        face.enqueue(later(1))
    assert (caught.value.applied, caught.value.in_doubt, caught.value.not_sent) == (0, 0, 1)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    with pytest.raises(EnqueueError) as caught:
        face.enqueue_many([RustTask(PATH), later(1)])
    assert caught.value.fates == [Fate.NOT_APPLIED] * 2
    with pytest.raises(redis.ConnectionError):
        face.enqueue(RustTask(PATH))
    with pytest.raises(redis.ConnectionError):
        face.cancel(ID)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "not a text"),
        ("a" * 201, "more than 200 bytes"),
        ("a b", "a space"),
        ("a\u200bb", "hidden"),
        ("delayed_queues", "another key"),
        ("mail_due", "another key"),
    ],
)
def test_a_queue_that_no_rust_worker_serves_takes_no_schedule(
    make: Callable[..., Face], conn: redis.Redis, name: str, said: str
) -> None:
    with pytest.raises(InvalidTaskError, match=f"{said}.*no Rust worker can serve it"):
        make(name=name).enqueue(later(1))
    assert conn.keys() == []


def test_the_original_does_not_run_a_scheduled_call_at_once(conn: redis.Redis) -> None:
    original: Any = OriginalQueue("mail", conn)
    with pytest.raises(InvalidTaskError, match="is scheduled, and cannot be enqueued by the"):
        original.enqueue(later(1))
    assert conn.keys() == []


def test_a_scheduled_call_can_release_what_was_dequeued(conn: redis.Redis, queue: Queue) -> None:
    queue._worker_id = 7
    queue.enqueue(RustTask(PATH, (1,)))
    assert queue.dequeue()
    assert conn.hlen("mail_processing") == 1
    queue.enqueue(later(2), release=True)
    assert (conn.hlen("mail_processing"), len(timetable(conn))) == (0, 1)


def test_a_cancelled_enqueue_leaves_no_answer_for_the_next(
    redis_socket: Path, conn: redis.Redis
) -> None:
    face = AsyncFace(redis_socket)

    async def cancelled(queue: AsyncQueue) -> None:
        await queue.enqueue(later(1))
        conn.client_pause(60_000, all=False)
        try:
            sending = asyncio.ensure_future(queue.enqueue_many([later(2)]))
            while not face.awaits_script:
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        finally:
            conn.client_unpause()
        assert await queue.cancel(ID) is None
        assert await queue.enqueue_many([later(3), RustTask(PATH)]) == 2

    try:
        face.run(cancelled)
    finally:
        face.close()


def test_all_errors_are_of_this_package() -> None:
    for error in (AlreadyScheduledError, EnqueueError, InvalidTaskError):
        assert issubclass(error, CompatError)
