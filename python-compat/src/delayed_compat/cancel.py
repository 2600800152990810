"""Plans the cancellation of a call, wherever it is: without any I/O.

A call is marked before it is looked for: so nobody who claims it later runs it. It can only be
owned already, or move from there to the timetable or back into the queue. So the slots are
searched, then the timetable once more, and then the queue, from its tail on, as others take from
its head.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from typing import Any
from uuid import UUID

from msgpack import unpackb

from .bulk import keys_of_timetable
from .call_state import CallState
from .link import Plan
from .record import Record, read_command
from .scripts import CANCEL, CLOSE, KILL

__all__ = ["cancel"]

EXPIRY_MS = 60_000
"""How long a worker may take to hear that what it runs was cancelled."""

MAX_KILLS = 100
"""How many kill requests may stand for one worker."""

SEARCHED, PAGE = 100_000, 500
"""How many waiting messages are searched for a call without a record, and how many at a time."""

TOLD, MOVED, DEAD = 1, 0, -1
"""What `lua/kill.lua` answers: the request stands, the slot owns another message, nobody hears."""

CANCELS = "\x18"
"""What the name begins with of who cancels, in a kill request."""


def cancel(queue: str, id: UUID) -> Plan[CallState | None]:
    """Cancel a call or a flow, and return the state in which it was found; None: there is none."""
    due, later, _ = keys_of_timetable(queue)
    marks, by = f"{queue}_cancelled", f"{socket.gethostname()}/{os.getpid()}"
    flow = f"{queue}:f:{id.hex}", f"{queue}_outbox", f"{queue}_flows"
    # Of a flow that has begun the rest stands in the outbox then, and a worker does it.
    if (yield "EVAL", CLOSE, 3, *flow, queue, id.bytes, CallState.CANCELLED.value, "by", by) == 1:
        return CallState.RUNNING
    command = "EVAL", CANCEL, 3, due, later, marks, queue, by, id.bytes
    state = CallState.parse((yield command)[0])
    if _is_over(state):
        return state
    owner = yield from _owner(queue, id)
    told = (yield from _tell_worker(queue, *owner, by)) if owner else MOVED
    if told == TOLD:
        return CallState.RUNNING
    if told == MOVED and state is None:
        state = CallState.parse((yield command)[0])
        if _is_over(state):
            return state
        if not (yield from _may_wait(queue, id)):
            yield "ZREM", marks, id.bytes
            return None
    # It may have ended in between.
    state = Record.of_reply((yield read_command(queue, id))).state
    if state is None or not state.is_final or state is CallState.CANCELLED:
        return CallState.WAITING
    yield "ZREM", marks, id.bytes
    return state


def _is_over(state: CallState | None) -> bool:
    """Whether the script has done all, or came too late."""
    return state is not None and (
        state.is_final or state in (CallState.SCHEDULED, CallState.RETRYING)
    )


def _owner(queue: str, id: UUID) -> Plan[tuple[bytes, bytes] | None]:
    """Find the slot that owns the message of a call: its wire id, and the message."""
    cursor: Any = b"0"
    while True:
        cursor, pairs = yield "HSCAN", f"{queue}_processing", cursor, "COUNT", 200
        for wire_id, message in zip(pairs[::2], pairs[1::2]):
            if _is_of(message, id):
                return wire_id, message
        if int(cursor) == 0:
            return None


def _tell_worker(queue: str, wire_id: bytes, message: bytes, by: str) -> Plan[int]:
    """Leave a kill request for the worker of a slot, and return what became of it.

    A dead worker hears of none, and neither does one of another language; what it puts back is not
    run again.
    """
    slot = re.fullmatch(rb"(%b:[a-z2-7]{16}):[0-9]+" % re.escape(queue.encode()), wire_id)
    if not slot:
        return DEAD
    worker = slot[1]
    keys = f"{queue}_processing", worker, wire_id, worker + b":kill", wire_id + b":told"
    digest = hashlib.sha1(message, usedforsecurity=False).hexdigest()
    stands = yield "EVAL", KILL, 5, *keys, wire_id, digest, CANCELS + by, EXPIRY_MS, MAX_KILLS
    return int(stands)


def _may_wait(queue: str, id: UUID) -> Plan[bool]:
    """Find out whether a call waits, or may wait: behind more messages than are searched."""
    for behind in range(0, SEARCHED, PAGE):
        page = yield "LRANGE", queue, -behind - PAGE, -behind - 1
        if any(_is_of(message, id) for message in page):
            return True
        if len(page) < PAGE:
            return False
    return True


def _is_of(message: bytes, id: UUID) -> bool:
    """Whether this is the message of that call."""
    if id.bytes not in message:
        return False
    try:
        parts = unpackb(message, raw=True, strict_map_key=False)
        return bool(parts[2][b"i"] == id.bytes)
    except Exception:  # not ours; msgpack raises all kinds of errors
        return False
