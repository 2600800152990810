"""Defines periodic tasks: the workers and sweepers in Rust make their calls."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Any, Literal, Union

from msgpack import Unpacker, packb

from .bulk import QUEUES, keys_of_timetable
from .errors import InvalidTaskError, shown
from .flow import Chain, Flow, Group, task_for
from .link import AsyncLink, Link, Plan
from .scripts import DEFINE
from .task import RustTask
from .times import Duration, span_ms
from .unique import lock_of

if TYPE_CHECKING:
    from delayed.task import GoTask as OriginalGoTask
    from delayed.task import PyTask as OriginalPyTask

    from .foreign import GoTask, PyTask

__all__ = ["AsyncPeriodic", "Missed", "Overlap", "Periodic", "definition_of"]

Overlap = Literal["allow", "skip", "queue"]
"""What happens when the call of an earlier tick has not ended: the next one is enqueued all the
same; the tick is skipped; or the next call waits until the earlier one has ended.
"""

Missed = str
"""What happens to ticks that nobody made within a minute: `skip`; `once` (one call for all of
them); `all`; or `all:N` (the last N, at most 1000).
"""

MAX_NAME = 200
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\\s"
)
_MISSED = re.compile("skip|once|all|all:([1-9][0-9]{0,2}|1000)")
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")

Task = Union[RustTask, Flow, Chain, Group, "PyTask", "GoTask", "OriginalPyTask", "OriginalGoTask"]


def definition_of(
    queue: str,
    name: str,
    cron: str,
    task: Task,
    tz: str | None = None,
    overlap: Overlap = "allow",
    missed: Missed = "once",
    expires: Duration | None = None,
) -> bytes:
    """Return a definition, as a Rust client writes it.

    Raises:
        InvalidTaskError: When it cannot be one.
    """
    try:
        _check(name, cron, tz, overlap, missed)
        message, is_ours = _message(queue, name, task, overlap)
        if expires is not None and not is_ours:
            raise InvalidTaskError("a call of Python or Go has no place for expires; leave it out")
        said = {
            "cron": cron.strip(),
            "tz": tz,
            "overlap": overlap,
            "missed": "all" if missed == "all:100" else missed,
            "message": message,
            "ours": True if is_ours else None,
            "expires_ms": None if expires is None else span_ms(expires, "expires"),
        }
    except InvalidTaskError as error:
        raise InvalidTaskError(f"periodic task {shown(name)}: {error}") from None
    return bytes(packb({key: value for key, value in said.items() if value is not None}))


def _check(name: Any, cron: Any, tz: Any, overlap: Any, missed: Any) -> None:
    if not isinstance(name, str) or not 0 < len(name.encode()) <= MAX_NAME or _HIDDEN.search(name):
        raise InvalidTaskError(
            f"the name is not valid; give 1 to {MAX_NAME} bytes of printable text without spaces"
        )
    words = cron.split() if isinstance(cron, str) else []
    is_known = (
        len(words) in (5, 6)
        or (len(words) == 1 and words[0].lower() in _NICKNAMES)
        or (len(words) > 1 and words[0].lower() == "@every")
    )
    if not is_known:
        raise InvalidTaskError(
            f"cron is {shown(cron)}; give five fields, such as '0 3 * * *', six with seconds "
            "first, '@daily', or '@every 90s'"
        )
    if tz is not None and (not isinstance(tz, str) or not re.fullmatch("[A-Za-z0-9_/+-]+", tz)):
        raise InvalidTaskError(f"tz is {shown(tz)}; give a name such as 'Europe/Berlin'")
    if overlap not in ("allow", "skip", "queue"):
        raise InvalidTaskError(f"overlap is {shown(overlap)}; give 'allow', 'skip' or 'queue'")
    if not isinstance(missed, str) or not _MISSED.fullmatch(missed):
        raise InvalidTaskError(
            f"missed is {shown(missed)}; give 'skip', 'once', 'all', or 'all:N' up to 1000"
        )


def _message(queue: str, name: str, task: Task, overlap: str) -> tuple[bytes, bool]:
    """Return the message of the calls, and whether it is one of ours, which gets an id."""
    call: Any = task_for(task, queue)
    is_flow = isinstance(task, (Flow, Chain, Group))
    if isinstance(task, Flow) and task._is_single:
        raise InvalidTaskError(
            "its flow has options that the call of a tick cannot have; leave out all but on_error "
            "and keep"
        )
    own_id = call._has_own_id if isinstance(call, RustTask) else getattr(call, "_id", None)
    is_single = own_id or any(getattr(call, option, None) for option in ("_due", "_submission"))
    if is_single and not is_flow:
        raise InvalidTaskError(
            f"{task!r} has options that the call of a tick cannot have; leave out after, at, id, "
            "keep, unique, front and max_len"
        )
    if is_flow and overlap == "queue":
        raise InvalidTaskError(
            "a flow goes on after the call that begins it, so no other one waits for its end; "
            "give overlap 'allow' or 'skip'"
        )
    data = bytes(call._message() if hasattr(call, "_message") else call.serialize() or b"")
    if not isinstance(call, RustTask):
        if overlap != "allow":
            raise InvalidTaskError(
                "nobody knows when a call of Python or Go ends; leave out overlap"
            )
        return data, False
    path, payload, meta = _parts(data)
    meta.pop("i", None)  # each tick gives its call an id
    if overlap == "skip":
        lock = lock_of(b"d", path, b"", f"periodic:{name}")
        meta.setdefault("s", packb(0))
        meta["u"] = packb(lock)
    elif overlap == "queue":
        limits = Unpacker(max_buffer_size=0)
        limits.feed(meta.get("l", b"\x90"))
        meta["l"] = packb([*limits.unpack(), f"periodic:{queue}:{name}"])
    pairs = b"".join(packb(key) + value for key, value in sorted(meta.items()))
    return b"\x93" + packb(path) + packb(payload) + bytes([0x80 | len(meta)]) + pairs, True


def _parts(data: bytes) -> tuple[str, bytes, dict[str, bytes]]:
    """Return the path, the payload and the encoded values of the meta of a message of ours."""
    unpacker = Unpacker(max_buffer_size=0)
    unpacker.feed(data)

    def value() -> bytes:
        begin = unpacker.tell()
        unpacker.skip()
        return data[begin : unpacker.tell()]

    count = unpacker.read_array_header()
    path = str(unpacker.unpack())
    begin = unpacker.tell()
    if count == 3 and data[begin] in (0xC4, 0xC5, 0xC6):
        payload = bytes(unpacker.unpack())
        return (
            path,
            payload,
            {unpacker.unpack(): value() for _ in range(unpacker.read_map_header())},
        )
    # The original's form: the arguments are by place and by keyword.
    payload = value() if count > 1 else b"\x90"
    meta = {"k": value() if count > 2 else b"\x80"}
    if count > 3:
        meta["r"] = value()
    return path, payload, meta


def _define(queue: str, what: str, name: str, text: bytes | str) -> Plan[str]:
    due, _, timetable = keys_of_timetable(queue)
    keys = due, f"{queue}_periodic", timetable
    words = yield "EVAL", DEFINE, 3, *keys, queue, f"{queue}:due", what, 0, name, text, 0
    word: bytes = words[0]
    return word.decode()


def _add(queue: str, name: str, definition: bytes, overlap: str, replace: bool) -> Plan[bool]:
    yield "SADD", QUEUES, queue
    if overlap == "queue":
        limit = f"periodic:{queue}:{name}"
        yield "HSET", f"{{delayed:{limit}}}:policy", "concurrency", 1
        yield "SADD", "delayed_limits", limit
    word = yield from _define(queue, "put" if replace else "new", name, definition)
    return word != "exists"


def _change(queue: str, what: str, name: str, by: str = "") -> Plan[bool | None]:
    word = yield from _define(queue, what, name, by)
    return None if word == "absent" else word != "same"


def _here() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"


class Periodic:
    """The periodic tasks of a queue: `Queue.periodic`. Workers and sweepers in Rust serve them."""

    def __init__(self, link: Link, queue: str) -> None:
        self._link, self._queue = link, queue

    def add(
        self,
        name: str,
        cron: str,
        task: Task,
        *,
        tz: str | None = None,
        overlap: Overlap = "allow",
        missed: Missed = "once",
        expires: Duration | None = None,
        replace: bool = True,
    ) -> bool:
        """Define a periodic task.

        Args:
            name: Its name, unique in the queue.
            cron: Five fields, six with the second first, `@daily` and the like, or `@every 90s`. An
                expression that no worker can read has no ticks: `periodic list` says why.
            task: What is called: a `RustTask`, a `PyTask` or a `GoTask` without options that only
                one call can have. Or a chain, a group or a `Flow` with `on_error` and `keep` alone,
                of which each tick begins a new one.
            tz: The time zone of the expression, such as `Europe/Berlin`; UTC without it.
            overlap: What happens when the call of an earlier tick has not ended; of a flow, the
                whole flow, with `allow` or `skip`.
            missed: What happens to ticks that nobody made within a minute.
            expires: How long after its tick a call of a `RustTask` may begin.
            replace: Whether one of this name is replaced.

        Returns:
            Whether it was defined; False when there is one of this name and `replace` is False.

        Raises:
            InvalidTaskError: When it cannot be one; nothing was sent.
            redis.RedisError: When Redis failed. To define it again is harmless.
        """
        queue = self._queue
        definition = definition_of(queue, name, cron, task, tz, overlap, missed, expires)
        return self._link.run(_add(queue, name, definition, overlap, replace))

    def remove(self, name: str) -> bool:
        """Remove a periodic task with its history, and return whether there was one."""
        return self._link.run(_change(self._queue, "remove", name)) is not None

    def pause(self, name: str) -> bool | None:
        """Let a periodic task make no calls until it is resumed.

        Returns:
            Whether that changed anything; None when there is no such task.
        """
        return self._link.run(_change(self._queue, "pause", name, _here()))

    def resume(self, name: str) -> bool | None:
        """Resume a periodic task with its next tick. As `pause`."""
        return self._link.run(_change(self._queue, "resume", name))


class AsyncPeriodic:
    """The periodic tasks of a queue: `AsyncQueue.periodic`. As `Periodic`."""

    def __init__(self, link: AsyncLink, queue: str) -> None:
        self._link, self._queue = link, queue

    async def add(
        self,
        name: str,
        cron: str,
        task: Task,
        *,
        tz: str | None = None,
        overlap: Overlap = "allow",
        missed: Missed = "once",
        expires: Duration | None = None,
        replace: bool = True,
    ) -> bool:
        """Define a periodic task. As `Periodic.add`."""
        queue = self._queue
        definition = definition_of(queue, name, cron, task, tz, overlap, missed, expires)
        return await self._link.run(_add(queue, name, definition, overlap, replace))

    async def remove(self, name: str) -> bool:
        """Remove a periodic task. As `Periodic.remove`."""
        return await self._link.run(_change(self._queue, "remove", name)) is not None

    async def pause(self, name: str) -> bool | None:
        """Pause a periodic task. As `Periodic.pause`."""
        return await self._link.run(_change(self._queue, "pause", name, _here()))

    async def resume(self, name: str) -> bool | None:
        """Resume a periodic task. As `Periodic.resume`."""
        return await self._link.run(_change(self._queue, "resume", name))
