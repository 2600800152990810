"""What can go wrong, named by what the caller can do about it."""

from __future__ import annotations

__all__ = ["CompatError", "EnqueueError", "InvalidTaskError"]


class CompatError(Exception):
    """Any error that this package raises itself."""


class InvalidTaskError(CompatError, ValueError):
    """The task cannot be sent as it is: mend the call. Nothing was sent."""


class EnqueueError(CompatError):
    """Redis failed while tasks were being pushed: see what is on the queue, and send the rest.

    `tasks[: error.applied]` are on the queue for certain. The next `error.in_doubt` tasks were
    sent, but no answer came: either all of them are on the queue or none is. Nothing after those
    was sent. The error that Redis or its client gave is `__cause__`.
    """

    def __init__(self, applied: int, in_doubt: int, total: int, reason: str) -> None:
        super().__init__(applied, in_doubt, total, reason)
        self.applied = applied
        """How many tasks, from the first on, are on the queue for certain."""
        self.in_doubt = in_doubt
        """How many more may be there, all or none; 0 when the failing chunk surely is not."""
        self.total = total
        """How many tasks there were to send."""
        self.reason = reason
        """What Redis or its client said."""

    @property
    def not_sent(self) -> int:
        """How many tasks, at the end, are not on the queue for certain."""
        return self.total - self.applied - self.in_doubt

    def __str__(self) -> str:
        chunk = (
            f"the next {self.in_doubt} may have been applied, all or none"
            if self.in_doubt
            else "the failing chunk was not applied"
        )
        return f"{self.applied} of {self.total} tasks were enqueued, {chunk}: {self.reason}"
