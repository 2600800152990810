"""What becomes of the calls of a Python program? Follows JSON lines, and prints one for each.

A line of kind rust is enqueued with the options of `RustTask`, and so is the `flow` of one of kind
flow; one of kind periodic defines its `flow` with the options of `periodic`; one of kind items
enqueues `items` of batches; one of kind limit sets the `policy` of a limit; that of another kind
names the id of a call as its path. Then `cancel` cancels it, and `wait` waits so many seconds for
its result.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import redis.asyncio

from delayed_compat import AsyncQueue, CompatError, Queue, RustItem, limits
from flows import flow
from produce import task, value
from programs import arguments, connect


def follow(queue: Any, call: dict[str, Any], done: Callable[[Any], Any]) -> dict[str, Any]:
    """Do what a line says, and return what is to be printed."""
    said: dict[str, Any] = {}
    try:
        if call["kind"] == "limit":
            done(limits.set(queue._conn, call["path"], **call["policy"]))
            return said
        if call["kind"] == "periodic":
            said["is_new"] = done(queue.periodic.add(task=flow(call["flow"]), **call["periodic"]))
            return said
        if call["kind"] == "items":
            items = [RustItem(**item) for item in call["items"]]
            done(queue.enqueue_many(items) if len(items) > 1 else queue.enqueue(*items))
            return said
        if call["kind"] in ("rust", "flow"):
            what = task(call) if call["kind"] == "rust" else flow(call["flow"])
            handle = done(queue.enqueue(what))
        else:
            handle = queue.handle(call["path"])
        conflict = handle.conflict and dataclasses.asdict(handle.conflict)
        said.update(id=str(handle.id), is_new=handle.is_new, conflict=conflict)
        if call.get("cancel"):
            said["cancelled"] = done(handle.cancel())
        if "wait" in call:
            said["result"] = done(handle.wait(call["wait"]))
    except CompatError as error:
        said.update((name, str(about)) for name, about in vars(error).items())
        said["raised"] = type(error).__name__
    return said


def main() -> None:
    """Follow every line of standard input."""
    parser = arguments(__doc__)
    parser.add_argument("--asyncio", action="store_true", help="by an AsyncQueue")
    options = parser.parse_args()
    loop = asyncio.new_event_loop()

    def done(what: Any) -> Any:
        return loop.run_until_complete(what) if inspect.isawaitable(what) else what

    async def queue() -> AsyncQueue:
        return AsyncQueue(options.queue, redis.asyncio.Redis.from_url(options.redis))

    of_queue: Any = (
        done(queue()) if options.asyncio else Queue(options.queue, connect(options.redis))
    )
    for line in sys.stdin:
        call = json.loads(line, object_hook=value)
        print(json.dumps(follow(of_queue, call, done)), flush=True)


if __name__ == "__main__":
    main()
