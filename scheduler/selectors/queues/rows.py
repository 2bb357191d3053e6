"""Rows of queues as REST answers and pages read them: quotas, members, usage, loans, templates.

The selectors of this folder make them. Times are ISO 8601 text in UTC.
"""

from typing import Any, TypedDict

# A job spec as the database keeps it, checked when it was written.
Json = dict[str, Any]


class QueueRow(TypedDict):
    """One queue; GPUs and jobs are of the queue with everything below it."""

    id: int
    name: str
    depth: int
    color_slot: int
    quota_gpus: int
    max_gpus: int | None
    weight: float
    may_borrow: bool
    user_max_gpus: int | None
    user_max_queued: int | None
    idle_after_s: int | None
    idle_action: str
    version: int
    role: str | None
    may_submit: bool
    may_change_quota: bool
    may_limit_users: bool
    may_change_members: bool
    held_gpus: int
    waiting_jobs: int
    running_jobs: int
    parent: str | None
    is_leaf: bool
    borrowed_gpus: int


class MemberRow(TypedDict):
    """A user with a role in the queue itself."""

    username: str
    role: str


class InheritedMemberRow(MemberRow):
    """A user with a role from a queue above, whose name is ``queue``."""

    queue: str


class QueueDetailRow(QueueRow):
    """One queue with its members."""

    created_at: str
    members: list[MemberRow]
    inherited_members: list[InheritedMemberRow]


class SiblingRow(TypedDict):
    """A queue beside another one, whose quota may be changed together with it."""

    id: int
    name: str
    color_slot: int
    quota_gpus: int


class UsageTotal(TypedDict):
    """GPU-hours; those of which the utilization is known are None where nothing was measured."""

    allocated_gpu_hours: float
    measured_gpu_hours: float | None
    busy_gpu_hours: float | None


class UsageRow(TypedDict):
    """GPU-hours of one user in one queue."""

    queue: str
    user: str
    allocated_gpu_hours: float
    measured_gpu_hours: float | None
    busy_gpu_hours: float | None


class UsageReport(TypedDict):
    """GPU-hours of a queue with those below it."""

    queue: str
    since: str
    until: str
    total: UsageTotal
    rows: list[UsageRow]


class LoanRow(TypedDict):
    """GPU-hours that one queue lent to another; ``is_lent`` when the queue that was asked about is the lender."""

    lender: str
    borrower: str
    is_lent: bool
    gpu_hours: float
    gpus_now: float
    ends_at: str | None
    recalls: int


class LoansNow(TypedDict):
    """GPUs lent and borrowed at the end of the range."""

    lent_gpus: float
    borrowed_gpus: float


class LoanReport(TypedDict):
    """Loans of a queue with those below it."""

    since: str
    until: str
    now: LoansNow
    rows: list[LoanRow]


class TemplateRow(TypedDict):
    """A saved job spec."""

    id: str
    name: str
    queue: str
    owner: str
    spec: Json
    created_at: str
