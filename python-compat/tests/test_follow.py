"""Are calls followed, unique and cancelled as those of Rust, and is no end missed?

The ends here are cancellations, which need no worker; `tests/interop` has those of a Rust worker.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest
import redis
import redis.asyncio
from delayed.task import GoTask as OriginalGoTask
from delayed.task import PyTask as OriginalPyTask

from delayed_compat import (
    AlreadyScheduledError,
    AsyncQueue,
    CallCancelledError,
    CallExistsError,
    CallExpiredError,
    CallFailedError,
    CallNotFoundError,
    CallState,
    CallTimeoutError,
    CompatError,
    EnqueueError,
    Fate,
    GoTask,
    Held,
    InvalidTaskError,
    PyTask,
    Queue,
    QueueFullError,
    Replaced,
    ResultError,
    ResultTooLargeError,
    RustTask,
    WaitError,
)
from delayed_compat.cancel import cancel
from delayed_compat.link import AsyncLink, Link, Plan
from delayed_compat.record import Record
from faces import Face

PATH = "demo::tasks::add"
HOUR = timedelta(hours=1)
ID = UUID("018bcfe5-687b-7b5c-8a3e-0123456789ab")
PATIENCE = 60


def kept(n: int = 1, **options: Any) -> RustTask:
    return RustTask(PATH, (n,), **{"keep": HOUR, **options})


def later(n: int = 1, **options: Any) -> RustTask:
    return kept(n, after=HOUR, **options)


def record(conn: redis.Redis, id: UUID | None) -> Any:
    assert id
    return conn.hgetall(f"mail:c:{id.hex}")


def locks(conn: redis.Redis) -> Any:
    return conn.keys("mail:u:*")


@pytest.fixture
def waiting(conn: redis.Redis) -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Start a wait in a thread, and return once Redis knows that somebody listens."""

    def wait(work: Callable[[], Any]) -> Future[Any]:
        future = pool.submit(work)
        until_listeners(conn, 1)
        return future

    with ThreadPoolExecutor(1) as pool:
        yield wait


def until_listeners(conn: redis.Redis, count: int) -> None:
    tick, client = threading.Event(), conn
    for _ in range(PATIENCE * 200):
        if len(client.pubsub_channels("mail:c:*")) == count:
            return
        tick.wait(0.005)
    raise AssertionError(f"expected {count} channels, not {client.pubsub_channels()}")


