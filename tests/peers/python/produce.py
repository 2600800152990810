"""What does a Python program put on a queue? Enqueues JSON lines through the original package.

Calls of kind rust may have the options of `RustTask`; what is scheduled goes through
`delayed_compat`, and so does a line of kind cancel, whose path is the id of a scheduled call.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from delayed.queue import Queue
from delayed.task import GoTask, PyTask

import delayed_compat
from delayed_compat import RustTask
from programs import arguments, connect

OPTIONS = (
    *("retry", "max_attempts", "backoff", "timeout", "expires", "expires_at", "after", "at", "id"),
    *("keep", "unique", "unique_key", "front", "max_len", "overflow", "traceparent", "tracestate"),
)


def value(item: dict[str, Any]) -> Any:
    """Read what JSON has no word for: `$bin` in hex, `$time`, `$float`."""
    if len(item) == 1:
        key, inner = next(iter(item.items()))
        if key == "$bin":
            return bytes.fromhex(inner)
        if key == "$time":
            return datetime.fromisoformat(inner.replace("Z", "+00:00"))
        if key == "$float":
            return float(inner)
    return item


def task(call: dict[str, Any]) -> Any:
    """Make the task of one line; `args` of kind go may be a list or a bare argument."""
    kind, path, args = call["kind"], call["path"], call.get("args")
    if kind == "go":
        return GoTask(path, args)
    if kind == "py":
        return PyTask(path, args, call.get("kwargs"), call.get("retry", 0))
    if kind == "rust":
        options = {key: call[key] for key in OPTIONS if key in call}
        return RustTask(path, args, call.get("kwargs"), **options)
    raise SystemExit(f"kind is {kind!r}, not go, py or rust")


def main() -> None:
    """Enqueue every line of standard input."""
    parser = arguments(__doc__)
    parser.add_argument("--acknowledge", action="store_true", help="say so of each line")
    parser.add_argument("--timeout", type=float, help="seconds that a reply may take")
    options = parser.parse_args()
    conn = connect(options.redis, options.timeout)
    queue: Any = Queue(options.queue, conn)
    scheduler = delayed_compat.Queue(options.queue, conn)
    sent = 0
    for line in sys.stdin:
        if line.strip():
            call = json.loads(line, object_hook=value)
            if call["kind"] == "cancel":
                state = scheduler.cancel(call["path"])
                if state is not delayed_compat.CallState.SCHEDULED:
                    raise SystemExit(f"{call['path']} is {state}, not scheduled")
            elif "after" in call or "at" in call:
                scheduler.enqueue(task(call))
            else:
                queue.enqueue(task(call))
            sent += 1
            if options.acknowledge:
                print("acknowledged", flush=True)
    print(f"sent {sent}", flush=True)


if __name__ == "__main__":
    main()
