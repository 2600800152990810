"""Do the options of a call become the bytes that Rust makes, and which are refused?"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest
from delayed import task as original

from delayed_compat import Backoff, GoTask, InvalidTaskError, PyTask, RustTask
from delayed_compat.task import submission_of

VECTORS = Path(__file__).parents[2] / "tests" / "wire" / "native.json"
PATH = "demo::tasks::add"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ID = UUID("018bcfe5-687b-7b5c-8a3e-0123456789ab")
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text())["cases"]


def vectors_of_rust_tasks() -> list[Any]:
    cases = [case for case in CASES if case.get("rust_task")]
    assert len(cases) >= 23
    return [pytest.param(case, id=case["name"]) for case in cases]


def vectors_of_rust_calls() -> list[Any]:
    """Return the followed calls of a Rust client, whose messages have no `k`."""
    followed = (case for case in CASES if "keep_ms" in case and not case.get("rust_task"))
    cases = [case for case in followed if "member" not in case]
    assert len(cases) >= 6
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.mark.parametrize("case", vectors_of_rust_tasks())
def test_it_is_the_bytes_of_the_vector(case: dict[str, Any]) -> None:
    milliseconds = case.get("expires_ms"), case.get("timeout_ms")
    expires_at, timeout = (None if one is None else one / 1000 for one in milliseconds)
    task = RustTask(
        case["func_path"],
        case["args"],
        dict(case["kwargs"]["$map"]),
        case["retry"],
        id=case["id"],
        retry_for=None if (time := case.get("retry_for_ms")) is None else time / 1000,
        backoff=case.get("backoff"),
        expires_at=expires_at,
        timeout=timeout,
        headers=case.get("headers"),
        limit=case.get("limits"),
        traceparent=case.get("traceparent"),
        tracestate=case.get("tracestate"),
        **following(case),
    )
    message = encoded(task) if task.needs_script else task.serialize()
    assert (message if case["id"] else without_new_id(message)).hex() == case["hex"]


@pytest.mark.parametrize("case", vectors_of_rust_calls())
def test_it_is_followed_and_locked_as_a_call_of_rust(case: dict[str, Any]) -> None:
    task = RustTask(case["func_path"], case["args"], id=case["id"], **following(case))
    ours, theirs = msgpack.unpackb(encoded(task)), msgpack.unpackb(bytes.fromhex(case["hex"]))
    assert ours[2].pop("k") == {}, "expected it to say that the arguments are by place"
    assert ours == theirs


def following(case: dict[str, Any]) -> dict[str, Any]:
    """Return the options with which a call is followed and unique, as a vector has them."""
    unique = case.get("unique") or {}
    mode, keep = unique.get("mode"), case.get("keep_ms")
    if mode == "ordered":
        return {"ordered": unique["key"]}
    return {
        "keep": keep / 1000 if keep else None,
        "unique": HOUR if mode == "period" else mode,
        "unique_key": unique.get("key"),
    }


def without_new_id(message: bytes) -> bytes:
    """Return the message of a call without the id that it was given as one with an option."""
    path, payload, said = msgpack.unpackb(message)
    assert UUID(bytes=said.pop("i")).version == 7
    return bytes(msgpack.packb([path, payload, said]))


def encoded(task: RustTask) -> bytes:
    """Return the message of a call that `lua/submit.lua` takes."""
    submission = submission_of(task)
    assert submission
    message = submission[1][-1]
    assert isinstance(message, bytes)
    return message


def meta(**options: Any) -> Any:
    """Return what the message of a call with these options says beside path and arguments."""
    path, payload, meta = msgpack.unpackb(RustTask(PATH, (1,), **options)._data)
    assert (path, payload, meta.pop("k")) == (PATH, b"\x91\x01", {})
    return meta


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"id": ID}, {"i": ID.bytes, "s": 0}),
        ({"id": ID.bytes}, {"i": ID.bytes, "s": 0}),
        ({"id": str(ID).upper()}, {"i": ID.bytes, "s": 0}),
        ({"id": ID.hex}, {"i": ID.bytes, "s": 0}),
        ({"retry": 0}, {"r": 0}),
        ({"max_attempts": 1}, {"r": 0}),
        ({"max_attempts": 0}, {"r": 0}),
        ({"max_attempts": 2**32 - 1, "id": ID}, {"r": 2**32 - 2, "i": ID.bytes, "s": 0}),
        ({"timeout": 0.0011}, {"t": 2}),
        ({"timeout": 0}, {"t": 1}),
        ({"timeout": 30}, {"t": 30_000}),
        ({"timeout": timedelta(hours=1)}, {"t": 3_600_000}),
        ({"expires_at": 1.0001}, {"d": 1001}),
        (
            {"expires_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)},
            {"d": 17 * 10**11},
        ),
        ({"expires_at": datetime(1969, 1, 1, tzinfo=timezone.utc)}, {"d": 0}),
        ({"expires_at": datetime.max.replace(tzinfo=timezone.utc)}, {"d": 253_402_300_800_000}),
        ({"expires_at": -5}, {"d": 0}),
        ({"headers": {"tenant": "acme"}}, {"h": {"tenant": "acme"}}),
        ({"limit": "github"}, {"l": ["github"]}),
        ({"limit": ["github", "tenant:42", "github"]}, {"l": ["github", "tenant:42"]}),
        ({"headers": {"x": "y" * 4095}}, {"h": {"x": "y" * 4095}}),
        ({"headers": {"b": "", "\u00e9": "\u65e5\n"}}, {"h": {"b": "", "\u00e9": "\u65e5\n"}}),
        ({"traceparent": PARENT}, {"w": [PARENT]}),
        ({"traceparent": PARENT, "tracestate": "a=b"}, {"w": [PARENT, "a=b"]}),
        ({"traceparent": f"cc{PARENT[2:]}-x", "tracestate": ""}, {"w": [f"cc{PARENT[2:]}-x"]}),
        ({"id": ID, "traceparent": "", "tracestate": "a=b"}, {"i": ID.bytes, "s": 0}),
        ({"retry_for": timedelta(days=2)}, {"g": 172_800_000}),
        ({"retry_for": 0.0011, "retry": 5}, {"g": 2, "r": 5}),
        ({"retry_for": 0, "max_attempts": 3}, {"g": 1, "r": 2}),
        ({"backoff": "none"}, {"b": "none"}),
        ({"backoff": Backoff.none()}, {"b": "none"}),
        ({"backoff": Backoff.fixed(90)}, {"b": "fixed:1m30s"}),
        ({"backoff": Backoff.linear(SECOND, 300)}, {"b": "linear:1s..5m"}),
        ({"backoff": Backoff.exponential(0.25, SECOND)}, {"b": "exponential:250ms..1s"}),
        ({"backoff": " fixed: 1 hour 30min "}, {"b": "fixed:1h30m"}),
        ({"backoff": "fixed:1.5weeks"}, {"b": "fixed:10days12h"}),
    ],
)
def test_an_option_on_the_wire(options: dict[str, Any], expected: dict[str, Any]) -> None:
    said = meta(**options)
    if "i" not in expected:
        assert UUID(bytes=said.pop("i")).version == 7
    assert said == expected


def test_a_text_is_the_same_id_as_in_rust() -> None:
    cases = json.loads((VECTORS.parent / "ids.json").read_text())["cases"]
    assert len(cases) >= 14
    for case in cases:
        assert RustTask(PATH, id=case["text"]).id == UUID(case["id"]), case["text"]


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"expires": 600}, 600),
        ({"expires": timedelta(minutes=10), "after": HOUR}, 4200),
        ({"expires": 600, "at": datetime.now(timezone.utc) + HOUR}, 4200),
        ({"expires": 600, "at": 0}, 600),
    ],
)
def test_expires_counts_from_when_a_call_could_run(options: dict[str, Any], seconds: int) -> None:
    before = datetime.now(timezone.utc).timestamp()
    message = msgpack.unpackb(RustTask(PATH, (1,), id=ID, **options)._data)
    after = datetime.now(timezone.utc).timestamp()
    slack = 60 if "at" in options else 0.01  # that moment was taken when the tests were collected
    assert before + seconds - slack <= message[2]["d"] / 1000 <= after + seconds + 0.01


@pytest.mark.parametrize(
    "options",
    [{}, {"headers": {}}, {"limit": []}, {"retry": 3}, {"max_attempts": 4}, {"retry": -1}],
)
def test_what_the_original_can_say_is_said_as_it_does(options: dict[str, Any]) -> None:
    assert msgpack.unpackb(RustTask(PATH, (1,), **options).serialize())[:2] == [PATH, [1]]


BAD_IDS = ["", b"", b"x" * 15, b"x" * 17, bytearray(16), 5, ID.int, True, 10**5000]
NOT_FINITE = [math.nan, math.inf, -math.inf, 1.7e308]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *[({"id": id}, "id is .*; give a UUID, its 16 bytes") for id in BAD_IDS],
        *[({"after": bad}, "after is .*; give a timedelta or") for bad in NOT_FINITE],
        *[({"at": bad}, "at is .*; give a datetime") for bad in NOT_FINITE],
        *[({"timeout": bad}, "timeout is .*; give a timedelta") for bad in NOT_FINITE],
        *[({"expires_at": bad}, "expires_at is .*; give a datetime") for bad in NOT_FINITE],
        ({"id": "\ud800"}, "id is not valid Unicode"),
        ({"after": -1}, r"after is negative \(-1\); give a duration of 0 or more"),
        ({"after": -0.001}, "after is negative"),
        ({"after": timedelta(microseconds=-1)}, "after is negative"),
        ({"after": "5s"}, "after is a str; give a timedelta or a number of seconds"),
        ({"after": True}, "after is a bool"),
        ({"after": 10**400}, "after is 10{79}… seconds, which is too long"),
        ({"after": timedelta.max}, "a hundred years from now at the most"),
        ({"after": timedelta(days=101 * 366, seconds=1)}, "a hundred years from now at the most"),
        ({"at": datetime(9999, 12, 31, tzinfo=timezone.utc)}, "a hundred years from now"),
        ({"at": 253_402_300_800}, "a hundred years from now"),  # the year 10000
        ({"at": 10**5000}, "a hundred years from now"),
        ({"at": 1e300}, "a hundred years from now"),
        ({"at": datetime(2030, 1, 1)}, "at is the naive datetime 2030-01-01 00:00:00; give it a"),
        ({"at": timedelta(1)}, "at is a timedelta; give a datetime with a time zone or seconds"),
        ({"at": "2030-01-01"}, "at is a str"),
        ({"at": 1, "after": 1}, "after and at are both given; give one of them"),
        ({"expires_at": datetime(2030, 1, 1)}, "expires_at is the naive datetime"),
        ({"expires_at": 10**20}, "expires_at is 10{20}, beyond 64 bits"),
        ({"expires": 1, "expires_at": 1}, "expires and expires_at are both given"),
        ({"expires": datetime(2030, 1, 1, tzinfo=timezone.utc)}, "expires is a datetime; give a"),
        ({"timeout": -1}, "timeout is negative"),
        ({"timeout": 1e15}, "timeout is .* seconds, which is too long"),
        ({"after": 10**5000}, "after is a int of too many digits seconds"),
        ({"retry": 10**5000}, "retry is a int of too many digits, beyond 64 bits"),
        ({"retry": 1, "max_attempts": 2}, "retry and max_attempts are both given"),
        ({"max_attempts": -1}, "max_attempts is -1; give a whole number from 1"),
        ({"max_attempts": 2**32}, "max_attempts is 4294967296; give a whole number from 1"),
        ({"max_attempts": True}, "max_attempts is a bool"),
        ({"max_attempts": 1.0}, "max_attempts is a float"),
        ({"headers": [("a", "b")]}, "headers is a list; give a dict of str to str"),
        ({"limit": 5}, "limit is a int; give a str or a list of str"),
        ({"limit": [5]}, "limit has a int in it; give a str"),
        ({"limit": "a b"}, "limit is 'a b'; give 1 to 200 bytes"),
        ({"limit": ""}, "limit is ''; give 1 to 200 bytes"),
        ({"limit": [str(n) for n in range(17)]}, "limit has 17 names, at most 16"),
        ({"headers": {"": "x"}}, "headers has the name ''; give a str, not empty"),
        ({"headers": {5: "x"}}, "headers has the name 5; give a str"),
        ({"headers": {"a": 5}}, r"headers\['a'\] is a int; give a str"),
        ({"headers": {"a": b"x"}}, r"headers\['a'\] is a bytes; give a str"),
        ({"headers": {"a": "\udc80"}}, r"headers\['a'\] is not valid Unicode"),
        ({"headers": {str(n): "" for n in range(33)}}, "headers has 33 of them, at most 32"),
        ({"headers": {"x": "y" * 4096}}, "headers has 4097 bytes, at most 4096"),
        ({"traceparent": 5}, "traceparent is a int; give a str"),
        ({"traceparent": "x"}, "traceparent is 'x'; give 00-, 32 hex digits"),
        ({"traceparent": PARENT + "-x"}, "traceparent is "),
        ({"traceparent": "ff" + PARENT[2:]}, "traceparent is "),
        ({"traceparent": PARENT.upper()}, "traceparent is "),
        ({"traceparent": PARENT[:3] + "0" * 32 + PARENT[35:]}, "traceparent is "),
        ({"traceparent": PARENT, "tracestate": b"x"}, "tracestate is a bytes; give a str"),
        ({"traceparent": PARENT, "tracestate": "\u00e9"}, "tracestate is .*give printable ASCII"),
        ({"traceparent": PARENT, "tracestate": "x" * 513}, "tracestate is .*at most 512"),
        ({"retry_for": "2d"}, "retry_for is a str; give a timedelta or a number of seconds"),
        ({"retry_for": -1}, "retry_for is negative"),
        ({"backoff": 5}, "backoff is a int; give a Backoff or a str"),
        ({"backoff": ""}, "'' is not a back-off: use none, fixed:30s, linear:10s..5m or"),
        ({"backoff": "soon"}, "is not a back-off"),
        ({"backoff": "none:"}, "is not a back-off"),
        ({"backoff": "fixed"}, "is no duration"),
        ({"backoff": "fixed:0s"}, "a wait is longer than 0"),
        ({"backoff": "fixed:1x"}, "unknown unit 'x'"),
        ({"backoff": "fixed:10"}, "is no duration such as"),
        ({"backoff": "fixed:-5s"}, "is no duration such as"),
        ({"backoff": "fixed:1s 5"}, "is no duration such as"),
        ({"backoff": "fixed:0.5us"}, "not a whole number of microseconds"),
        ({"backoff": "fixed:" + "9" * 5000 + "y"}, "is no duration"),
        ({"backoff": "fixed:9999999999y"}, "at most 365d"),
        ({"backoff": "linear:10s"}, "is not a back-off"),
        ({"backoff": "exponential:2s..1s"}, "the first wait is longer than the last"),
        ({"backoff": "exponential:1s..400d"}, "at most 365d"),
        ({"backoff": Backoff("soon")}, "'soon' is not a back-off"),
        *[({"keep": bad}, "keep is .*; give a timedelta") for bad in NOT_FINITE],
        ({"keep": -1}, "keep is negative"),
        ({"keep": timedelta.max}, "keep is .*; a hundred years is the most"),
        ({"unique": "always"}, "unique is 'always'; give 'until_started', 'until_done', 'replace'"),
        ({"unique": True}, "unique is True; give 'until_started'"),
        ({"unique": -1}, "unique is negative"),
        ({"unique": timedelta.max}, "unique is .*; a hundred years is the most"),
        ({"unique_key": b"k"}, "unique_key is a bytes; give a str"),
        ({"unique_key": "\ud800"}, "unique_key is not valid Unicode"),
        ({"unique": "until_done", "kwargs": {"a": 1}}, "by place, and there are some by keyword"),
        ({"front": 1}, "front is a int; give True or False"),
        ({"max_len": 0}, "max_len is 0; give a whole number from 1 on"),
        ({"max_len": True}, "max_len is a bool"),
        ({"max_len": 2**63}, "max_len is .*, beyond 64 bits"),
        ({"max_len": 1, "overflow": "drop"}, "overflow is 'drop'; give 'reject' or 'bury_oldest'"),
        ({"overflow": "reject"}, "overflow says what happens at max_len; give that, too"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said) as caught:
        RustTask(PATH, **options)
    assert str(caught.value).startswith("RustTask 'demo::tasks::add': ")


@pytest.mark.parametrize("make", [PyTask, GoTask])
def test_a_foreign_call_takes_the_options_of_its_place(make: Any) -> None:
    plain = make("m:f", (1,))
    assert (plain.needs_script, plain.id) == (False, None)
    assert plain.serialize() == vars(original)[make.__name__]("m:f", (1,)).serialize()
    placed = make("m:f", (1,), after=1, id="mail:7")
    assert (placed.is_scheduled, placed.id) == (True, RustTask(PATH, id="mail:7").id)
    assert pickle.loads(pickle.dumps(placed)).id == placed.id
    with pytest.raises(InvalidTaskError, match=f"{make.__name__} 'm:f' has options"):
        make("m:f", front=True).serialize()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"id": ID}, "only a scheduled call has an id"),
        ({"max_len": 0}, "max_len is 0"),
        ({"front": 1}, "front is a int"),
        ({"after": 1, "at": 1}, "both given"),
    ]
    for options, said in refused:
        with pytest.raises(InvalidTaskError, match=f"{make.__name__} 'm:f': .*{said}"):
            make("m:f", **options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Backoff.fixed(0), "longer than 0"),
        (lambda: Backoff.fixed(math.nan), "delay is nan"),
        (lambda: Backoff.linear(2, 1), "the first wait is longer than the last"),
        (lambda: Backoff.exponential(1, 366 * 86400), "at most 365d"),
        (lambda: Backoff.exponential(-1, 5), "first is negative"),
    ],
)
def test_a_back_off_that_cannot_be_meant_is_refused(make: Any, said: str) -> None:
    with pytest.raises(InvalidTaskError, match=said):
        make()


def test_a_back_off_is_read_as_it_is_written() -> None:
    for text in ("none", "fixed:30s", "linear:10s..5m", "exponential:1s..10m"):
        assert str(Backoff.parse(text)) == text
    for days in range(1, 365):
        backoff = Backoff.fixed(timedelta(days=days, seconds=days, microseconds=days))
        assert Backoff.parse(backoff.text) == backoff


def test_a_scheduled_call_gets_an_id_ordered_by_time() -> None:
    tasks = [RustTask(PATH, after=1) for _ in range(1000)]
    ids = [task.id for task in tasks if task.id]
    assert len(set(ids)) == 1000
    assert {id.version for id in ids} == {7}
    assert {id.variant for id in ids} == {"specified in RFC 4122"}
    now = datetime.now(timezone.utc).timestamp() * 1000
    assert all(now - 60_000 < id.int >> 80 <= now for id in ids)
    assert ids[0] < ids[-1]
    assert RustTask(PATH).id is None
    assert RustTask(PATH, after=1, id=ID).id == ID


def test_a_task_with_options_can_be_pickled() -> None:
    task = RustTask(PATH, after=1, retry=2)
    copy = pickle.loads(pickle.dumps(task))
    assert (copy.id, copy.retry, repr(copy)) == (task.id, 2, repr(task))
    assert "scheduled as" in repr(task)


@pytest.mark.parametrize(
    ("args", "payload"),
    [((), "c0"), ((5,), "05"), ((None,), "c0"), (([1, 2],), "920102"), ((1, "a"), "9201a161")],
)
def test_a_lock_is_of_the_payload_that_rust_writes(args: Any, payload: str) -> None:
    task = RustTask(PATH, args, unique="until_done")
    digest = hashlib.sha1(PATH.encode() + b"\0" + bytes.fromhex(payload)).digest()
    assert msgpack.unpackb(encoded(task))[2]["u"] == b"d" + digest[:16]


def test_the_place_of_the_id_is_that_in_the_meta() -> None:
    same = {"i": ID.bytes}
    options: dict[str, Any] = {"unique": "replace", "unique_key": "k", "headers": {"i": "x"}}
    for args, kwargs in [((same,), {}), ((), {"a": same}), ((), {}), (("x" * 300,), {"i": same})]:
        submission = submission_of(RustTask(PATH, args, kwargs, id=ID, expires_at=5, **options))
        assert submission
        at, _, message = submission[1][-3:]
        assert isinstance(at, int)
        assert isinstance(message, bytes)
        _, payload, meta = msgpack.unpackb(message[:at] + b"y" * 16 + message[at + 16 :])
        assert (meta["i"], meta["k"], msgpack.unpackb(payload)) == (b"y" * 16, kwargs, list(args))