def test_a_followed_call_has_a_record_and_waits(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(kept(id=ID))
    assert (handle.id, handle.is_new, handle.conflict) == (ID, True, None)
    assert handle.state() is CallState.WAITING
    (message,) = conn.lrange("mail", 0, -1)
    assert msgpack.unpackb(message)[2] == {"i": ID.bytes, "k": {}, "s": 3_600_000}
    assert conn.lrange("mail_noti", 0, -1) == [b"1"]
    assert record(conn, ID)[b"task"] == PATH.encode()
    assert conn.smembers("delayed_queues") == {b"mail"}
    with pytest.raises(CallTimeoutError, match="has not ended in time: it is waiting") as caught:
        handle.result()
    assert (caught.value.id, caught.value.state) == (ID, CallState.WAITING)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(CallTimeoutError):
        handle.wait(0.01)
    assert face.handle(str(ID)).state() is CallState.WAITING


def test_a_scheduled_call_can_be_followed_too(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(later())
    assert handle.id
    assert handle.state() is CallState.SCHEDULED
    assert conn.hkeys("mail_later") == [handle.id.bytes]
    assert conn.llen("mail") == 0


@pytest.mark.parametrize("task", [RustTask(PATH), PyTask("m:f"), GoTask("p.F"), kept(front=True)])
def test_every_enqueue_gives_a_handle(face: Face, conn: redis.Redis, task: Any) -> None:
    handle = face.enqueue(task)
    assert handle.is_new
    assert conn.llen("mail") == 1
    if handle.id is None:
        assert handle.state() is None
        assert handle.cancel() is None
        with pytest.raises(CallNotFoundError, match="has no record: enqueue it with keep"):
            handle.wait(PATIENCE)


def test_an_unknown_call_is_not_waited_for(face: Face, conn: redis.Redis) -> None:
    for ask in (face.handle(ID).result, lambda: face.handle(ID).wait(PATIENCE)):
        with pytest.raises(CallNotFoundError) as caught:
            ask()
        assert (caught.value.id, caught.value.queue) == (ID, "mail")


def test_an_id_is_enqueued_once(face: Face, conn: redis.Redis) -> None:
    face.enqueue(kept(1, id=ID))
    with pytest.raises(CallExistsError, match=f"{ID} is already waiting in mail") as caught:
        face.enqueue(kept(2, id=ID))
    assert (caught.value.id, caught.value.state) == (ID, CallState.WAITING)
    assert vars(pickle.loads(pickle.dumps(caught.value))) == vars(caught.value)
    with pytest.raises(CallExistsError, match="is already waiting"):
        face.enqueue(later(id=ID))
    assert (conn.llen("mail"), conn.hlen("mail_later")) == (1, 0)


def test_an_id_without_any_other_option_is_enqueued_once(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(RustTask(PATH, (1,), id=ID))
    assert handle.state() is CallState.WAITING
    with pytest.raises(CallExistsError, match=f"{ID} is already waiting in mail"):
        face.enqueue(RustTask(PATH, (2,), id=ID))
    with pytest.raises(EnqueueError, match="1 of 2") as caught:
        face.enqueue_many([RustTask(PATH, (3,), id=ID), RustTask(PATH, (4,), id=UUID(int=4))])
    assert caught.value.fates == [Fate.NOT_APPLIED, Fate.APPLIED]
    assert conn.llen("mail") == 2
    with pytest.raises(
        InvalidTaskError, match="has options that cannot be enqueued by the original"
    ):
        RustTask(PATH, (1,), id=ID).serialize()


def test_ordered_calls_wait_for_their_turn(face: Face, conn: redis.Redis) -> None:
    _, second = (face.enqueue(RustTask(PATH, (n,), ordered="customer:42")) for n in (1, 2))
    assert second.state() is CallState.WAITING
    (message,) = conn.lrange("mail", 0, -1)
    lock = msgpack.unpackb(message)[2]["u"]
    assert lock == b"o" + hashlib.sha1(b"\1customer:42").digest()[:16]
    assert conn.llen(f"mail:l:order:{lock[1:].hex()}") == 1
    assert conn.get(f"mail:u:{lock[1:].hex()}") == msgpack.unpackb(message)[2]["i"]
    for wrong in ({"after": 1}, {"unique": "until_done"}):
        with pytest.raises(InvalidTaskError, match="ordered goes with neither"):
            RustTask(PATH, (1,), ordered="k", **wrong)
    with pytest.raises(InvalidTaskError, match="ordered is"):
        RustTask(PATH, (1,), ordered=7)  # type: ignore[arg-type]


def test_a_text_is_an_id(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(kept(1, id="order:7"))
    assert str(handle.id) == "33fe6d75-c3fc-59bb-bf42-d06fc16bdf64"
    with pytest.raises(CallExistsError, match="is already waiting in mail"):
        face.enqueue(kept(2, id="order:7"))
    assert face.handle("order:7").state() is CallState.WAITING
    assert face.cancel("order:7") is CallState.WAITING


def test_a_full_queue_refuses_and_the_front_is_the_head(face: Face, conn: redis.Redis) -> None:
    first = face.enqueue(RustTask(PATH, (1,), max_len=1))
    with pytest.raises(QueueFullError, match="mail is full: 1 messages wait") as caught:
        face.enqueue(RustTask(PATH, (2,), max_len=1))
    assert (caught.value.queue, caught.value.waiting) == ("mail", 1)
    assert vars(pickle.loads(pickle.dumps(caught.value))) == vars(caught.value)
    third = face.enqueue(RustTask(PATH, (3,), max_len=2, front=True))
    assert first.id
    assert third.id
    head, tail = (msgpack.unpackb(message) for message in conn.lrange("mail", 0, -1))
    assert head == [PATH, b"\x91\x03", {"i": third.id.bytes, "k": {}}]
    assert tail == [PATH, b"\x91\x01", {"i": first.id.bytes, "k": {}}]
    assert conn.llen("mail_noti") == 2
    assert conn.keys("mail:c:*") == []


def test_a_full_queue_buries_the_oldest(face: Face, conn: redis.Redis) -> None:
    old = face.enqueue(kept(1))
    options: dict[str, Any] = {"max_len": 2, "overflow": "bury_oldest"}
    tasks: list[Any] = [
        PyTask("m:f", (1,), **options),
        GoTask("p.F", 2, **options),
        kept(3, **options),
    ]
    assert face.enqueue_many(tasks) == 3
    assert conn.lrange("mail", 0, 0) == [OriginalGoTask("p.F", 2).serialize()]
    assert (conn.llen("mail"), conn.llen("mail_noti"), conn.xlen("mail_dead")) == (2, 2, 2)
    letters: Any = conn.xrange("mail_dead")
    reasons = [letter[b"reason"] for _, letter in letters]
    assert reasons == [b"overflow"] * 2
    with pytest.raises(CallFailedError, match="overflow") as caught:
        old.result()
    assert caught.value.letter == letters[0][0].decode()
    with pytest.raises(QueueFullError):
        face.enqueue(PyTask("m:f", max_len=2))


def test_a_foreign_call_is_placed_as_a_rust_one(face: Face, conn: redis.Redis) -> None:
    face.enqueue(PyTask("m:f", (1,)))
    assert face.enqueue(PyTask("m:f", (2,), front=True)).id is None
    handle = face.enqueue(PyTask("m:f", (3,), after=timedelta(hours=1), id="mail:7"))
    with pytest.raises(AlreadyScheduledError):
        face.enqueue(GoTask("p.F", after=1, id="mail:7"))
    expected = [OriginalPyTask("m:f", (n,)).serialize() for n in (1, 2, 3)]
    assert conn.lrange("mail", 0, -1) == [expected[1], expected[0]]
    assert handle.id
    assert conn.hgetall("mail_later") == {handle.id.bytes: expected[2]}
    assert face.cancel("mail:7") is CallState.SCHEDULED


def test_a_unique_call_gets_the_handle_of_the_first(face: Face, conn: redis.Redis) -> None:
    first = face.enqueue(RustTask(PATH, (1,), unique="until_done"))
    second = face.enqueue(kept(1, unique="until_started"))
    assert (second.id, second.is_new) == (first.id, False)
    assert second.conflict == Held(CallState.WAITING)
    assert face.enqueue(RustTask(PATH, (2,), unique="until_done")).is_new
    assert face.enqueue(RustTask(PATH, (1,), unique_key="1")).is_new
    assert not face.enqueue(RustTask(PATH, (3,), {"b": 1}, unique_key="1")).is_new
    assert (conn.llen("mail"), len(locks(conn))) == (3, 3)


def test_a_lock_for_a_time_expires(face: Face, conn: redis.Redis) -> None:
    assert face.enqueue(RustTask(PATH, unique=timedelta(minutes=1))).is_new
    (lock,) = locks(conn)
    assert 50_000 < int(conn.pttl(lock)) <= 60_000


def test_a_newer_call_replaces_a_scheduled_one(face: Face, conn: redis.Redis) -> None:
    options: dict[str, Any] = {"unique": "replace", "unique_key": "k"}
    first = face.enqueue(later(1, **options))
    newer = face.enqueue(later(2, backoff="fixed:1s", **options))
    assert first.id
    assert (newer.id, newer.conflict) == (first.id, Replaced())
    message: Any = conn.hget("mail_later", first.id.bytes)
    _, payload, meta = msgpack.unpackb(message)
    assert (payload, meta["i"], meta["b"]) == (b"\x91\x02", first.id.bytes, "fixed:1s")
    assert conn.hlen("mail_later") == 1


def test_many_calls_with_options_go_in_chunks(face: Face, conn: redis.Redis) -> None:
    tasks: list[Any] = [kept(n) for n in range(250)]
    tasks += [RustTask(PATH), later(), RustTask(PATH, after=1), kept(0, unique="until_done")]
    tasks += [kept(0, unique="until_done"), kept(max_len=253), kept(max_len=253)]
    conn.config_resetstat()
    with pytest.raises(EnqueueError, match=r"256 of 257 .* 1 were not: mail is full") as caught:
        face.enqueue_many(tasks)
    assert caught.value.fates == [Fate.APPLIED] * 256 + [Fate.NOT_APPLIED]
    assert isinstance(caught.value.__cause__, QueueFullError)
    assert (conn.llen("mail"), conn.llen("mail_noti"), conn.hlen("mail_later")) == (253, 253, 2)
    stats: Any = conn.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] == 1 + 1 + 3 + 1


def test_a_lost_answer_can_be_sent_again(make: Callable[..., Face], conn: redis.Redis) -> None:
    face, task = make(lost=(1,)), kept()
    with pytest.raises(EnqueueError, match="1 may have been") as caught:
        face.enqueue(task)
    assert caught.value.fates == [Fate.IN_DOUBT]
    with pytest.raises(CallExistsError):
        face.enqueue(task)
    assert conn.llen("mail") == 1


def test_the_original_does_not_enqueue_a_unique_call(conn: redis.Redis) -> None:
    with pytest.raises(InvalidTaskError, match="has options that cannot be enqueued by the"):
        RustTask(PATH, unique="until_done").serialize()


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 3}])
def test_an_end_is_pushed_to_who_waits(
    make: Callable[..., Face],
    conn: redis.Redis,
    waiting: Callable[[Callable[[], Any]], Future[Any]],
    queue: Queue,
    options: dict[str, Any],
) -> None:
    handle = make(**options).enqueue(later(unique="until_done"))
    end = waiting(lambda: handle.wait(PATIENCE))
    for _ in range(3):
        assert conn.client_kill_filter(_type="pubsub")
        until_listeners(conn, 1)
    assert handle.id
    assert queue.cancel(handle.id) is CallState.SCHEDULED
    with pytest.raises(CallCancelledError, match=r"was cancelled by .+/\d+$"):
        end.result(PATIENCE)
    until_listeners(conn, 0)
    assert handle.state() is CallState.CANCELLED
    with pytest.raises(CallCancelledError):
        handle.wait(PATIENCE)
    assert handle.cancel() is CallState.CANCELLED
    assert locks(conn) == []


