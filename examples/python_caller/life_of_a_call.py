"""Schedule calls, wait for results, and cancel: `life_of_a_call.py redis://127.0.0.1:6379`.

The tasks are those of examples/quickstart.rs, whose worker has to run:
`cargo run --example quickstart -- worker --queue default`.
"""

import sys
from datetime import timedelta

import redis

from delayed_compat import CallCancelledError, CallExistsError, Queue, RustTask

ADD, HOUR = "quickstart::tasks::add", timedelta(hours=1)
queue = Queue("default", redis.Redis.from_url(sys.argv[1]))

# It runs in a tenth of a second, or not at all after a minute more. Its result is kept for an hour.
soon = timedelta(seconds=0.1)
scheduled = queue.enqueue(RustTask(ADD, (1, 2), after=soon, expires=60, keep=HOUR))
print(f"1 + 2 is {scheduled.wait(timeout=60)}")

# While the first call has not ended, a second one gets its handle.
first = queue.enqueue(RustTask(ADD, (3, 4), after=HOUR, unique="until_done", keep=HOUR))
second = queue.enqueue(RustTask(ADD, (3, 4), unique="until_done"))
print(f"3 + 4 is enqueued twice: {second.is_new}")
print(f"it was {second.cancel()}")

# An id may be a text, which is the same id in Rust and on the command line.
reminder = queue.enqueue(RustTask(ADD, (5, 6), after=HOUR, id="order:7", keep=HOUR))
try:
    queue.enqueue(RustTask(ADD, (5, 6), id="order:7", keep=HOUR))
except CallExistsError as error:
    print(f"order:7 is {error.state} already")
queue.cancel("order:7")
try:
    reminder.wait(timeout=60)
except CallCancelledError as error:
    print(f"order:7 was cancelled by {error.by}")
