"""Does the decorator do what the original's does, and call Rust tasks when it is told to?"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import delayed.delay
import msgpack
import pytest
import redis
from delayed.queue import Queue as OriginalQueue

from delayed_compat import InvalidTaskError, Queue, RustStep, RustTask, chain
from delayed_compat import delayed as decorate_for
from delayed_compat.flow import task_for
from faces import AsyncFace


def add(a: int, b: int) -> int:
    return a + b


def waiting(conn: redis.Redis) -> Any:
    return conn.lrange("mail", 0, -1)


@pytest.mark.parametrize("retry", [None, 3, -1])
def test_a_python_function_is_sent_as_the_original_sends_it(
    conn: redis.Redis, queue: Queue, retry: int | None
) -> None:
    options: dict[str, Any] = {} if retry is None else {"retry": retry}
    original: Any = delayed.delay
    decorators: list[Any] = [original.delayed(queue), decorate_for(queue)]
    for decorate in decorators:
        for is_direct in (True, False):

            def fresh(a: int, b: int) -> int:
                return a + b

            decorated = decorate(fresh, **options) if is_direct else decorate(**options)(fresh)
            assert decorated is fresh
            function: Any = decorated
            assert function(1, 2) == 3
            function.delay(1, b=2)
            assert function.delay.__name__ == "fresh"
    sent = waiting(conn)
    assert len(sent) == 4
    assert len(set(sent)) == 1
    assert conn.llen("mail_noti") == 4


def test_a_rust_task_is_called_by_delay(conn: redis.Redis, queue: Queue) -> None:
    decorate = decorate_for(queue)

    @decorate(path="demo::tasks::add", retry=3)
    def rust_add(a: int, b: int) -> int:
        return a + b

    assert rust_add(1, 2) == 3
    rust_add.delay(1, b=2)
    expected = RustTask("demo::tasks::add", (1,), {"b": 2}, 3).serialize()
    assert waiting(conn) == [expected]
    decorate(add, path="demo::tasks::add").delay(1, 2)
    assert waiting(conn)[1:] == [RustTask("demo::tasks::add", (1, 2)).serialize()]


def test_a_decorated_rust_task_makes_parts_of_flows(conn: redis.Redis, queue: Queue) -> None:
    rust_add = decorate_for(queue)(add, path="demo::tasks::add", retry=3)
    call, step = rust_add.call(1, b=2), rust_add.step(path=5, make=6)
    assert (call.queue, step.queue, type(call), type(step)) == ("mail", "mail", RustTask, RustStep)
    expected = RustTask("demo::tasks::add", (1,), {"b": 2}, 3, queue="mail")
    steps = RustStep("demo::tasks::add", (), {"path": 5, "make": 6}, 3)
    flows = [chain(call, step), chain(expected, steps)]
    first, second = (msgpack.unpackb(task_for(flow, "mail")._message())[1] for flow in flows)  # type: ignore[union-attr]
    assert first == second
    queue.enqueue(call)
    assert waiting(conn) == [expected.serialize()]


def test_options_of_a_rust_task_are_those_of_each_call(conn: redis.Redis, queue: Queue) -> None:
    decorate = decorate_for(queue)(
        path="demo::tasks::add", max_attempts=1, timeout=2, retry_for=60, after=3600
    )
    function = decorate(add)
    function.delay(1, 2)
    function.delay(1, b=3)
    messages: Any = conn.hvals("mail_later")
    assert len(messages) == 2, "each call has an id of its own"
    for message in messages:
        meta = msgpack.unpackb(message)[2]
        assert (meta["r"], meta["t"], meta["g"]) == (0, 2000, 60_000)


def test_delay_of_an_asyncio_queue_is_awaited(conn: redis.Redis, redis_socket: Any) -> None:
    face = AsyncFace(redis_socket)

    async def work(queue: Any) -> None:
        function = decorate_for(queue)(add, path="demo::tasks::add")
        await asyncio.gather(function.delay(1, 2), function.delay(1, 2))

    try:
        face.run(work)
    finally:
        face.close()
    assert waiting(conn) == [RustTask("demo::tasks::add", (1, 2)).serialize()] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": ""}, "path is ''; give the Rust task's path"),
        ({"path": "a::b", "retry": "x"}, "retry is a str"),
        ({"path": "a::b", "after": -1}, "after is negative"),
        ({"path": "a::b", "retry": 1, "max_attempts": 1}, "are both given"),
        ({"timeout": 1}, "timeout is for Rust tasks; give the path of one"),
        ({"after": 1}, "after is for Rust tasks"),
    ],
)
def test_bad_options_are_refused_where_the_function_is_decorated(
    queue: Queue, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        decorate_for(queue)(add, **options)


def test_bad_arguments_are_refused_where_delay_is_called(conn: redis.Redis, queue: Queue) -> None:
    function = decorate_for(queue)(add, path="demo::tasks::add")
    wrong: Any = object()
    with pytest.raises(InvalidTaskError, match=r"args\[1\] is a object"):
        function.delay(1, wrong)
    assert conn.keys() == []


def test_a_queue_of_the_original_does_as_well(conn: redis.Redis) -> None:
    decorate_for(OriginalQueue("mail", conn))(add, path="demo::tasks::add").delay(1, 2)
    assert waiting(conn) == [RustTask("demo::tasks::add", (1, 2)).serialize()]


def test_threads_share_a_queue(conn: redis.Redis, queue: Queue) -> None:
    function = decorate_for(queue)(add, path="demo::tasks::add", after=3600)
    threads = [
        threading.Thread(target=lambda: [function.delay(n, n) for n in range(50)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert conn.hlen("mail_later") == 400
