"""The engine's work is made of steps: one that fails stops no other, and the cluster's row says which keep failing.

What a job reports reaches many of them, so a defect in one must not end the renewal of leases, which all jobs need. A
database that is away fails the whole turn instead, since nothing can be done then; a broker that is away fails it when
all steps have run. A database that answers and refuses to write, as on a full disk, fails the steps that write.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.db import OperationalError

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.services.cluster.failing_steps import ENGINE_STEPS, FailureNotes
from scheduler.services.failures import described, is_away

log = logging.getLogger(__name__)

T = TypeVar("T")

# The change of a user came first, or a lock was not free: the next turn decides anew.
POSTPONED = (JobChanged, InvalidTransition, OperationalError)
# What is postponed so often in a row, and for so long, fails: the disk is full, or a lock is held for ever. Users and
# deadlocks cost a step one or two turns; some steps come many times a second.
POSTPONED_TIMES, POSTPONED_FOR = 5, timedelta(seconds=5)
# Returned by a step that was not due, which does not show that a failing step works again.
NOT_DUE = object()


def for_each(items: Iterable[T], act: Callable[[T], object]) -> None:
    """Act on each item; one that fails stops no other.

    Raises the first failure when all are done. What is postponed is none, unless the database refused every item: then
    it may refuse for long, which ``Steps`` counts.
    """
    first: Exception | None = None
    refused: OperationalError | None = None
    is_any_done = False
    for item in items:
        try:
            act(item)
        except Exception as error:
            if is_away(error):
                raise
            if isinstance(error, POSTPONED):
                log.info("postponed", extra={"item": str(item), "error": str(error)})
                refused = refused or (error if isinstance(error, OperationalError) else None)
                continue
            log.exception("item_failed", extra={"item": str(item)})
            first = first or error
        else:
            is_any_done = True
    if first is not None:
        raise first
    if refused is not None and not is_any_done:
        raise refused


@dataclass(frozen=True, slots=True)
class _Streak:
    """How often a step failed in a row, and since when."""

    times: int
    since: datetime


class Steps:
    """Runs steps by name, and notes which fail."""

    def __init__(self, *, by: str = ENGINE_STEPS, failures: int = 1) -> None:
        """Prepare to run steps.

        Args:
            by: Whose steps they are; see ``FailureNotes``.
            failures: So many defects in a row are noted; of what was postponed always POSTPONED_TIMES.
        """
        self._failures = failures
        self._notes = FailureNotes(by)
        self._streaks: dict[str, _Streak] = {}
        self._away: ConnectionError | None = None

    def run(self, name: str, step: Callable[[], object], *, at: datetime) -> None:
        """Run one step. Raises only when the database is away."""
        try:
            found = step()
        except ConnectionError as error:
            self._away = self._away or error
        except Exception as error:
            if is_away(error):
                raise
            self.fails(name, error, at=at)
        else:
            if found is not NOT_DUE:
                self.works(name, at=at)

    def fails(self, name: str, error: Exception, *, at: datetime) -> None:
        """Note that a step failed: a defect at once, what was postponed when that goes on for too long."""
        before = self._streaks.get(name, _Streak(0, at))
        streak = self._streaks[name] = _Streak(before.times + 1, before.since)
        if isinstance(error, POSTPONED):
            is_told = streak.times >= POSTPONED_TIMES and abs(at - streak.since) >= POSTPONED_FOR
            if not is_told:
                log.info("step_postponed", extra={"step": name, "error": str(error)})
            elif not self._notes.has(name):  # then each second would say the same
                log.error("step_keeps_being_postponed", extra={"step": name, "error": str(error)})
        else:
            is_told = streak.times >= self._failures
            log.error("step_failed", extra={"step": name}, exc_info=error)
        if is_told:
            self._notes.fails(name, described(error), at=at, since=streak.since)

    def works(self, name: str, *, at: datetime) -> None:
        """Note that a step did its work."""
        self._streaks.pop(name, None)
        self._notes.works(name, at=at)

    def raise_away(self) -> None:
        """Raise what a step met since the last time: the broker was away."""
        away, self._away = self._away, None
        if away is not None:
            raise away
