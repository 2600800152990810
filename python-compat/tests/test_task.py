"""Which bytes is a RustTask, and which calls are refused with which words?"""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import pytest
from delayed.task import PyTask

from delayed_compat import CompatError, InvalidTaskError, RustTask

VECTORS = Path(__file__).parents[2] / "tests" / "wire" / "python-delayed.json"
PATH = "demo::tasks::add"
NOON = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)


@dataclass
class Point:
    x: int
    y: float


@dataclass
class Order:
    id: int
    at: datetime
    points: list[Point] = field(default_factory=list)


Pair = namedtuple("Pair", "left right")


def vectors_of_py_tasks() -> list[Any]:
    cases = json.loads(VECTORS.read_text())["cases"]
    return [pytest.param(case, id=case["name"]) for case in cases if case["class"] == "PyTask"]


def argument(value: Any) -> bytes:
    """Return what stands for `value` in the message of a task that has it as its only argument."""
    head = bytes.fromhex("92a16191")
    message = RustTask("a", (value,)).serialize()
    assert message.startswith(head)
    return message[len(head) :]


@pytest.mark.parametrize("case", vectors_of_py_tasks())
def test_it_is_the_bytes_that_the_original_made(case: dict[str, Any]) -> None:
    kwargs = dict(case["kwargs"]["$map"]) if case["kwargs"] else None
    task = RustTask(case["func_path"], case["args"] or (), kwargs, case["retry"] or None)
    assert task.serialize().hex() == case["hex"]


@pytest.mark.parametrize(
    ("task", "golden"),
    [
        (RustTask("a"), "91a161"),
        (RustTask("a", None, None), "91a161"),
        (RustTask("a", [], {}), "91a161"),
        (RustTask("a", (1,)), "92a1619101"),
        (RustTask("a", ([1],)), "92a161919101"),
        (RustTask("a", (), {"n": 1}), "93a1619081a16e01"),
        (RustTask("a", retry=-1), "94a1619080ff"),
        (RustTask("a", (1,), {"n": 2}, 3), "94a161910181a16e0203"),
    ],
)
def test_only_empty_parts_at_the_end_are_cut(task: RustTask, golden: str) -> None:
    assert task.serialize().hex() == golden


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        (2**64 - 1, "cfffffffffffffffff"),
        (-(2**63), "d38000000000000000"),
        (True, "c3"),
        (2.0, "cb4000000000000000"),
        (b"\x00\xff", "c40200ff"),
        (bytearray(b"\x01"), "c40101"),
        (memoryview(b"abc")[::2], "c4026163"),
        (NOON, "d6ff6553f100"),
        (NOON.replace(microsecond=123456), "d7ff1d6f28006553f100"),
        (NOON.astimezone(timezone(timedelta(hours=8))), "d6ff6553f100"),
        (
            datetime(1969, 12, 31, 23, 59, 59, 500000, timezone.utc),
            "c70cff1dcd6500ffffffffffffffff",
        ),
        (msgpack.Timestamp(1, 2), "d7ff0000000800000001"),
        (msgpack.ExtType(5, b"x"), "d40578"),
        (Point(1, 2.5), "82a17801a179cb4004000000000000"),
        (Pair(1, "b"), "9201a162"),
        ({1: [Point(1, 0.5)], b"k": None}, "82019182a17801a179cb3fe0000000000000c4016bc0"),
        (
            Order(7, NOON, [Point(1, 2.0)]),
            "83a2696407a26174d6ff6553f100a6706f696e74739182a17801a179cb4000000000000000",
        ),
    ],
)
def test_an_argument_on_the_wire(value: Any, golden: str) -> None:
    assert argument(value).hex() == golden


def test_datetimes_and_dataclasses_travel_deep_inside() -> None:
    task = RustTask(PATH, [{"when": [NOON, {"p": Point(1, 2.0)}]}], {"until": (NOON,)})
    message = msgpack.unpackb(task.serialize(), timestamp=3)
    assert message == [PATH, [{"when": [NOON, {"p": {"x": 1, "y": 2.0}}]}], {"until": [NOON]}]