def test_the_end_of_a_unique_call_without_a_record_is_heard(
    face: Face,
    conn: redis.Redis,
    waiting: Callable[[Callable[[], Any]], Future[Any]],
    queue: Queue,
) -> None:
    handle = face.enqueue(RustTask(PATH, after=HOUR, unique="until_done"))
    end = waiting(lambda: handle.wait(PATIENCE))
    assert handle.id
    queue.cancel(handle.id)
    with pytest.raises(CallCancelledError):
        end.result(PATIENCE)
    assert record(conn, handle.id) == {}


def test_a_wait_reads_the_record_twice_however_long(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(kept())
    conn.config_resetstat()
    with pytest.raises(CallTimeoutError):
        handle.wait(0.2)
    stats: Any = conn.info("commandstats")
    assert (stats["cmdstat_hmget"]["calls"], stats["cmdstat_subscribe"]["calls"]) == (2, 1)


def test_a_wait_on_a_redis_that_is_down_raises(make: Callable[..., Face], tmp_path: Path) -> None:
    with pytest.raises(redis.ConnectionError):
        make(tmp_path / "none").handle(ID).wait(0.2)


def test_a_call_is_cancelled_in_whatever_state_it_is(face: Face, conn: redis.Redis) -> None:
    assert face.cancel(ID) is None
    assert conn.exists("mail_cancelled") == 0, "expected no mark for a call that is nowhere"
    handle = face.enqueue(kept(1, id=ID))
    assert handle.cancel() is CallState.WAITING
    assert handle.cancel() is CallState.WAITING
    assert conn.zrange("mail_cancelled", 0, -1) == [ID.bytes]
    plain = RustTask(PATH, id=UUID(int=7))
    face.enqueue_many([RustTask(PATH, (n,)) for n in range(600)])
    face.enqueue(plain)
    assert face.cancel(plain) is CallState.WAITING
    scheduled = later()
    assert face.enqueue(scheduled).cancel() is CallState.SCHEDULED
    assert face.cancel(scheduled) is CallState.CANCELLED


def test_a_running_call_is_cancelled_by_a_kill_request(face: Face, conn: redis.Redis) -> None:
    handle = face.enqueue(kept(id=ID))
    worker = f"mail:{'a2b7' * 4}"
    message: Any = conn.lpop("mail")
    conn.hset("mail_processing", f"{worker}:3", message)
    assert handle.cancel() is CallState.WAITING, "expected a dead worker to hear nothing"
    conn.set(f"{worker}:3", "alive")
    assert handle.cancel() is CallState.RUNNING
    requests: Any = conn.hgetall(f"{worker}:kill")
    ((slot, request),) = requests.items()
    digest, seq, by = request.split(b" ")
    assert (slot, seq, by[:1]) == (f"{worker}:3".encode(), b"0", b"\x18")
    assert len(digest) == 40
    conn.delete("mail_processing")
    conn.hset("mail_processing", "host:worker:1", message)
    assert handle.cancel() is CallState.WAITING, "expected a Python worker to hear nothing"


def test_a_call_snoozed_while_it_is_looked_for_is_removed(
    redis_socket: Path, conn: redis.Redis
) -> None:
    Queue("mail", conn).enqueue(RustTask(PATH, (1,), id=ID))
    conn.delete(f"mail:c:{ID.hex}")  # a call without a record is looked for longest
    message: Any = conn.lpop("mail")
    conn.hset("mail_processing", "mail:a2b7a2b7a2b7a2b7:3", message)

    def snoozed_meanwhile() -> Plan[CallState | None]:
        plan, reply = cancel("mail", ID), None
        with suppress(StopIteration):
            while True:
                command = plan.send(reply)
                if command[0] == "HSCAN":  # it is marked: now its worker moves it
                    conn.delete("mail_processing")
                    conn.hset("mail_later", ID.bytes, message)
                    conn.zadd("mail_due", {b"c" + ID.bytes: 2e15})
                reply = yield command
        return None

    Link(redis.Redis(unix_socket_path=str(redis_socket))).run(snoozed_meanwhile())
    assert not conn.exists("mail_later", "mail_due", "mail_cancelled")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state": b"succeeded", "result": b"\x92\x01\xa1x"}, [1, "x"]),
        ({"state": b"succeeded", "result": b"\x81\x01\xc4\x01\xff"}, {1: b"\xff"}),
        ({"state": b"succeeded"}, None),
    ],
)
def test_a_result_is_decoded(fields: dict[str, bytes | None], expected: Any) -> None:
    assert Record(fields).result(ID, "mail") == expected


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"state": b"succeeded", "result": b"\xc1"}, ResultError, "cannot be read"),
        ({"state": b"succeeded", "unencodable": b"no"}, ResultError, "cannot be read: no"),
        ({"state": b"succeeded", "too_large": b"1048581"}, ResultTooLargeError, "1048581 bytes"),
        ({"state": b"dead", "reason": b"failed", "error": b"\xff!"}, CallFailedError, "(failed): "),
        ({"state": b"expired"}, CallExpiredError, "expired before"),
        ({"state": b"cancelled", "by": b"ann"}, CallCancelledError, "was cancelled by ann"),
        ({"state": b"running"}, CallTimeoutError, "it is running"),
        ({"state": b"of a later version"}, CallNotFoundError, "no record"),
    ],
)
def test_the_error_says_why_there_is_no_result(
    fields: dict[str, bytes | None], error: type[WaitError], said: str
) -> None:
    with pytest.raises(error) as caught:
        Record(fields).result(ID, "mail")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (vars(copy), str(copy)) == (vars(caught.value), str(caught.value))
    assert said in str(copy)
    assert isinstance(copy, (WaitError, CompatError))


