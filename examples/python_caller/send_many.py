"""Enqueue many calls of one task with the package `delayed`: `send_many.py URL TASK COUNT`."""

import sys

import redis
from delayed.queue import Queue
from delayed.task import PyTask

url, task, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
queue = Queue("default", redis.Redis.from_url(url))
for number in range(count):
    queue.enqueue(PyTask(task, (number,)))
print(f"sent {count}")