def test_the_original_reads_it() -> None:
    task = PyTask.deserialize(RustTask(PATH, (1, "b"), {"n": [None]}, 3).serialize())
    assert (task._func_path, task._args, task._kwargs, task._retry) == (
        PATH,
        [1, "b"],
        {"n": [None]},
        3,
    )


def test_a_later_change_of_an_argument_is_not_sent() -> None:
    numbers = [1]
    task = RustTask(PATH, (numbers,))
    before = task.serialize()
    numbers.append(2)
    assert task.serialize() == before == RustTask(PATH, ([1],)).serialize()


def test_it_shows_what_it_is() -> None:
    task = RustTask("a", (1,), retry=2)
    assert (task.path, task.retry) == ("a", 2)
    assert repr(task) == "RustTask('a', retry=2, 7 bytes)"


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"path": ""}, "path is ''; give the Rust task's path"),
        ({"path": " a::b"}, "path is ' a::b'; give the Rust task's path without spaces"),
        ({"path": "a\ud800"}, "not valid Unicode"),
        ({"path": len}, "path is a builtin_function_or_method; .*delayed.task.PyTask"),
        ({"args": "abc"}, "args is a str; give a list or a tuple, for one argument \\(value,\\)"),
        ({"args": b"abc"}, "args is a bytes; give a list or a tuple"),
        ({"args": 5}, "args is a int; give a list or a tuple"),
        ({"args": {"a": 1}}, "args is a dict; give a list or a tuple"),
        ({"kwargs": [("a", 1)]}, "kwargs is a list; give a dict"),
        ({"kwargs": {1: 2}}, "kwargs has the key 1; every key must be a Rust parameter's name"),
        ({"kwargs": {"": 2}}, "kwargs has the key ''"),
        ({"kwargs": {"\ud800": 2}}, "not valid Unicode"),
        ({"retry": True}, "retry is a bool; give a whole number of retries, -1 for ever"),
        ({"retry": 1.0}, "retry is a float; give a whole number"),
        ({"retry": "3"}, "retry is a str; give a whole number"),
        ({"retry": 2**63}, "beyond 64 bits; give a whole number of retries, -1 for ever"),
        ({"args": (1, object())}, r"args\[1\] is a object, which MessagePack cannot carry"),
        ({"args": (Point,)}, r"args\[0\] is a type"),
        ({"args": (NOON.date(),)}, r"args\[0\] is a date"),
        ({"kwargs": {"price": Decimal(1)}}, r"kwargs\['price'\] is a Decimal, which"),
        ({"args": ([0, {"k": {1}}],)}, r"args\[0\]\[1\]\['k'\] is a set, which"),
        ({"args": (Point(1, Decimal(2)),)}, r"args\[0\]\['y'\] is a Decimal"),  # type: ignore[arg-type]
        (
            {"args": ([NOON.replace(tzinfo=None)],)},
            r"args\[0\]\[0\] is the naive datetime .*tzinfo=",
        ),
        ({"args": (2**64,)}, r"args\[0\] is 18446744073709551616, beyond 64 bits"),
        ({"args": (-(2**63) - 1,)}, "beyond 64 bits"),
        ({"args": ("\ud800",)}, r"args\[0\] is not valid Unicode; send it as bytes"),
        ({"args": ({1.5: 1},)}, r"args\[0\] has the key 1.5; a key is a str, bytes or an int"),
        ({"args": ({2**64: 1},)}, "has the key 18446744073709551616"),
        ({"args": (itself(),)}, "is nested deeper than 100, or contains itself"),
    ],
)
def test_a_call_that_cannot_be_sent_is_refused(call: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said) as caught:
        RustTask(**{"path": PATH, **call})
    assert isinstance(caught.value, (CompatError, ValueError))
    if "path" not in call:
        assert str(caught.value).startswith("RustTask 'demo::tasks::add': ")
