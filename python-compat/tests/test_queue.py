"""Are tasks enqueued whole, in order and once, also when Redis fails in the middle?"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import redis
from delayed.queue import Queue as OriginalQueue
from delayed.task import GoTask, PyTask
from redis.backoff import NoBackoff
from redis.retry import Retry

from delayed_compat import EnqueueError, InvalidTaskError, Queue, RustTask
from delayed_compat.queue import Task
from faces import AsyncFace

PATH = "demo::tasks::add"


def tasks(count: int) -> list[RustTask]:
    return [RustTask(PATH, (n,)) for n in range(count)]


def messages(count: int) -> list[bytes]:
    return [task.serialize() for task in tasks(count)]


def held(conn: redis.Redis) -> tuple[Any, Any]:
    """Return the waiting messages and the notifications, as they stand."""
    return conn.lrange("mail", 0, -1), conn.lrange("mail_noti", 0, -1)


@pytest.mark.parametrize("cls", [OriginalQueue, Queue])
def test_the_original_enqueue_sends_a_rust_task(conn: redis.Redis, cls: type[Any]) -> None:
    cls("mail", conn).enqueue(RustTask(PATH, (1,), {"b": 2}, 3))
    golden = bytes.fromhex("94b064656d6f3a3a7461736b733a3a616464910181a1620203")
    assert held(conn) == ([golden], [b"1"])


def test_the_original_dequeues_a_rust_task(conn: redis.Redis) -> None:
    queue: Any = OriginalQueue("mail", conn)
    queue._worker_id = 7
    queue.enqueue(RustTask(PATH, (1,), {"b": 2}))
    task = queue.dequeue()
    assert task
    assert (task._func_path, task._args, task._kwargs) == (PATH, [1], {"b": 2})


@pytest.mark.parametrize("chunk", [1, 999, 1000, 2500, 100_000])
def test_many_are_as_many_and_in_order(conn: redis.Redis, queue: Queue, chunk: int) -> None:
    queue.enqueue(RustTask("first"))
    assert queue.enqueue_many(tasks(2500), chunk) == 2500
    waiting = [RustTask("first").serialize(), *messages(2500)]
    assert held(conn) == (waiting, [b"1"] * 2501)


def test_a_chunk_beyond_the_limit_of_one_push_goes_through(conn: redis.Redis, queue: Queue) -> None:
    assert queue.enqueue_many(tasks(20_001), chunk=20_001) == 20_001
    assert held(conn) == (messages(20_001), [b"1"] * 20_001)


def test_each_chunk_is_one_command(conn: redis.Redis, queue: Queue) -> None:
    conn.config_resetstat()
    queue.enqueue_many(tasks(2500))
    stats: Any = conn.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 3


def test_all_kinds_of_tasks_and_a_generator(conn: redis.Redis, queue: Queue) -> None:
    mixed: list[Task] = [
        RustTask("a", (1,)),
        PyTask("m:f", (1,)),
        GoTask("p.F", (1,)),
        GoTask("p.G"),
    ]
    assert queue.enqueue_many(task for task in mixed) == 4
    golden = ["92a1619101", "92a36d3a669101", "92a3702e46c4029101", "a3702e47"]
    assert held(conn) == ([bytes.fromhex(one) for one in golden], [b"1"] * 4)


def test_none_is_nothing(conn: redis.Redis, queue: Queue) -> None:
    assert queue.enqueue_many([]) == 0
    assert held(conn) == ([], [])


@pytest.mark.parametrize("chunk", [0, -1, True, 1.5, "10", 100_001])
def test_a_bad_chunk_is_refused(queue: Queue, chunk: Any) -> None:
    with pytest.raises(ValueError, match="give a whole number from 1 to 100000"):
        queue.enqueue_many(tasks(1), chunk)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (PyTask("m:f", (object(),)), r"task 3 \('m:f'\) cannot be serialised: can not serialize"),
        (GoTask("p.F", 2**64), r"task 3 \('p.F'\) cannot be serialised"),
        (PATH, "task 3 is a str; give a RustTask, a PyTask, a GoTask or a RustItem"),
    ],
)
def test_one_bad_task_and_nothing_is_sent(
    conn: redis.Redis, queue: Queue, bad: Any, said: str
) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        queue.enqueue_many([*tasks(3), bad], chunk=1)
    assert held(conn) == ([], [])


@pytest.mark.parametrize("taken", ["mail", "mail_noti"])
@pytest.mark.parametrize("chunk", [10, 3000])
def test_a_key_of_another_type_leaves_nothing_behind(
    conn: redis.Redis, queue: Queue, taken: str, chunk: int
) -> None:
    conn.set(taken, "mine")
    with pytest.raises(EnqueueError, match="WRONGTYPE") as caught:
        queue.enqueue_many(tasks(3000), chunk)
    error = caught.value
    assert (error.applied, error.in_doubt, error.not_sent) == (0, 0, 3000)
    assert isinstance(error.__cause__, redis.ResponseError)
    assert conn.keys() == [taken.encode()]
    assert conn.get(taken) == b"mine"


def test_only_the_failing_chunk_is_taken_back(conn: redis.Redis, queue: Queue) -> None:
    queue.enqueue_many(tasks(5))
    conn.set("mail_noti", "mine")
    with pytest.raises(EnqueueError, match="WRONGTYPE"):
        queue.enqueue_many(tasks(3000), chunk=2500)
    assert conn.lrange("mail", 0, -1) == messages(5)


def test_a_full_redis_leaves_nothing_behind(conn: redis.Redis, queue: Queue) -> None:
    conn.config_set("maxmemory", 1)
    try:
        with pytest.raises(EnqueueError, match=r"(?i)maxmemory") as caught:
            queue.enqueue_many(tasks(10))
    finally:
        conn.config_set("maxmemory", 0)
    assert (caught.value.applied, caught.value.in_doubt) == (0, 0)
    assert held(conn) == ([], [])


class LosesAnAnswer(redis.UnixDomainSocketConnection):
    """Redis carries out the EVAL of number `lost`, but the connection is gone before the answer."""

    lost: ClassVar[int] = 0
    evals: ClassVar[int] = 0
    awaits_eval = False

    def send_command(self, *args: Any, **kwargs: Any) -> None:
        self.awaits_eval = args[0] == "EVAL"
        type(self).evals += self.awaits_eval
        super().send_command(*args, **kwargs)  # type: ignore[no-untyped-call]

    def read_response(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().read_response(*args, **kwargs)
        if self.awaits_eval and self.evals == self.lost:
            raise redis.ConnectionError("the answer was lost")
        return answer


@pytest.fixture
def lossy(redis_socket: Path) -> Iterator[redis.Redis]:
    LosesAnAnswer.evals = 0
    pool = redis.ConnectionPool(
        connection_class=LosesAnAnswer, path=str(redis_socket), retry=Retry(NoBackoff(), 3)
    )
    with redis.Redis(connection_pool=pool) as client:
        yield client
    pool.disconnect()


@pytest.mark.parametrize(("lost", "applied", "in_doubt"), [(1, 0, 4), (2, 4, 4), (3, 8, 2)])
def test_chunk_with_a_lost_reply_is_in_doubt_and_not_sent_again(
    conn: redis.Redis, lossy: redis.Redis, lost: int, applied: int, in_doubt: int
) -> None:
    LosesAnAnswer.lost = lost
    queue = Queue("mail", lossy)
    with pytest.raises(EnqueueError, match="the answer was lost") as caught:
        queue.enqueue_many(tasks(10), chunk=4)
    error = caught.value
    assert (error.applied, error.in_doubt) == (applied, in_doubt)
    assert error.not_sent == 10 - applied - in_doubt
    reached = applied + in_doubt
    assert held(conn) == (messages(reached), [b"1"] * reached)

    assert queue.enqueue_many(tasks(10)[reached:], chunk=4) == error.not_sent
    assert held(conn) == (messages(10), [b"1"] * 10)


def test_no_connection_leaves_nothing_in_doubt(tmp_path: Path) -> None:
    nowhere = redis.Redis(unix_socket_path=str(tmp_path / "none"), retry=Retry(NoBackoff(), 0))
    with pytest.raises(EnqueueError) as caught:
        Queue("mail", nowhere).enqueue_many(tasks(3))
    assert (caught.value.applied, caught.value.in_doubt, caught.value.not_sent) == (0, 0, 3)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)


def test_the_error_says_it_in_words_and_can_be_pickled() -> None:
    sure, doubtful = EnqueueError(4, 0, 10, "gone"), EnqueueError(4, 4, 10, "gone")
    assert str(sure) == "4 of 10 tasks were enqueued, the failing chunk was not applied: gone"
    assert str(doubtful) == (
        "4 of 10 tasks were enqueued, the next 4 may have been applied, all or none: gone"
    )
    assert vars(pickle.loads(pickle.dumps(doubtful))) == vars(doubtful)


@pytest.mark.parametrize("timeout", [0.01, 1])
def test_dequeue_waits_as_long_as_it_is_told(conn: redis.Redis, timeout: float) -> None:
    queue: Any = Queue("mail", conn, dequeue_timeout=timeout, keep_alive_timeout=5)
    queue._worker_id = 7
    begin = time.monotonic()
    assert queue.dequeue() is None
    assert time.monotonic() - begin >= timeout
    queue.enqueue(PyTask("m:f", (1,)))
    assert queue.dequeue()._args == [1]
    assert queue.try_online()
    assert 0 < int(conn.ttl("7")) <= 5


def test_the_asyncio_queue_enqueues_as_the_sync_one(
    conn: redis.Redis, redis_socket: Path, queue: Queue
) -> None:
    mixed: list[Task] = [RustTask("a", (1,)), PyTask("m:f", (1,)), GoTask("p.F", (1,))]
    face = AsyncFace(redis_socket)
    try:
        for task in mixed:
            face.enqueue(task)
        assert face.enqueue_many(mixed, chunk=2) == 3
        one_by_one = held(conn)
        with pytest.raises(InvalidTaskError, match="task 0 is a str"):
            face.enqueue("a")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="give a whole number from 1 to 100000"):
            face.enqueue_many(mixed, chunk=0)
    finally:
        face.close()
    conn.flushall()
    for task in mixed:
        queue.enqueue(task)
    queue.enqueue_many(mixed)
    assert held(conn) == one_by_one


def test_many_are_sent_by_the_asyncio_queue_in_order_and_whole(
    conn: redis.Redis, redis_socket: Path
) -> None:
    face = AsyncFace(redis_socket, lost=(3,))
    try:
        with pytest.raises(EnqueueError, match="the answer was lost") as caught:
            face.enqueue_many(tasks(10), chunk=4)
        assert (caught.value.applied, caught.value.in_doubt) == (8, 2)
        conn.flushall()
        assert face.enqueue_many(tasks(100_000), chunk=20_001) == 100_000
    finally:
        face.close()
    assert held(conn) == (messages(100_000), [b"1"] * 100_000)
