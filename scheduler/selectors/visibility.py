"""What a user may see and do: pages, REST, sockets, logs and counts all ask here.

A role in a queue holds in the whole subtree below it. A user without a role in a queue sees nothing of it, not even
that it exists. Admins (superusers) are leads everywhere. Users who are not signed in or not active have no role.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.core.spec.reading import is_storable, quoted, shown
from scheduler.models import Job, Membership, Queue, Scenario
from scheduler.models.queue import Role

Actor = User | AnonymousUser

RANK: Mapping[Role, int] = {Role.VIEWER: 1, Role.MEMBER: 2, Role.LEAD: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The roles of one user, read once.

    Attributes:
        is_admin: Whether the user is a lead everywhere; ``roles`` is empty then.
        roles: Highest role by queue, inherited roles included; queues without a role are not in it.
    """

    is_admin: bool
    roles: Mapping[int, Role]

    def role(self, queue_pk: int) -> Role | None:
        """Return the highest role in a queue."""
        return Role.LEAD if self.is_admin else self.roles.get(queue_pk)

    def sees(self, queue_pk: int | None) -> bool:
        """Return whether the queue may be seen at all."""
        return queue_pk is not None and self.role(queue_pk) is not None

    def at_least(self, queue_pk: int, role: Role) -> bool:
        """Return whether the role in a queue is ``role`` or higher."""
        own = self.role(queue_pk)
        return own is not None and RANK[own] >= RANK[role]

    def may_change_quota(self, queue: Queue) -> bool:
        """Return whether the user may change the quota of a queue: admins, and leads of the queue above."""
        return self.is_admin or (queue.parent_id is not None and self.at_least(queue.parent_id, Role.LEAD))

    @property
    def asks_what_if(self) -> bool:
        """Return whether the user may ask what-if questions at all: admins, and leads of any queue."""
        return self.is_admin or Role.LEAD in self.roles.values()

    def queues(self) -> QuerySet[Queue]:
        """Return the queues that may be seen."""
        return Queue.objects.all() if self.is_admin else Queue.objects.filter(pk__in=list(self.roles))

    def jobs(self) -> QuerySet[Job]:
        """Return the jobs that may be seen."""
        return Job.objects.all() if self.is_admin else Job.objects.filter(queue_id__in=list(self.roles))


def is_admin(user: Actor) -> bool:
    """Return whether ``user`` may change servers, settings and every queue."""
    return user.is_authenticated and user.is_active and user.is_superuser


def access_of(user: Actor) -> Access:
    """Return the roles of ``user`` everywhere, by at most two queries."""
    if is_admin(user):
        return Access(is_admin=True, roles={})
    if not (user.is_authenticated and user.is_active):
        return Access(is_admin=False, roles={})
    roles = {pk: Role(role) for pk, role in Membership.objects.filter(user=user).values_list("queue_id", "role")}
    if roles:
        parents = dict(Queue.objects.values_list("pk", "parent_id").order_by())
        roles = {pk: role for pk in parents if (role := _inherited(pk, parents, roles)) is not None}
    return Access(is_admin=False, roles=roles)


def _inherited(pk: int, parents: Mapping[int, int | None], given: Mapping[int, Role]) -> Role | None:
    """Return the highest role given in the queue or above it."""
    best: Role | None = None
    above: int | None = pk
    for _ in range(len(parents)):  # not "while": a ring of parents must not hang every request
        if above is None:
            break
        role = given.get(above)
        if role is not None and (best is None or RANK[role] > RANK[best]):
            best = role
        above = parents.get(above)
    return best


def role_in(user: Actor, queue: Queue) -> Role | None:
    """Return the highest role of ``user`` in ``queue`` or above it; None where the user may not know that it exists."""
    return access_of(user).role(queue.pk)


def queues_visible(user: Actor) -> QuerySet[Queue]:
    """Return the queues in which ``user`` has a role."""
    return access_of(user).queues()


def queues_submittable(user: Actor) -> QuerySet[Queue]:
    """Return the leaf queues in which ``user`` is a member or lead."""
    access = access_of(user)
    leaves = Queue.objects.filter(children__isnull=True)
    if access.is_admin:
        return leaves
    return leaves.filter(pk__in=[pk for pk in access.roles if access.at_least(pk, Role.MEMBER)])


def jobs_visible(user: Actor) -> QuerySet[Job]:
    """Return the jobs of the queues in which ``user`` has a role."""
    return access_of(user).jobs()


