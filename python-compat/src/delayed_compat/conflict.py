"""Says why a unique call was not enqueued as a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from .call_state import CallState

__all__ = ["Conflict", "Held", "Replaced"]


@dataclass(frozen=True)
class Held:
    """Another call holds the lock: this one was not enqueued."""

    state: CallState | None
    """The state of the other call; None: it has ended, and its record is gone."""


@dataclass(frozen=True)
class Replaced:
    """The call took the place of an earlier one, which was not due yet, and has its id."""


Conflict = Union[Held, Replaced]
"""Why a unique call is not a new one."""
