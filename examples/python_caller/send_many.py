"""Enqueue many calls of one task from Python: `send_many.py URL TASK COUNT`."""

import sys

import redis
from delayed.task import PyTask

from delayed_compat import Queue

url, task, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
queue = Queue("default", redis.Redis.from_url(url))
print("sent", queue.enqueue_many(PyTask(task, (number,)) for number in range(count)))
