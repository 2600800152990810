"""Who takes over several queues? One original worker for each, forked from here, until SIGTERM."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

from delayed.logger import setup_logger
from delayed.queue import Queue

from programs import arguments, connect, on_stop
from work import Worker


def fork(url: str, name: str) -> int:
    """Start a worker in a process of its own, and return its process id."""
    child = os.fork()
    if child == 0:
        worker: Any = Worker(Queue(name, connect(url)))
        worker.run()
        os._exit(0)
    return child


def main() -> None:
    """Run the workers of the queues, whose names stand in `--queue` with commas between."""
    options = arguments(__doc__).parse_args()
    setup_logger(log_level=logging.ERROR)
    children = [fork(options.redis, name) for name in options.queue.split(",")]

    def stop() -> None:
        for child in children:
            os.kill(child, signal.SIGTERM)

    on_stop(stop)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
