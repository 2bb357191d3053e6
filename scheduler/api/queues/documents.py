"""Shapes of queues and their members in the OpenAPI document."""

from rest_framework import serializers

from scheduler.api.http.documents import Shape, moment, real, role, text, whole, word, yes
from scheduler.api.http.pagination import PageFields
from scheduler.core.operations.idle import IdleAction


class QueueRow(Shape):
    """One queue; counts are of it and everything below it."""

    id = text()
    name = text("Full name, with slashes.")
    depth = whole("0 for a queue at the top of what you see.")
    color_slot = whole("Colour on pages, 1 to 8.")
    quota_gpus = whole("Guaranteed GPUs.")
    max_gpus = whole("Most GPUs ever; null: no limit.", null=True)
    weight = real("Share of idle quota, relative to its siblings.")
    may_borrow = yes("Whether it may use idle quota of others.")
    user_max_gpus = whole("Most GPUs that one user may hold in the queue itself; null: no limit.", null=True)
    user_max_queued = whole("Most jobs of one user that may be queued there; null: no limit.", null=True)
    idle_after_s = whole("How long its jobs may hold GPUs without using them; null: nobody looks.", null=True)
    idle_action = word(list(IdleAction), "What becomes of them then, beside that it is told.")
    version = whole("The number in the ETag.")
    role = role("Yours, here or from above.")
    may_submit = yes()
    may_change_quota = yes()
    may_limit_users = yes()
    may_change_members = yes()
    held_gpus = whole()
    waiting_jobs = whole()
    running_jobs = whole()
    parent = text(null=True)  # type: ignore[assignment]  # a field; the class takes it away from the attribute
    is_leaf = yes("Jobs are submitted to leaves.")
    borrowed_gpus = whole("Held beyond the quota.")


class MemberDocument(Shape):
    """Someone with a role in the queue itself."""

    username = text()
    role = role()


class InheritedMemberDocument(MemberDocument):
    """Someone with a role from above."""

    queue = text("Where the role was given.")


class QueueDocument(QueueRow):
    """One queue with its members."""

    created_at = moment(null=False)
    members = MemberDocument(many=True)
    inherited_members = InheritedMemberDocument(many=True)


class QueuePage(PageFields):
    """All queues that you may see."""

    results = QueueRow(many=True)


class MembersDocument(PageFields):
    """All members of a queue itself."""

    results = MemberDocument(many=True)


class BeforeAfter(Shape):
    """A quota now and after the change."""

    now = whole()
    changed = whole()


class ForecastFigures(Shape):
    """What the jobs of a queue are to expect within `horizon_s`."""

    jobs = real("Jobs that wait now or are expected.")
    wait_p50_s = real("Null: longer than can be seen.", null=True)
    wait_p90_s = real("Null: longer than can be seen.", null=True)
    longest_s = real("The longest wait seen; what is null is longer.")
    preemptions = real("Times that its jobs are stopped or moved.")


class ForecastRow(Shape):
    """One queue without queues below it."""

    name = text()
    color_slot = whole("Colour on pages, 1 to 8.")
    quota_gpus = BeforeAfter()
    now = ForecastFigures(allow_null=True, help_text="Null where nothing is known.")
    changed = ForecastFigures(allow_null=True)


class ForecastDocument(Shape):
    """What another quota would do."""

    at = moment(null=False)
    round = whole("The round that the state is from.")
    known = yes("Whether there are figures.")
    reason = word(["", "paused", "no_history", "too_large", "busy"], "Why there are none.", blank=True)
    sentence = text("What the figures were made from, or why there are none.")
    horizon_s = real("How far was looked.")
    futures = whole("How many futures were simulated, each with and without the change.")
    queues = ForecastRow(many=True)
    sums = serializers.ListField(
        child=serializers.CharField(), help_text="Why the quotas could not be saved like this: they do not add up."
    )


class UsageTotal(Shape):
    """Sums over all rows."""

    allocated_gpu_hours = real()
    measured_gpu_hours = real("Of which the utilization is known; null where nothing was measured.", null=True)
    busy_gpu_hours = real("The measured ones, each times its utilization.", null=True)


class UsageRow(UsageTotal):
    """One user in one queue."""

    queue = text()
    user = text()


class UsageDocument(Shape):
    """GPU-hours of a queue and those below it."""

    queue = text()
    since = moment(null=False)
    until = moment(null=False)
    total = UsageTotal()
    rows = UsageRow(many=True)


class LoansNow(Shape):
    """At the end of the range."""

    lent_gpus = real()
    borrowed_gpus = real()


class LoanRow(Shape):
    """From one queue to another."""

    lender = text('"another queue" where you may not know; "no queue\'s quota" for GPUs that nobody has a quota for.')
    borrower = text()
    is_lent = yes("Whether this queue is the lender.")
    gpu_hours = real()
    gpus_now = real()
    ends_at = moment("When the borrower's jobs that run now are expected to have ended; null where that is not known.")
    recalls = whole("Jobs of the borrower that were stopped because the lender took its quota back.")


class LoansDocument(Shape):
    """What a queue lent and borrowed, most first."""

    since = moment(null=False)
    until = moment(null=False)
    now = LoansNow()
    rows = LoanRow(many=True)
