"""The engine's work is made of steps: one that fails stops no other, and the cluster's row says which keep failing.

What a job reports reaches many of them, so a defect in one must not end the renewal of leases, which all jobs need. A
broker or database that is away fails the whole turn instead: nothing can be done then.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.models import Cluster, Event

log = logging.getLogger(__name__)

T = TypeVar("T")

AWAY = (ConnectionError, InterfaceError, OperationalError)
# A user was faster: the next turn meets things as they are then.
POSTPONED = (JobChanged, InvalidTransition)


def described(error: Exception) -> str:
    """Return what an admin reads of a failure."""
    return f"{type(error).__name__}: {error}"[:300]


def for_each(items: Iterable[T], act: Callable[[T], object]) -> None:
    """Act on each item; one that fails stops no other. Raises the first failure when all are done."""
    first: Exception | None = None
    for item in items:
        try:
            act(item)
        except AWAY:
            raise
        except POSTPONED as error:
            log.info("postponed", extra={"item": str(item), "error": str(error)})
        except Exception as error:
            log.exception("item_failed", extra={"item": str(item)})
            first = first or error
    if first is not None:
        raise first


class Steps:
    """Runs steps by name, and remembers which fail."""

    def __init__(self) -> None:
        self._failing: dict[str, dict[str, str]] | None = None  # as ``Cluster.failing_steps``; None before it is read

    def run(self, name: str, step: Callable[[], object], *, at: datetime) -> None:
        """Run one step. Raises only when broker or database are away."""
        try:
            step()
        except AWAY:
            raise
        except POSTPONED as error:
            log.info("step_postponed", extra={"step": name, "error": str(error)})
        except Exception as error:
            log.exception("step_failed", extra={"step": name})
            self._note(name, described(error), at=at)
        else:
            self._note(name, "", at=at)

    def _note(self, name: str, error: str, *, at: datetime) -> None:
        """Record that a step began to fail, or is well again."""
        if self._failing is None:
            self._failing = dict(Cluster.objects.values_list("failing_steps", flat=True).first() or {})
        if bool(error) == (name in self._failing):
            return
        if error:
            self._failing[name] = {"since": at.isoformat(), "error": error}
        else:
            error = self._failing.pop(name)["error"]
        Cluster.objects.filter(pk=1).update(failing_steps=self._failing)
        reason = "failing" if name in self._failing else "well"
        Event.objects.create(at=at, kind="step", actor="scheduler", reason=reason, data={"step": name, "error": error})
