"""Call the tasks of examples/quickstart.rs from Python: `call.py redis://127.0.0.1:6379`."""

import sys

import redis
from delayed.queue import Queue
from delayed.task import PyTask

from delayed_compat import RustTask

conn = redis.Redis.from_url(sys.argv[1] if len(sys.argv) > 1 else "redis://127.0.0.1:6379")

# With the package `delayed` alone; then with `delayed_compat`, which checks what is sent.
Queue("default", conn).enqueue(PyTask("quickstart::tasks::add", (1, 2)))
Queue("mail", conn).enqueue(PyTask("mail.send", ("ann@example.org",), {"text": "hi"}, retry=5))
Queue("mail", conn).enqueue(RustTask("mail.send", ("bob@example.org",)))
