"""Flows: chains and groups of calls of Rust tasks, each sent as the one message that begins it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Union
from uuid import UUID

from delayed.task import GoTask, PyTask
from msgpack import packb, unpackb

from .arguments import kind_of, standard_payload
from .bulk import Task, keys_of_timetable
from .call_id import CallId, new_id, parse_id
from .errors import InvalidTaskError, shown
from .item import RustItem
from .task import Call, Overflow, RustStep, RustTask
from .times import Duration, Moment
from .unique import Unique

__all__ = ["Chain", "Flow", "Group", "Part", "Policy", "chain", "group", "task_for"]

TASK = "delayed.flow"
"""The path of the task that begins a flow. It is built into each Rust worker."""

MAX_NESTING, MAX_PARTS = 32, 1_000_000
"""How deep chains and groups are nested at most, and how many parts a flow has, all in all."""

KEEP = timedelta(days=1)

Policy = Literal["wait_for_all", "fail_fast", "successes"]
"""When a group fails: when all members have ended and one of them failed; with the first member
that fails, and the others are cancelled; or never: it goes on with the results of those that
succeeded.
"""

_LETTERS = {"wait_for_all": "a", "fail_fast": "f", "successes": "s"}


class Chain:
    """Parts that run one after the other: see `chain`."""

    __slots__ = ("_parts", "_size")

    def __init__(self, parts: tuple[Part, ...], size: _Size) -> None:
        self._parts, self._size = parts, size

    def then(self, part: Part) -> Chain:
        """Return a chain with one more part, which begins when those before it have succeeded.

        Raises:
            InvalidTaskError: When that cannot be a part of a flow.
        """
        return Chain((*self._parts, part), self._size.with_part(_size_of(part)))

    def __repr__(self) -> str:
        return f"Chain{self._parts!r}"


class Group:
    """Parts that run at the same time: see `group`."""

    __slots__ = ("_at_most", "_members", "_policy", "_size")

    def __init__(
        self, members: tuple[Part, ...], at_most: int | None, policy: Policy, size: _Size
    ) -> None:
        self._members, self._at_most, self._policy, self._size = members, at_most, policy, size

    def then(self, part: Part) -> Chain:
        """Return a chain of this group and a part that begins when the group has succeeded.

        Raises:
            InvalidTaskError: When that cannot be a part of a flow.
        """
        return chain(self, part)

    def __repr__(self) -> str:
        return f"Group({list(self._members)!r}, at_most={self._at_most}, policy={self._policy!r})"


Part = Union[RustTask, RustStep, Chain, Group]
"""A part of a flow: a call, a step, which takes the result of the part before it, or more of them.
"""


class _Size(NamedTuple):
    """What has to be known of a part to put it into another one."""

    parts: int
    depth: int
    takes: bool
    """Whether it takes the result of the part before it."""

    def with_part(self, part: _Size, *, takes: bool = False) -> _Size:
        """Return the size of a chain or a group with one more part."""
        parts, depth = self.parts + part.parts, max(self.depth, part.depth + 1)
        if depth > MAX_NESTING:
            raise InvalidTaskError(
                f"chains and groups of a flow are nested more than {MAX_NESTING} deep: "
                "pass results on in fewer levels"
            )
        if parts > MAX_PARTS:
            raise InvalidTaskError(f"a flow has more than {MAX_PARTS} parts: make several flows")
        return _Size(parts, depth, self.takes or takes)


def chain(first: Part, *others: Part) -> Chain:
    """Run parts one after the other: each begins when the one before it has succeeded.

        chain(
            RustTask("my_crate::fetch", ("https://example.org",)),
            RustStep("my_crate::count", ("Rust",)),
        )

    The result of the first call is the first argument of the step. A `RustTask` in its place
    ignores that result. The result of a chain is that of its last part.

    Args:
        first: The first part: a `RustTask`, a `RustStep`, a chain or a group.
        others: Those that follow it. `Chain.then` adds more.

    Raises:
        InvalidTaskError: When something cannot be a part of a flow.
    """
    size = _size_of(first)
    made = Chain((first,), _Size(1, 0, False).with_part(size, takes=size.takes))
    for part in others:
        made = made.then(part)
    return made


def group(
    members: Iterable[Part], *, at_most: int | None = None, policy: Policy = "wait_for_all"
) -> Group:
    """Run parts at the same time. Its result is the list of their results, in their order.

        group(RustTask("my_crate::resize", (image,)) for image in images).then(
            RustStep("my_crate::publish")
        )

    Steps among them all take the result of the part before the group. A group without members
    succeeds at once.

    Args:
        members: The parts: `RustTask`s, `RustStep`s, chains and groups.
        at_most: How many members may run at a time, at least 1. The others begin, in order, as
            members end. None: all of them.
        policy: When it fails. `wait_for_all`: it waits for all members, and fails if one of them
            failed. `fail_fast`: it fails with its first member that fails, and cancels the others.
            `successes`: it waits for all, and succeeds with the results of those that succeeded.

    Raises:
        InvalidTaskError: When something cannot be a part of a flow, or an option cannot be meant.
    """
    if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int)):
        raise InvalidTaskError(f"at_most is a {kind_of(at_most)}; give a whole number from 1 on")
    if at_most is not None and not 1 <= at_most < 2**32:
        raise InvalidTaskError(
            f"at_most is {shown(at_most)}; give a whole number from 1 to 2^32-1, or none"
        )
    if policy not in _LETTERS:
        raise InvalidTaskError(f"policy is {shown(policy)}; give one of {', '.join(_LETTERS)}")
    parts, size = tuple(members), _Size(1, 0, False)
    for part in parts:
        of_part = _size_of(part)
        size = size.with_part(of_part, takes=of_part.takes)
    return Group(parts, at_most, policy, size)


class Flow:
    """A whole flow with its options: a chain or a group that a queue enqueues.

    `Queue.enqueue` takes a chain or a group as well, as a flow without options. One `Flow` is one
    call: it has an id, under which it is enqueued once. Its handle waits for the result of the
    whole flow, tells its state, and cancels it with all its steps.

    The flow begins when a Rust worker runs its message. Its queue has to be served by a Rust
    worker, and so have those of its steps: with `queue`, a part names another one than that of the
    flow. Arguments are encoded as a Rust client does: where the first one is a list, give all of
    them, also None for those that are optional.

    Args:
        root: The chain or the group.
        on_error: A call that runs once if the flow fails: a `RustTask`, or a `RustStep` that takes
            the failure, a map with `flow`, `step`, `task`, `state` and `reason` (`FlowFailure` in
            Rust). It does not run if the flow is cancelled.
        after: How long after it was enqueued the flow begins, as of `RustTask`.
        at: When it begins.
        id: Its id.
        keep: For how long the result, and what is known of the steps, is kept after its end.
        expires: How long after it was enqueued, or after it is due, it must have begun.
        expires_at: The moment at which it must have begun.
        unique: Until when it is the only flow of these parts, as of `RustTask`.
        unique_key: Compares unique flows by this text.
        front: Whether its message goes to the head of the queue.
        max_len: It is refused when so many messages wait in its queue.
        overflow: As of `RustTask`.

    Raises:
        InvalidTaskError: When the flow cannot run, or an option cannot be meant.
    """

    __slots__ = ("_id", "_is_single", "_on_error", "_options", "_root")

    def __init__(
        self,
        root: Chain | Group,
        *,
        on_error: RustTask | RustStep | None = None,
        after: Duration | None = None,
        at: Moment | None = None,
        id: CallId | None = None,
        keep: Duration = KEEP,
        expires: Duration | None = None,
        expires_at: Moment | None = None,
        unique: Unique | None = None,
        unique_key: str | None = None,
        front: bool = False,
        max_len: int | None = None,
        overflow: Overflow | None = None,
    ) -> None:
        if not isinstance(root, (Chain, Group)):
            raise InvalidTaskError(f"a flow is a chain or a group, not a {kind_of(root)}")
        if keep is None:
            raise InvalidTaskError("keep is None; a flow has a record: give a duration")
        if root._size.takes:
            raise InvalidTaskError(
                "a flow begins with a step, and there is no result before it: use a RustTask"
            )
        if on_error is not None:
            _size_of(on_error)
            if not isinstance(on_error, Call):
                raise InvalidTaskError(
                    "what runs if a flow fails is a single RustTask or RustStep: "
                    "let it enqueue another flow"
                )
        self._root, self._on_error = root, on_error
        self._id = new_id() if id is None else parse_id(id)
        of_one_call = (after, at, id, expires, expires_at, unique, unique_key, max_len, overflow)
        self._is_single = front or any(option is not None for option in of_one_call)
        self._options: dict[str, Any] = {
            "after": after,
            "at": at,
            "id": self._id,
            "keep": keep,
            "expires": expires,
            "expires_at": expires_at,
            "unique": unique,
            "unique_key": unique_key,
            "front": front,
            "max_len": max_len,
            "overflow": overflow,
        }
        _FlowTask(TASK, **self._options)  # raises for what is wrong, here and now

    @property
    def id(self) -> UUID:
        """The id of the flow."""
        return self._id

    def __repr__(self) -> str:
        said = f", on_error={self._on_error!r}" if self._on_error else ""
        return f"Flow({self._root!r}{said}, id={self._id})"

    def _task_for(self, queue: str) -> RustTask:
        """Return the call that begins it, in this queue."""
        plan = {"root": _node(self._root, queue)}
        if self._on_error:
            plan["on_error"] = _step(self._on_error, queue)
        return _FlowTask(TASK, (plan,), **self._options)


class _FlowTask(RustTask):
    """The call that begins a flow: its argument is encoded as Rust encodes it."""

    __slots__ = ()

    def _about(self, path: str) -> str:
        return "Flow"

    def _encoded(self, places: list[Any], keywords: dict[str, Any], meta: dict[str, Any]) -> bytes:
        return _message(self._func_path, places, {}, meta)


def task_for(task: Task | Flow | Chain | Group, queue: str) -> Task:
    """Return what a queue of this name enqueues for a task: of a flow, the call that begins it.

    Raises:
        InvalidTaskError: When it is not for this queue, or needs a call before it.
    """
    if isinstance(task, (Chain, Group)):
        task = Flow(task)
    if isinstance(task, Flow):
        return task._task_for(queue)
    if isinstance(task, RustStep):
        raise InvalidTaskError(
            f"RustStep {task.path!r} takes the result of a call before it: make it part of a flow"
        )
    if isinstance(task, (RustTask, RustItem)) and task.queue not in (None, queue):
        about = f"{type(task).__name__} {task.path!r}"
        raise InvalidTaskError(
            f"{about} is for the queue {task.queue!r}, and this one is {queue!r}"
        )
    return task


def _size_of(part: Any) -> _Size:
    """Return the size of a part, or refuse what is none."""
    if isinstance(part, (Chain, Group)):
        return part._size
    if isinstance(part, (PyTask, GoTask)):
        raise InvalidTaskError(
            f"{type(part).__name__} {part._func_path!r} cannot be a part of a flow: a worker of "
            "Python or Go does not say how a call ended; let a task in Rust enqueue it"
        )
    if isinstance(part, Flow) or (isinstance(part, Call) and part.path == TASK):
        raise InvalidTaskError(
            "a flow cannot be a part of another one: use its chain or group instead"
        )
    if not isinstance(part, Call):
        raise InvalidTaskError(
            f"a {kind_of(part)} cannot be a part of a flow; "
            "give a RustTask, a RustStep, a chain or a group"
        )
    about = part._about(part.path)
    if part._has_own_id:
        raise InvalidTaskError(f"{about} has an id: a part of a flow gets its own from the flow")
    if part._submission and part._submission.bound.buries:
        raise InvalidTaskError(
            f"{about} has overflow: a part of a flow waits while a queue is full"
        )
    if part.queue is not None:
        keys_of_timetable(part.queue)
    return _Size(1, 0, isinstance(part, RustStep))


def _node(part: Part, queue: str) -> dict[str, Any]:
    """Return a part as it travels."""
    if isinstance(part, Chain):
        return {"chain": [_node(inner, queue) for inner in part._parts]}
    if not isinstance(part, Group):
        return {"step": _step(part, queue)}
    node: dict[str, Any] = {"group": [_node(member, queue) for member in part._members]}
    if part._at_most is not None:
        node["at_most"] = part._at_most
    if part._policy != "wait_for_all":
        node["policy"] = _LETTERS[part._policy]
    return node


def _step(call: Call, queue: str) -> dict[str, Any]:
    """Return a call of a flow as it travels: with its message, and what that does not say."""
    due, submission = call._due, call._submission
    is_relative = due is not None and due.startswith("+")
    options = {
        "takes": isinstance(call, RustStep),
        "after": int(due) if due and is_relative else None,
        "at": int(due) if due and not is_relative else None,
        "expires": call._expires,
        "front": submission is not None and submission.front,
        "period": submission.period or None if submission else None,
        "max_len": submission.bound.max_len or None if submission else None,
    }
    said = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    return {"queue": call.queue or queue, "message": _step_message(call), **said}


def _step_message(call: Call) -> bytes:
    """Return the message of a call as Rust makes it, without an id."""
    path, *parts = _unpacked(call._message())
    meta: dict[str, Any] = {}
    if parts and isinstance(parts[0], bytes):
        payload, meta = parts
        places, keywords = _unpacked(payload), meta.pop("k")
        meta.pop("i", None)
    else:
        filled: list[Any] = [*parts, *([], {}, None)[len(parts) :]]
        places, keywords, meta["r"] = filled
    if call._expires is not None:
        del meta["d"]
    return _message(path, places, keywords, meta)


def _message(path: str, places: list[Any], keywords: dict[str, Any], meta: dict[str, Any]) -> bytes:
    """Write a call as Rust does: only with arguments by keyword, others are by place."""
    if keywords:
        payload, meta = packb(places, datetime=True), {**meta, "k": keywords}
    else:
        payload = standard_payload(places)
    said = {key: value for key, value in sorted(meta.items()) if value is not None}
    return bytes(packb([path, payload, said] if said else [path, payload], datetime=True))


def _unpacked(message: bytes) -> Any:
    return unpackb(message, strict_map_key=False)
