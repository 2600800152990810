"""What does the original Python sweeper bring back? Runs one until SIGTERM."""

from __future__ import annotations

import logging
from typing import Any

import delayed.sweeper
from delayed.logger import setup_logger
from delayed.queue import Queue

from programs import arguments, connect, on_stop


class ReportingQueue(Queue):
    """The original's, which prints what each pass returned, also when that is 0."""

    def requeue_lost(self) -> int:
        """Requeue what dead workers own."""
        count = super().requeue_lost()
        print(f"requeued {count}", flush=True)
        return count


class InterruptibleTime:
    """The one function of `time` that the original sweeper uses."""

    def __init__(self, sweeper: delayed.sweeper.Sweeper) -> None:
        self.sleep = on_stop(sweeper.stop)


def main() -> None:
    """Run a sweeper; its errors go to standard error."""
    parser = arguments(__doc__)
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS")
    options = parser.parse_args()
    setup_logger(log_level=logging.ERROR)
    queue = ReportingQueue(options.queue, connect(options.redis))
    sweeper: Any = delayed.sweeper.Sweeper([queue], options.interval)
    module: Any = delayed.sweeper
    module.time = InterruptibleTime(sweeper)  # its sleep would outlast a signal
    print("READY", flush=True)
    sweeper.run()


if __name__ == "__main__":
    main()
