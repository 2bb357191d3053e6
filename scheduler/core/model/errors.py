"""Errors of the scheduler package.

SchedulerError
├── InvalidTransition    a state change that the transition table does not allow
├── JobChanged           another request changed the job first; read it again
├── SpecInvalid          a job spec with one or more bad fields
├── NotAllowed           the actor may see the object but not do this
├── NotFound             no such object, or the actor may not see it
├── Conflict             the object changed since the caller read it (ETag, idempotency key)
├── NoRoom               a disk is full; later it may not be
└── PlanInvariantError   a plan that breaks one of the rules every plan must hold
"""

from dataclasses import dataclass


class SchedulerError(Exception):
    """Base of all errors that the interfaces know how to show."""


class InvalidTransition(SchedulerError):
    """A job may not go from the one state to the other."""


class JobChanged(SchedulerError):
    """The guarded update met a job in another state than expected."""


class NotAllowed(SchedulerError):
    """The actor's role does not allow the action."""


class NotFound(SchedulerError):
    """There is no such object for this actor."""


class Conflict(SchedulerError):
    """The object is not in the version that the caller saw."""


class NoRoom(SchedulerError):
    """There is no room for what was sent."""


class PlanInvariantError(SchedulerError):
    """A plan breaks a safety rule; applying it would be a defect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One bad field of an input.

    Attributes:
        pointer: JSON pointer into the input, such as ``/resources/gpus``; empty for the whole.
        code: Short stable word, such as ``required``, ``range``, ``unit``, ``unknown``.
        detail: One sentence with the numbers: what is wrong and what would be right.
    """

    pointer: str
    code: str
    detail: str


class SpecInvalid(SchedulerError):
    """An input with bad fields; carries one entry per field."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{e.pointer or '/'}: {e.detail}" for e in errors))
        self.errors = errors