def test_an_end_is_read_as_scripts_pack_it() -> None:
    published = msgpack.packb(["succeeded", "attempt", "1", "result", b"\x05"], use_bin_type=False)
    assert Record.of_end(published).result(ID, "mail") == 5
    too_large = msgpack.packb(["succeeded", "too_large", 2_000_000], use_bin_type=False)
    with pytest.raises(ResultTooLargeError) as caught:
        Record.of_end(too_large).result(ID, "mail")
    assert caught.value.size == 2_000_000


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_was_said_just_now_is_heard(
    redis_socket: Path, conn: redis.Redis, protocol: int
) -> None:
    with redis.Redis(
        unix_socket_path=str(redis_socket), protocol=protocol, health_check_interval=1
    ) as client:
        link = Link(client)
        connection = link.connect()
        link.subscribe(connection, "mail:c:7")
        assert link.heard(connection) is None
        conn.publish("mail:c:7", b"\xff")
        assert link.heard(connection) == b"\xff"
        assert link.heard(connection) is None
        link.close(connection)
    until_listeners(conn, 0)

    async def hear() -> None:
        client = redis.asyncio.Redis(unix_socket_path=str(redis_socket), protocol=protocol)
        async with client:
            link = AsyncLink(client)
            connection = await link.connect()
            await link.subscribe(connection, "mail:c:7")
            assert await link.heard(connection) is None
            conn.publish("mail:c:7", b"\xff")
            assert await link.heard(connection) == b"\xff"
            assert await link.heard(connection) is None
            await link.close(connection)

    asyncio.run(hear())
    until_listeners(conn, 0)


