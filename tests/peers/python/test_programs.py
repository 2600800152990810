"""Do the programs of both languages speak the wire as their ancestors, with each other too?"""

from __future__ import annotations

import signal
from typing import Any

import pytest
import redis

from processes import Programs, wait_for

RECORD = bytes.fromhex("92ab6d61696e2e5265636f7264c40105")  # NewGoTask("main.Record", 5)


def state(conn: redis.Redis) -> tuple[Any, Any, Any]:
    """Return messages, notifications and what workers own."""
    return (
        conn.lrange("mail", 0, -1),
        conn.lrange("mail_noti", 0, -1),
        conn.hgetall("mail_processing"),
    )


@pytest.mark.parametrize("producer", ["go", "py"])
def test_the_go_worker_runs_what_both_send(programs: Programs, producer: str) -> None:
    calls: list[dict[str, Any]] = [
        {"kind": "go", "path": "main.Add", "args": [1, 2]},
        {"kind": "go", "path": "main.Sum", "args": [1, 2, 300]},
        {"kind": "go", "path": "main.Greet", "args": ["ann"] if producer == "go" else "ann"},
        {"kind": "go", "path": "main.Record", "args": [7] if producer == "go" else 7},
    ]
    assert programs.produce(producer, *calls) == "sent 4\n"
    programs.start("go", "work")
    programs.wait_for_lines("1+2=3", "sum=303", "greet=ann", "7")


@pytest.mark.parametrize("producer", ["go", "py"])
def test_the_python_worker_runs_what_both_send(programs: Programs, producer: str) -> None:
    calls: list[dict[str, Any]] = [
        {"kind": "py", "path": "demo_tasks:add", "args": [1, 2], "kwargs": None},
        {"kind": "py", "path": "demo_tasks:add", "args": [1], "kwargs": {"b": 3}},
        {"kind": "py", "path": "demo_tasks:record", "kwargs": {"n": 4}},
        {
            "kind": "go",
            "path": "demo_tasks:record_bytes",
            "args": [700] if producer == "go" else 700,
        },
    ]
    if producer == "go":
        calls[2]["args"] = []  # Go's nil is no argument list to Python
        calls[0]["kwargs"] = {}
    assert programs.produce(producer, *calls) == "sent 4\n"
    programs.start("py", "work")
    programs.wait_for_lines("1+2=3", "1+3=4", "4", "700")


def test_a_rust_call_is_sent_by_the_original_queue(programs: Programs, conn: redis.Redis) -> None:
    call = {"kind": "rust", "path": "demo::tasks::add", "args": [1], "kwargs": {"b": 2}, "retry": 3}
    at = {"kind": "rust", "path": "a", "args": [{"$time": "2023-11-14T22:13:20Z"}, {"$bin": "00"}]}
    assert programs.produce("py", call, at) == "sent 2\n"
    golden = ["94b064656d6f3a3a7461736b733a3a616464910181a1620203", "92a16192d6ff6553f100c40100"]
    assert state(conn) == ([bytes.fromhex(one) for one in golden], [b"1", b"1"], {})


def test_repeat_counts_up(programs: Programs) -> None:
    flags = ("-repeat", "1000", "-path", "main.Record", "-offset", "5")
    assert programs.produce("go", flags=flags) == "sent 1000\n"
    programs.start("go", "work")
    programs.wait_for_lines(*(str(n) for n in range(5, 1005)))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_go_worker_leaves_its_last_message_behind(
    programs: Programs, conn: redis.Redis, number: int
) -> None:
    worker = programs.start("go", "work")
    name = worker.ready()
    assert len(bytes.fromhex(name)) == 16
    assert 0 < int(conn.ttl(name)) <= 60
    programs.produce("go", {"kind": "go", "path": "main.Record", "args": [5]})
    programs.wait_for_lines("5")
    worker.stop(number)
    assert not conn.exists(name)
    assert state(conn) == ([], [], {name.encode(): RECORD})


def test_a_python_worker_leaves_nothing_behind(programs: Programs, conn: redis.Redis) -> None:
    worker = programs.start("py", "work")
    name = worker.ready()
    assert conn.exists(name)
    programs.produce("py", {"kind": "py", "path": "demo_tasks:fail", "args": [1], "retry": 2})
    programs.wait_for_lines("1", "1", "1")
    wait_for(lambda: state(conn) == ([], [], {}), lambda: f"left: {state(conn)}")
    worker.wait_for("RuntimeError: demo failure 1", times=3)
    worker.stop()
    assert conn.keys() == []


@pytest.mark.parametrize("language", ["go", "py"])
def test_a_notification_without_a_message_is_an_error(
    programs: Programs, conn: redis.Redis, language: str
) -> None:
    conn.rpush("mail_noti", 1, 1)
    worker = programs.start(language, "work")
    worker.wait_for("ERROR claim: " if language == "go" else "Failed to dequeue task", times=2)
    worker.stop()


def test_the_go_worker_ignores_what_it_does_not_know(programs: Programs) -> None:
    worker = programs.start("go", "work", "-as", "demo::one", "-as", "demo::two")
    for path in ("demo::one", "demo::none", "demo::two"):
        programs.produce("go", {"kind": "go", "path": path, "args": [1]})
    programs.wait_for_lines("1", "1")
    worker.wait_for("IGNORED demo::none\n")
    programs.produce("go", {"kind": "go", "path": "main.Record", "args": ["x"]})
    worker.wait_for("ERROR main.Record: ")
    worker.stop()


@pytest.mark.parametrize("language", ["go", "py"])
def test_a_sweeper_brings_back_what_the_dead_own(
    programs: Programs, conn: redis.Redis, language: str
) -> None:
    conn.set("alive", 1)
    conn.hset("mail_processing", mapping={"dead": RECORD, "alive": "kept"})
    conn.rpush("mail", "waiting")
    interval = ("-interval", "10ms") if language == "go" else ("--interval", "0.01")
    sweeper = programs.start(language, "sweep", *interval)
    sweeper.wait_for("requeued 2\n")
    sweeper.wait_for("requeued 0\n")
    sweeper.stop()
    assert state(conn) == ([b"waiting", RECORD], [b"1", b"1"], {b"alive": b"kept"})


@pytest.mark.parametrize("language", ["go", "py"])
def test_a_sweeper_dies_of_8000_missing_notifications(
    programs: Programs, conn: redis.Redis, language: str
) -> None:
    conn.rpush("mail", *range(8000))
    interval = ("-interval", "1h") if language == "go" else ("--interval", "0.01")
    sweeper = programs.start(language, "sweep", *interval)
    sweeper.wait_for("too many results to unpack")
    sweeper.stop()
    assert conn.llen("mail_noti") == 0