def require_job(user: Actor, job_id_or_number: str | int) -> Job:
    """Return the job with this ULID, number or ``J-<number>``, queue and owner joined.

    Raises:
        NotFound: There is none, or ``user`` may not see it; the two look alike.
    """
    text = str(job_id_or_number)
    digits = text.upper().removeprefix("J-")
    jobs = jobs_visible(user).select_related("queue", "owner")
    job: Job | None = None
    if _is_plain(digits, longest=18) and digits.isdigit():
        job = jobs.filter(number=int(digits)).first()
    elif _is_plain(text, longest=26):
        job = jobs.filter(pk=text.upper()).first()
    if job is None:
        raise NotFound(f"There is no job {shown(text)} that you may see.{_named(jobs, text)}")
    return job


def _named(jobs: QuerySet[Job], text: str) -> str:
    """Return the sentence about the newest job of this name, which is no key: many jobs may have one name."""
    newest = jobs.filter(name=text).order_by("-number").first() if is_storable(text) else None
    return f" Jobs are asked for by number: the newest of this name is J-{newest.number}." if newest else ""


def _is_plain(text: str, *, longest: int) -> bool:
    """Return whether a key out of a URL is short ASCII letters and digits, so that any database takes it."""
    return len(text) <= longest and text.isascii() and text.isalnum()


def require_queue(user: Actor, name: str) -> Queue:
    """Return the queue of this name.

    Raises:
        NotFound: There is none, or ``user`` may not see it; the two look alike.
    """
    queue = None if "\x00" in name else queues_visible(user).filter(name=name).first()
    if queue is None:
        raise NotFound(f"There is no queue {name[:120]!r} that you may see.")
    return queue


def queues_led(user: Actor) -> QuerySet[Queue]:
    """Return the queues that ``user`` leads."""
    access = access_of(user)
    led = [pk for pk, role in access.roles.items() if role is Role.LEAD]
    return Queue.objects.all() if access.is_admin else Queue.objects.filter(pk__in=led)


def may_ask_what_if(user: Actor) -> bool:
    """Return whether ``user`` may ask what-if questions at all: admins, and leads of any queue."""
    return access_of(user).asks_what_if


def scenarios_visible(user: Actor) -> QuerySet[Scenario]:
    """Return the what-if scenarios that ``user`` may see, without their large columns.

    An admin sees all. A lead sees their own, and those about the whole cluster that another lead made for a queue that
    they lead too; a scenario about the whole cluster only while they lead the queue it was made for.
    """
    scenarios = Scenario.objects.select_related("owner", "for_queue", "trace_file").defer("base")
    if is_admin(user):
        return scenarios
    access = access_of(user)
    if not access.asks_what_if:
        return scenarios.none()
    led = [pk for pk, role in access.roles.items() if role is Role.LEAD]
    return scenarios.filter(Q(of_cluster=False, owner_id=user.pk) | Q(of_cluster=True, for_queue__in=led))


def require_scenario(user: Actor, scenario_id: str) -> Scenario:
    """Return the scenario with this ULID.

    Raises:
        NotFound: There is none, or ``user`` may not see it; the two look alike.
    """
    is_plain = _is_plain(scenario_id, longest=26)
    scenario = scenarios_visible(user).filter(pk=scenario_id.upper()).first() if is_plain else None
    if scenario is None:
        raise NotFound(f"There is no scenario {quoted(scenario_id)} that you may see.")
    return scenario


def may_act_on_job(user: Actor, job: Job, access: Access | None = None) -> bool:
    """Return whether ``user`` may cancel, suspend and resume ``job``: its owner while a member, and every lead.

    Args:
        access: The roles of ``user``, where the caller has read them already.
    """
    access = access or access_of(user)
    if access.at_least(job.queue_id, Role.LEAD):
        return True
    return job.owner_id == user.pk and access.at_least(job.queue_id, Role.MEMBER)


def groups_allowed(user: Actor, group_name: str) -> bool:
    """Return whether ``user`` may listen to a WebSocket group.

    Groups are ``cluster``, ``queue.<pk>``, ``job.<ulid>`` and ``scenario.<ulid>``.

    Roles are read afresh, ``user`` is not: the caller reads it again before it checks a long-lived connection again.
    """
    if not (user.is_authenticated and user.is_active):
        return False
    kind, _, key = group_name.partition(".")
    if kind == "queue" and _is_plain(key, longest=18) and key.isdigit():
        return queues_visible(user).filter(pk=int(key)).exists()
    if kind == "job" and _is_plain(key, longest=26):
        return jobs_visible(user).filter(pk=key).exists()
    if kind == "scenario" and _is_plain(key, longest=26):
        return scenarios_visible(user).filter(pk=key).exists()
    return group_name == "cluster"
