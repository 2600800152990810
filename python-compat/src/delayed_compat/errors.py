"""The errors of this package: what went wrong, and what the caller can do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from uuid import UUID

__all__ = ["AlreadyScheduledError", "CompatError", "EnqueueError", "Fate", "InvalidTaskError"]


class CompatError(Exception):
    """Any error that this package raises itself."""


class InvalidTaskError(CompatError, ValueError):
    """The task cannot be sent as it is: mend the call. Nothing was sent."""


class AlreadyScheduledError(CompatError):
    """The timetable of the queue has a call with this id already: this one was not scheduled.

    After an error that left a call in doubt it means that the call had been scheduled.
    """

    def __init__(self, id: UUID, queue: str) -> None:
        super().__init__(id, queue)
        self.id = id
        """The id."""
        self.queue = queue
        """The name of the queue."""

    def __str__(self) -> str:
        return (
            f"a call with the id {self.id} is scheduled in {self.queue} already: "
            "this one was not enqueued; use another id"
        )


class Fate(Enum):
    """What became of one task."""

    APPLIED = "applied"
    """It is on its queue, or in the timetable, for certain."""
    IN_DOUBT = "in doubt"
    """It was sent, and no answer came: it may be there."""
    NOT_APPLIED = "not applied"
    """It is not there."""


class EnqueueError(CompatError):
    """Not all tasks were enqueued: see what is on the queue, and send the rest.

    `fates` says of each task what became of it. Where none is scheduled, `tasks[: error.applied]`
    are on the queue for certain; the next `error.in_doubt` tasks were sent, but no answer came:
    either all of them are on the queue or none is. Nothing after those was sent. The error that
    Redis or its client gave is `__cause__`, or an `AlreadyScheduledError`.
    """

    def __init__(
        self,
        applied: int,
        in_doubt: int,
        total: int,
        reason: str,
        fates: Sequence[Fate] | None = None,
    ) -> None:
        super().__init__(applied, in_doubt, total, reason, fates)
        self.applied = applied
        """How many tasks are on the queue, or in the timetable, for certain."""
        self.in_doubt = in_doubt
        """How many more may be there, all or none; 0 when the failing chunk surely is not."""
        self.total = total
        """How many tasks there were to send."""
        self.reason = reason
        """What Redis or its client said."""
        self._fates = fates

    @property
    def not_sent(self) -> int:
        """How many tasks are not on the queue for certain."""
        return self.total - self.applied - self.in_doubt

    @property
    def fates(self) -> list[Fate]:
        """What became of each task, in the order in which they were given."""
        if self._fates is not None:
            return list(self._fates)
        return (
            [Fate.APPLIED] * self.applied
            + [Fate.IN_DOUBT] * self.in_doubt
            + [Fate.NOT_APPLIED] * self.not_sent
        )

    def __str__(self) -> str:
        chunk = (
            f"the next {self.in_doubt} may have been applied, all or none"
            if self.in_doubt
            else "the failing chunk was not applied"
        )
        if self._fates is not None:
            chunk = f"{self.in_doubt} may have been, {self.not_sent} were not"
        return f"{self.applied} of {self.total} tasks were enqueued, {chunk}: {self.reason}"


def shown(value: object) -> str:
    """Return `value` as an error shows it, however long it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"a {type(value).__qualname__} of too many digits"
    return text if len(text) <= 80 else f"{text[:80]}…"