def test_many_wait_at_once_and_one_given_up_leaves_nothing(
    redis_socket: Path, conn: redis.Redis
) -> None:
    async def wait() -> None:
        async with redis.asyncio.Redis(unix_socket_path=str(redis_socket)) as client:
            queue = AsyncQueue("mail", client)
            handles = [await queue.enqueue(later(n)) for n in range(50)]
            waits = [asyncio.ensure_future(handle.wait(PATIENCE)) for handle in handles]
            while len(conn.pubsub_channels("mail:c:*")) < 50:
                await asyncio.sleep(0)
            while not waits[0].done():  # before 3.12, asyncio.wait_for may lose a cancellation
                waits[0].cancel()
                await asyncio.sleep(0)
            while len(conn.pubsub_channels("mail:c:*")) > 49:
                await asyncio.sleep(0)
            assert handles[0].id
            assert await handles[0].state() is CallState.SCHEDULED
            for handle in handles[1:]:
                assert await handle.cancel() is CallState.SCHEDULED
            ends = await asyncio.gather(*waits, return_exceptions=True)
            assert isinstance(ends[0], asyncio.CancelledError)
            assert {type(end) for end in ends[1:]} == {CallCancelledError}

    asyncio.run(wait())
    until_listeners(conn, 0)


def test_a_pool_without_a_connection_left_is_an_error(
    make: Callable[..., Face], conn: redis.Redis
) -> None:
    handle = make().enqueue(kept(id=ID))
    with pytest.raises(redis.ConnectionError):
        make(max_connections=1).handle(ID).wait(0.2)
    assert handle.state() is CallState.WAITING
