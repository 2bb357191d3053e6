"""Rows of queues, their members, usage, loans and templates: each field is named here once.

The selectors of this folder fill them; REST answers and pages read them, and the OpenAPI document is made of them.
"""

from typing import Annotated, TypedDict

from scheduler.core.operations.idle import IdleAction
from scheduler.models.queue import Role
from scheduler.selectors.rows import Json, Moment, one_of


class QueueRow(TypedDict):
    """One queue; counts are of it and everything below it."""

    id: int  # text in REST
    name: Annotated[str, "Full name, with slashes."]
    depth: Annotated[int, "0 for a queue at the top of what you see."]
    color_slot: Annotated[int, "Colour on pages, 1 to 8."]
    quota_gpus: Annotated[int, "Guaranteed GPUs."]
    max_gpus: Annotated[int | None, "Most GPUs ever; null: no limit."]
    weight: Annotated[float, "Share of idle quota, relative to its siblings."]
    may_borrow: Annotated[bool, "Whether it may use idle quota of others."]
    user_max_gpus: Annotated[int | None, "Most GPUs that one user may hold in the queue itself; null: no limit."]
    user_max_queued: Annotated[int | None, "Most jobs of one user that may be queued there; null: no limit."]
    idle_after_s: Annotated[int | None, "How long its jobs may hold GPUs without using them; null: never checked."]
    idle_action: Annotated[str, one_of(IdleAction), "What becomes of them then, beside that it is told."]
    isolation: Annotated[str, "How far apart a server must keep jobs for those of the queue to start there."]
    keep_directories_days: Annotated[int, "Days for which the directory of a job is kept after its end."]
    directories_most_bytes: Annotated[int | None, "Of all together; beyond it the oldest go early; null: no limit."]
    user_directories_most_bytes: Annotated[int | None, "The same for the jobs of each user; null: no limit."]
    version: Annotated[int, "The number in the ETag."]
    role: Annotated[str, one_of(Role), "Yours, here or from above."]
    may_submit: bool
    may_change_quota: bool
    may_limit_users: bool
    may_change_members: bool
    held_gpus: int
    waiting_jobs: Annotated[int, "Queued, or parked between their turns."]
    running_jobs: int
    parent: str | None
    is_leaf: Annotated[bool, "Jobs are submitted to leaves."]
    borrowed_gpus: Annotated[int, "Held beyond the quota."]


class MemberRow(TypedDict):
    """Someone with a role in the queue itself."""

    username: str
    role: Annotated[str, one_of(Role)]


class InheritedMemberRow(MemberRow):
    """Someone with a role from above."""

    queue: Annotated[str, "Where the role was given."]


class QueueDetailRow(QueueRow):
    """One queue with its members."""

    created_at: Moment
    members: list[MemberRow]
    inherited_members: list[InheritedMemberRow]


class SiblingRow(TypedDict):
    """A queue beside another one, whose quota may be changed together with it."""

    id: int
    name: str
    color_slot: int
    quota_gpus: int


class UsageTotal(TypedDict):
    """Sums over all rows."""

    allocated_gpu_hours: Annotated[float, "GPUs that rounds gave, times hours."]
    measured_gpu_hours: Annotated[float | None, "Of which the utilization is known; null where nothing was measured."]
    busy_gpu_hours: Annotated[float | None, "The measured ones, each times its utilization."]


class UsageRow(UsageTotal):
    """One user in one queue."""

    queue: str
    user: str


class UsageReport(TypedDict):
    """GPU-hours of a queue and those below it."""

    queue: str
    since: Moment
    until: Moment
    total: UsageTotal
    rows: list[UsageRow]


class LoanRow(TypedDict):
    """From one queue to another."""

    lender: Annotated[
        str, '"another queue" where you may not know; "no queue\'s quota" for GPUs that belong to no quota.'
    ]
    borrower: str
    is_lent: Annotated[bool, "Whether this queue is the lender."]
    gpu_hours: float
    gpus_now: float
    ends_at: Annotated[
        Moment | None, "When the borrower's jobs that run now are expected to have ended; null where that is not known."
    ]
    recalls: Annotated[int, "Jobs of the borrower that were stopped because the lender took its quota back."]


class LoansNow(TypedDict):
    """At the end of the range."""

    lent_gpus: float
    borrowed_gpus: float


class LoanReport(TypedDict):
    """What a queue lent and borrowed, most first."""

    since: Moment
    until: Moment
    now: LoansNow
    rows: list[LoanRow]


class TemplateRow(TypedDict):
    """Part of a spec under a name."""

    id: str
    name: str
    queue: str
    owner: Annotated[str, "Who made it."]
    spec: Json
    created_at: Moment
