"""Which parts of the control plane fail: on the cluster's row, which ``/readyz`` and pages read, and as events.

A note that the database does not take, as on a full disk, is kept in memory and written once the database takes it.
"""

import logging
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from scheduler.models import Cluster, Event

log = logging.getLogger(__name__)

# Between two tries to write what could not be written, and between two looks at whether a note is still there: a second
# process of the same kind removes it when it starts. Each try may wait for a lock for long.
AGAIN_AFTER = timedelta(seconds=10)
ENGINE_STEPS = "steps"  # also of notes that do not say whose they are, which early versions wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """That a step fails, since when and how."""

    step: str
    since: datetime
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """That a failure began, or is over."""

    at: datetime
    failure: Failure
    is_over: bool


class FailureNotes:
    """Notes of one thread, or of a few that do the same work, about steps that no other part of the product runs.

    Never raises: what is noted must not be hurt by the noting.
    """

    def __init__(self, by: str) -> None:
        """Prepare to note; ``by`` names the thread, the same in each process: it replaces what an earlier one left."""
        self._by = by
        self._lock = threading.Lock()
        self._failing: dict[str, Failure] = {}
        self._untold: list[_Note] = []
        self._has_begun = False  # and removed what an earlier process left
        self._is_stuck = False
        self._tried_at: datetime | None = None

    def fails(self, step: str, error: str, *, at: datetime, since: datetime | None = None) -> None:
        """Note that a step fails, by what ``described`` says of its error; the first counts until it works again."""
        with self._lock:
            if step in self._failing:
                self._tell(at, is_new=False)
                return
            over = next((note for note in self._untold if note.is_over and note.failure.step == step), None)
            if over is not None:  # as if it had never been well: two notes of a step at most wait to be written
                self._untold.remove(over)
                self._failing[step] = over.failure
                return
            failure = Failure(step=step, since=since or at, error=error)
            self._failing[step] = failure
            self._untold.append(_Note(at=at, failure=failure, is_over=False))
            self._tell(at, is_new=True)

    def has(self, step: str) -> bool:
        """Return whether a step was noted as failing."""
        return step in self._failing

    def works(self, step: str, *, at: datetime) -> None:
        """Note that a step works, which matters only if it failed before."""
        with self._lock:
            failure = self._failing.pop(step, None)
            if failure is not None:
                self._untold.append(_Note(at=at, failure=failure, is_over=True))
            if self._untold or not self._has_begun:
                self._tell(at, is_new=failure is not None)

    def _tell(self, at: datetime, *, is_new: bool) -> None:
        """Write what is untold, unless the last try failed a moment ago."""
        is_due = self._tried_at is None or abs(at - self._tried_at) >= AGAIN_AFTER
        if not is_due and (self._is_stuck or not is_new):
            return
        self._tried_at = at
        try:
            self._write()
        except Exception:
            if not self._is_stuck:  # once, and not at each try
                log.exception("failures_not_noted", extra={"by": self._by, "steps": sorted(self._failing)})
            self._is_stuck = True
        else:
            self._untold.clear()
            self._has_begun, self._is_stuck = True, False

    @transaction.atomic
    def _write(self) -> None:
        """Bring the row up to date, whatever other threads wrote there, with an event for each change."""
        row = Cluster.objects.select_for_update().filter(pk=1).only("failing_steps").first()
        before = row.failing_steps if row else {}
        known = {note.failure.step for note in self._untold} | self._failing.keys()
        kept = {
            step: found
            for step, found in before.items()
            if step not in known and (self._has_begun or found.get("by", ENGINE_STEPS) != self._by)
        }
        mine = {
            failure.step: {"since": failure.since.isoformat(), "error": failure.error, "by": self._by}
            for failure in self._failing.values()
        }
        if kept | mine != before:
            Cluster.objects.filter(pk=1).update(failing_steps=kept | mine)
        for note in self._untold:
            data = {"step": note.failure.step, "error": note.failure.error}
            reason = "well" if note.is_over else "failing"
            Event.objects.create(at=note.at, kind="step", actor="scheduler", reason=reason, data=data)
