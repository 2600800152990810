"""Do flows become the bytes that Rust makes, and which are refused?

`tests/flows` has those that Rust workers run.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis
from delayed import task as original

from delayed_compat import (
    CallExistsError,
    CallState,
    Chain,
    Flow,
    GoTask,
    Group,
    Held,
    InvalidTaskError,
    PyTask,
    Queue,
    RustStep,
    RustTask,
    chain,
    group,
)
from delayed_compat.flow import task_for
from faces import Face
from flows import flow as described
from produce import value

VECTORS = Path(__file__).parents[2] / "tests" / "wire" / "flows.json"
PATH = "demo::tasks::add"
HOUR = timedelta(hours=1)
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(), object_hook=value)["cases"]


def message(flow: Flow, queue: str = "mail") -> bytes:
    return task_for(flow, queue)._message()  # type: ignore[union-attr]


def plan(flow: Any, queue: str = "mail") -> Any:
    """Return what the message of a flow says of its parts."""
    path, payload, meta = msgpack.unpackb(message(Flow(flow)))
    assert (path, sorted(meta)) == ("delayed.flow", ["i", "s"])
    return msgpack.unpackb(payload)


def step(part: Any) -> Any:
    """Return a part of a flow as it travels, with its message read."""
    travels = plan(chain(RustTask("first"), part))["root"]["chain"][1]["step"]
    return {**travels, "message": msgpack.unpackb(travels["message"])}


def test_a_flow_is_the_bytes_of_the_vector() -> None:
    assert len(CASES) >= 13
    made = {case["name"]: message(described(case["flow"]), case["queue"]).hex() for case in CASES}
    assert made == {case["name"]: case["hex"] for case in CASES}


@dataclass
class Point:
    x: int
    at: datetime


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (RustTask(PATH), b"\xc0"),
        (RustTask(PATH, (5,)), b"\x05"),
        (RustTask(PATH, ([5],)), b"\x91\x05"),
        (RustTask(PATH, (5, {b"k": {1: "x"}})), b"\x92\x05\x81\xc4\x01k\x81\x01\xa1x"),
        (RustTask(PATH, (msgpack.ExtType(5, b"x"),)), b"\xd4\x05x"),
        (
            RustTask(PATH, (Point(1, datetime.fromtimestamp(2, timezone.utc)),)),
            b"\x82\xa1x\x01\xa2at\xd6\xff\0\0\0\x02",
        ),
        (RustStep(PATH), b"\xc0"),
        (RustStep(PATH, (5,)), b"\x92\xc0\x05"),
        (RustStep(PATH, ([],)), b"\x92\xc0\x90"),
    ],
)
def test_arguments_are_encoded_as_rust_does(part: Any, expected: bytes) -> None:
    travels = step(part)
    assert travels["message"] == [PATH, expected]
    assert travels["queue"] == "mail"
    assert travels.get("takes", False) is isinstance(part, RustStep)


def test_arguments_by_keyword_travel_beside_those_by_place() -> None:
    assert step(RustTask(PATH, (1,), {"b": 2}))["message"] == [PATH, b"\x91\x01", {"k": {"b": 2}}]
    assert step(RustStep(PATH, (), {"b": 2}))["message"] == [PATH, b"\x91\xc0", {"k": {"b": 2}}]


@pytest.mark.parametrize(
    ("options", "meta", "beside"),
    [
        ({"retry": 3}, {"r": 3}, {}),
        ({"retry": 0, "timeout": 1}, {"r": 0, "t": 1000}, {}),
        ({"after": 0}, None, {"after": 0}),
        ({"after": HOUR, "front": True}, None, {"after": 3_600_000, "front": True}),
        ({"at": 5}, None, {"at": 5000}),
        ({"expires": 1}, None, {"expires": 1000}),
        ({"expires_at": 1, "keep": 2}, {"d": 1000, "s": 2000}, {}),
        ({"max_len": 5, "limit": "few"}, {"l": ["few"]}, {"max_len": 5}),
        ({"queue": "other"}, None, {"queue": "other"}),
    ],
)
@pytest.mark.parametrize("make", [RustTask, RustStep])
def test_an_option_of_a_part_is_in_its_message_or_beside_it(
    make: Any, options: dict[str, Any], meta: Any, beside: dict[str, Any]
) -> None:
    travels = step(make(PATH, (1, 2), **options))
    assert travels.pop("message")[2:] == ([] if meta is None else [meta])
    travels.pop("takes", None)
    assert travels == {"queue": "mail", **beside}


def test_the_lock_of_a_step_is_that_of_its_own_arguments() -> None:
    key: dict[str, Any] = {"unique": 60, "unique_key": "k"}
    by_key = step(RustStep(PATH, (1,), **key))
    assert by_key["period"] == 60_000
    assert by_key["message"][2]["u"][:1] == b"p"
    one, other = (step(RustStep(PATH, (n,), unique="until_done"))["message"][2] for n in (1, 2))
    assert one.keys() == {"s", "u"}
    assert one["s"] == 0
    assert one["u"] != other["u"]


def test_parts_are_put_together_in_every_way() -> None:
    a, b, c = (RustTask(name) for name in "abc")
    assert plan(chain(a, b, c)) == plan(chain(a).then(b).then(c))
    assert plan(group([a, b]).then(c)) == plan(chain(group((a, b)), c))
    assert plan(group(RustTask(name) for name in "ab")) == plan(group([a, b]))
    start = chain(a)
    assert plan(start.then(b)) != plan(start.then(c)) != plan(start)
    assert plan(group([], at_most=3, policy="successes"))["root"] == {
        "group": [],
        "at_most": 3,
        "policy": "s",
    }
    assert plan(group([], policy="wait_for_all"))["root"] == {"group": []}


def test_a_part_is_encoded_at_once_and_may_be_used_again() -> None:
    numbers = [1]
    part = RustTask(PATH, (numbers,))
    flow = chain(part, part)
    numbers.append(2)
    steps = plan(flow)["root"]["chain"]
    assert steps[0] == steps[1]
    assert msgpack.unpackb(steps[0]["step"]["message"]) == [PATH, b"\x91\x01"]


def test_a_flow_is_one_call(face: Face, conn: redis.Redis) -> None:
    flow = Flow(chain(RustTask(PATH, (1, 2))))
    handle = face.enqueue(flow)
    assert (handle.id, handle.is_new, handle.state()) == (flow.id, True, CallState.WAITING)
    assert conn.lrange("mail", 0, -1) == [message(flow)]
    (record,) = conn.keys("mail:c:*")
    assert conn.hget(record, "task") == b"delayed.flow"
    with pytest.raises(CallExistsError, match="is already waiting in mail"):
        face.enqueue(flow)
    assert face.cancel(flow) is CallState.WAITING
    assert face.handle(flow).state() is CallState.WAITING


def test_a_chain_and_a_group_are_flows_without_options(face: Face, conn: redis.Redis) -> None:
    part = chain(RustTask(PATH))
    ids = {face.enqueue(part).id, face.enqueue(part).id, face.enqueue(group([part])).id}
    assert len(ids) == 3
    assert None not in ids
    assert face.enqueue_many([part, RustTask(PATH), Flow(part, after=HOUR)]) == 3
    assert (conn.llen("mail"), conn.hlen("mail_later")) == (5, 1)


def test_options_of_a_flow_are_those_of_a_call(face: Face, conn: redis.Redis) -> None:
    root = chain(RustTask(PATH, (1, 2)))
    later = Flow(root, after=HOUR, id="order:7", keep=60, unique_key="once")
    assert face.enqueue(later).state() is CallState.SCHEDULED
    second = face.enqueue(Flow(root, unique_key="once"))
    assert (second.id, second.conflict) == (later.id, Held(CallState.SCHEDULED))
    (scheduled,) = conn.hvals("mail_later")
    meta = msgpack.unpackb(scheduled)[2]
    assert (meta["i"], meta["s"], meta["u"][:1]) == (later.id.bytes, 60_000, b"d")
    same = [face.enqueue(Flow(root, unique="until_done")).is_new for _ in range(2)]
    assert same == [True, False]
    assert face.enqueue(Flow(chain(RustTask(PATH, (1, 3))), unique="until_done")).is_new
    assert face.cancel("order:7") is CallState.SCHEDULED


def test_a_flow_that_has_begun_is_cancelled(face: Face, conn: redis.Redis) -> None:
    flow = Flow(chain(RustTask(PATH)))
    face.enqueue(flow)
    key = f"mail:f:{flow.id.hex}"
    conn.hset(key, mapping={"keep": 60_000})
    assert face.cancel(flow) is CallState.RUNNING
    assert conn.hget(key, "state") == b"cancelled"
    assert conn.hkeys("mail_outbox") == [flow.id.bytes + b"x\0\0\0\0"]
    assert face.cancel(flow) is CallState.CANCELLED


def test_a_call_for_another_queue_is_refused(face: Face, conn: redis.Redis) -> None:
    assert face.enqueue(RustTask(PATH, queue="mail")).is_new
    with pytest.raises(InvalidTaskError, match=f"'{PATH}' is for the queue 'other', and this one"):
        face.enqueue(RustTask(PATH, queue="other"))
    step: Any = RustStep(PATH)
    with pytest.raises(InvalidTaskError, match="make it part of a flow"):
        face.enqueue(step)
    assert conn.llen("mail") == 1


def nested(levels: int) -> Any:
    made: Any = RustTask(PATH)
    for _ in range(levels):
        made = chain(made)
    return made


A = RustTask(PATH)
CHAIN: Any = chain
GROUP: Any = group
FLOW: Any = Flow
STEP: Any = RustStep


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CHAIN(PyTask("m:f")), "PyTask 'm:f' cannot be a part of a flow: a worker of Pyth"),
        (lambda: CHAIN(A, GoTask("p.F")), "GoTask 'p.F' cannot be a part of a flow"),
        (lambda: GROUP([original.PyTask("m:f")]), "PyTask 'm:f' cannot be a part of a flow"),
        (lambda: GROUP([original.GoTask("p.F", 1)]), "GoTask 'p.F' cannot be a part of a flow"),
        (lambda: CHAIN(FLOW(CHAIN(A))), "a flow cannot be a part of another one"),
        (lambda: CHAIN(RustTask("delayed.flow")), "a flow cannot be a part of another one"),
        (lambda: CHAIN(A).then(5), "a int cannot be a part of a flow; give a RustTask"),
        (lambda: CHAIN(RustTask(PATH, id="x")), f"RustTask '{PATH}' has an id"),
        (
            lambda: CHAIN(RustTask(PATH, max_len=1, overflow="bury_oldest")),
            f"RustTask '{PATH}' has overflow",
        ),
        (lambda: CHAIN(RustTask(PATH, queue="a b")), "the queue name 'a b' contains a space"),
        (lambda: CHAIN(RustTask(PATH, queue="mail_flows")), "the queue name 'mail_flows' is, or"),
        (lambda: GROUP([A], at_most=0), "at_most is 0; give a whole number from 1"),
        (lambda: GROUP([A], at_most=True), "at_most is a bool"),
        (lambda: GROUP([A], policy="any"), "policy is 'any'; give one of wait_for_all, fail_fast"),
        (lambda: nested(33), "nested more than 32 deep"),
        (lambda: FLOW(A), "a flow is a chain or a group, not a RustTask"),
        (lambda: FLOW(CHAIN(STEP(PATH))), "a flow begins with a step"),
        (lambda: FLOW(GROUP([A, CHAIN(STEP(PATH), A)])), "a flow begins with a step"),
        (lambda: FLOW(CHAIN(A), on_error=CHAIN(A)), "is a single RustTask or RustStep"),
        (lambda: FLOW(CHAIN(A), on_error=PyTask("m:f")), "PyTask 'm:f' cannot be a part of a flow"),
        (lambda: FLOW(CHAIN(A), keep=None), "keep is None; a flow has a record"),
        (lambda: FLOW(CHAIN(A), after=-1), "Flow: after is negative"),
        (lambda: FLOW(CHAIN(A), unique="always"), "Flow: unique is 'always'"),
        (lambda: STEP(PATH, {"a": 1}), f"RustStep '{PATH}': args is a dict"),
        (lambda: STEP(PATH, retry=0.5), f"RustStep '{PATH}': retry is a float"),
    ],
)
def test_what_cannot_be_a_flow_is_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        make()


def test_the_deepest_flow_is_sent(queue: Queue) -> None:
    queue.enqueue(nested(32))


def test_flows_can_be_pickled_and_shown() -> None:
    flow = Flow(chain(A, group([RustStep(PATH, (1,))], at_most=2)), on_error=RustStep(PATH))
    copy = pickle.loads(pickle.dumps(flow))
    assert (copy.id, message(copy)) == (flow.id, message(flow))
    assert repr(copy) == repr(flow)
    assert f"RustStep('{PATH}', retry=None" in repr(flow)
    assert isinstance(chain(A), Chain)
    assert isinstance(group([]), Group)
