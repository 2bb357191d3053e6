"""Shapes of queues and their members in the OpenAPI document."""

from scheduler.api.documents import Shape, moment, real, role, text, whole, yes
from scheduler.api.pagination import PageFields


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
    version = whole("The number in the ETag.")
    role = role("Yours, here or from above.")
    may_submit = yes()
    may_change_quota = yes()
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
