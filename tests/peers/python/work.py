"""What does the original Python worker take off a queue? Runs one until SIGTERM."""

from __future__ import annotations

import logging
from typing import Any

import delayed.worker
from delayed.logger import setup_logger
from delayed.queue import Queue

from programs import arguments, connect, on_stop


class Worker(delayed.worker.Worker):
    """The original's, which says when it is online, and also ends on SIGTERM and SIGINT."""

    def _register_signals(self) -> None:
        super()._register_signals()  # type: ignore[no-untyped-call]
        # The original sleeps up to a minute after an error, deaf to signals.
        module: Any = delayed.worker
        module.sleep = on_stop(self.stop)
        print(f"READY {self._id}", flush=True)


def main() -> None:
    """Run a worker; its errors go to standard error."""
    options = arguments(__doc__).parse_args()
    setup_logger(log_level=logging.ERROR)
    worker: Any = Worker(Queue(options.queue, connect(options.redis)))
    worker.run()


if __name__ == "__main__":
    main()
