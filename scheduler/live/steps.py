"""The engine's work is made of steps: one that fails stops no other, and the cluster's row says which keep failing.

What a job reports reaches many of them, so a defect in one must not end the renewal of leases, which all jobs need. A
database that is away fails the whole turn instead, since nothing can be done then; a broker that is away fails it when
all steps have run.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.models import Cluster, Event

log = logging.getLogger(__name__)

T = TypeVar("T")

# The change of a user came first, or a lock was not free: the next turn decides anew.
POSTPONED = (JobChanged, InvalidTransition, OperationalError)
# Returned by a step that was not due, which does not show that a failing step works again.
NOT_DUE = object()


def is_away(error: Exception) -> bool:
    """Return whether broker or database cannot be reached; a deadlock or a lock that is not free is less than that."""
    if isinstance(error, OperationalError):
        return not connection.is_usable()
    return isinstance(error, ConnectionError | InterfaceError)


def described(error: Exception) -> str:
    """Return what an admin reads of a failure."""
    return f"{type(error).__name__}: {error}".replace("\x00", "")[:300]


def for_each(items: Iterable[T], act: Callable[[T], object]) -> None:
    """Act on each item; one that fails stops no other. Raises the first failure when all are done."""
    first: Exception | None = None
    for item in items:
        try:
            act(item)
        except Exception as error:
            if is_away(error):
                raise
            if isinstance(error, POSTPONED):
                log.info("postponed", extra={"item": str(item), "error": str(error)})
                continue
            log.exception("item_failed", extra={"item": str(item)})
            first = first or error
    if first is not None:
        raise first


class Steps:
    """Runs steps by name, and remembers which fail."""

    def __init__(self) -> None:
        # As in ``Cluster.failing_steps``; None until it is first written, which replaces what an earlier process left.
        self._failing: dict[str, dict[str, str]] | None = None
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
            if isinstance(error, POSTPONED):
                log.info("step_postponed", extra={"step": name, "error": str(error)})
                return
            log.exception("step_failed", extra={"step": name})
            self._note(name, described(error), at=at)
        else:
            if found is not NOT_DUE:
                self._note(name, "", at=at)

    def raise_away(self) -> None:
        """Raise what a step met since the last time: the broker was away."""
        away, self._away = self._away, None
        if away is not None:
            raise away

    def _note(self, name: str, error: str, *, at: datetime) -> None:
        """Record that a step began to fail, or is well again."""
        if self._failing is None:
            Cluster.objects.filter(pk=1).exclude(failing_steps={}).update(failing_steps={})
            self._failing = {}
        if bool(error) == (name in self._failing):
            return
        failing = {other: found for other, found in self._failing.items() if other != name}
        if error:
            failing[name] = {"since": at.isoformat(), "error": error}
        data = {"step": name, "error": error or self._failing[name]["error"]}
        with transaction.atomic():
            Cluster.objects.filter(pk=1).update(failing_steps=failing)
            reason = "failing" if error else "well"
            Event.objects.create(at=at, kind="step", actor="scheduler", reason=reason, data=data)
        self._failing = failing
