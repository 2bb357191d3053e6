"""Who may do and see what: every service and selector for every kind of actor. Whoever is not named is refused."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction

from scheduler.core.model.errors import SchedulerError
from scheduler.models import Event, Job, Queue, Server
from scheduler.models.queue import Role
from scheduler.selectors.cluster.rounds import round_detail
from scheduler.selectors.cluster.servers import server_detail
from scheduler.selectors.jobs.listing import (
    JobFilters,
    job_list,
)
from scheduler.selectors.queues.tree import queue_detail, queue_list
from scheduler.selectors.visibility import (
    Actor,
    groups_allowed,
    jobs_visible,
    may_act_on_job,
    queues_submittable,
    queues_visible,
    require_job,
    require_queue,
    role_in,
)
from scheduler.services.accounts.tokens import token_create
from scheduler.services.cluster.servers import server_drain, server_mix_queues, server_register, server_undrain
from scheduler.services.cluster.settings import settings_change
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.check import job_check
from scheduler.services.jobs.submit import job_submit
from scheduler.services.queues.create import queue_create
from scheduler.services.queues.members import membership_remove, membership_set
from scheduler.services.queues.quotas import queue_change_quota
from tests.support.rows.factories import (
    AT,
    SerialIds,
    job_make,
    member_make,
    queue_make,
    round_make,
    server_make,
    spec_make,
    user_make,
)

pytestmark = pytest.mark.django_db

ACTORS = ("anonymous", "inactive", "outsider", "viewer", "member", "owner", "lead", "root lead", "admin")
IDS = SerialIds()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two queues under one root, one user of every role, and a job of ``owner`` in vision."""

    root: Queue
    vision: Queue
    speech: Queue
    job: Job
    server: Server
    actors: dict[str, Actor]

    def newcomer(self) -> User:
        """Return a user without any role."""
        return user_make()


@pytest.fixture(scope="module")
def kept_world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:  # pytest-django has no types for it
    """The rows, made once."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield world_make()
        transaction.set_rollback(True)


@pytest.fixture
def world(kept_world: World, db: None) -> World:
    """The world that every test here begins with; what a test changes is undone after it."""
    return copy.deepcopy(kept_world)


def world_make() -> World:
    """Return the rows."""
    root = queue_make("canary-lab", quota_gpus=16)
    vision = queue_make("vision", parent=root, quota_gpus=8)
    speech = queue_make("speech", parent=root, quota_gpus=4)
    inactive = member_make(vision, Role.LEAD)
    User.objects.filter(pk=inactive.pk).update(is_active=False)
    inactive.refresh_from_db()
    actors: dict[str, Actor] = {
        "anonymous": AnonymousUser(),
        "inactive": inactive,
        "outsider": member_make(speech, name="outsider"),
        "viewer": member_make(vision, Role.VIEWER),
        "member": member_make(vision, Role.MEMBER),
        "owner": member_make(vision, Role.MEMBER, name="owner"),
        "lead": member_make(vision, Role.LEAD),
        "root lead": member_make(root, Role.LEAD),
        "admin": user_make(admin=True),
    }
    owner = actors["owner"]
    assert isinstance(owner, User)
    job = job_make(vision, owner=owner, name="secret-model")
    return World(root=root, vision=vision, speech=speech, job=job, server=server_make("gpu-01"), actors=actors)


def change_quota(actor: Actor, queue: Queue) -> Queue:
    """Ask for another quota."""
    return queue_change_quota(
        actor=actor,
        queue=queue,
        quota_gpus=2,
        max_gpus=None,
        weight=1.0,
        may_borrow=True,
        reason="test",
        expected_version=1,
        at=AT,
    )


Do = Callable[[World, Actor], Any]
Outcomes = dict[str, str]  # actor -> "ok" or the name of the error; who is not named gets what "else" says

ACT_ON_JOB: Outcomes = {
    "anonymous": "NotFound",
    "inactive": "NotFound",
    "outsider": "NotFound",
    "owner": "ok",
    "lead": "ok",
    "root lead": "ok",
    "admin": "ok",
    "else": "NotAllowed",
}
SEE_JOB: Outcomes = {"anonymous": "NotFound", "inactive": "NotFound", "outsider": "NotFound", "else": "ok"}
SUBMIT: Outcomes = {"viewer": "NotAllowed", "anonymous": "NotAllowed", "inactive": "NotAllowed", "else": "ok"}
MEMBERS: Outcomes = {
    "anonymous": "NotFound",
    "inactive": "NotFound",
    "outsider": "NotFound",
    "lead": "ok",
    "root lead": "ok",
    "admin": "ok",
    "else": "NotAllowed",
}
ADMINS: Outcomes = {"admin": "ok", "else": "NotAllowed"}
READERS: Outcomes = {"anonymous": "NotFound", "inactive": "NotFound", "else": "ok"}
SIGNED_IN: Outcomes = {"anonymous": "NotAllowed", "inactive": "NotAllowed", "else": "ok"}

MATRIX: dict[str, tuple[Do, Outcomes]] = {
    "job_check": (
        lambda w, a: job_check(actor=a, data=spec_make().to_json()),
        SUBMIT | {"outsider": "SpecInvalid"},
    ),
    "job_submit": (
        lambda w, a: job_submit(actor=a, spec=spec_make(), at=AT, ids=IDS),
        SUBMIT | {"outsider": "SpecInvalid"},
    ),
    "job_cancel": (lambda w, a: job_cancel(actor=a, job=w.job, at=AT), ACT_ON_JOB),
    "job_suspend": (lambda w, a: job_suspend(actor=a, job=w.job, at=AT), ACT_ON_JOB),
    "job_resume": (lambda w, a: job_resume(actor=a, job=w.job, at=AT), ACT_ON_JOB),
    "queue_create": (
        lambda w, a: queue_create(actor=a, name="vision/x", parent=w.speech, quota_gpus=1, at=AT),
        ADMINS,
    ),
    "queue_create root": (lambda w, a: queue_create(actor=a, name="x", parent=None, quota_gpus=1, at=AT), ADMINS),
    "queue_change_quota": (lambda w, a: change_quota(a, w.vision), MEMBERS | {"lead": "NotAllowed"}),
    "queue_change_quota of a root": (
        lambda w, a: change_quota(a, w.root),
        {"root lead": "NotAllowed", "admin": "SpecInvalid", "else": "NotFound"},
    ),
    "membership_set": (
        lambda w, a: membership_set(actor=a, queue=w.vision, user=w.newcomer(), role=Role.MEMBER, at=AT),
        MEMBERS,
    ),
    "membership_set lead": (
        lambda w, a: membership_set(actor=a, queue=w.vision, user=w.newcomer(), role=Role.LEAD, at=AT),
        MEMBERS | {"lead": "NotAllowed", "root lead": "NotAllowed"},
    ),
    "membership_remove": (
        lambda w, a: membership_remove(actor=a, queue=w.vision, user=_user(w, "viewer"), at=AT),
        MEMBERS,
    ),
    "membership_remove lead": (
        lambda w, a: membership_remove(actor=a, queue=w.vision, user=_user(w, "lead"), at=AT),
        MEMBERS | {"lead": "NotAllowed", "root lead": "NotAllowed"},
    ),
    "server_register": (lambda w, a: server_register(actor=a, name="gpu-02", at=AT), ADMINS),
    "server_drain": (lambda w, a: server_drain(actor=a, server=w.server, reason="test", at=AT), ADMINS),
    "server_undrain": (
        lambda w, a: server_undrain(actor=a, server=w.server, reason="test", at=AT),
        ADMINS | {"admin": "Conflict"},
    ),
    "server_mix_queues": (
        lambda w, a: server_mix_queues(actor=a, server=w.server, allowed=False, reason="test", at=AT),
        ADMINS,
    ),
    "settings_change": (
        lambda w, a: settings_change(actor=a, changes={"paused": True}, expected_version=1, at=AT, reason="test"),
        ADMINS,
    ),
    "token_create": (
        lambda w, a: token_create(actor=a, name="t", scopes=["jobs:read"], expires_at=None, at=AT),
        SIGNED_IN,
    ),
    "require_job": (lambda w, a: require_job(a, w.job.pk), SEE_JOB),
    "require_job by number": (lambda w, a: require_job(a, f"J-{w.job.number}"), SEE_JOB),
    "require_queue": (lambda w, a: require_queue(a, "vision"), SEE_JOB),
    "require_queue root": (
        lambda w, a: require_queue(a, "canary-lab"),
        {"root lead": "ok", "admin": "ok", "else": "NotFound"},
    ),
    "queue_detail": (lambda w, a: queue_detail(a, w.vision), SEE_JOB),
    "server_detail": (lambda w, a: server_detail(a, "gpu-01"), READERS),
    "round_detail": (lambda w, a: (round_make(1), round_detail(a, 1)), READERS),
}


def _user(world: World, name: str) -> User:
    actor = world.actors[name]
    assert isinstance(actor, User)
    return actor


def outcome(call: Callable[[], Any]) -> str:
    """Return "ok" or the name of the error."""
    try:
        call()
    except SchedulerError as error:
        return type(error).__name__
    return "ok"


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("actor", ACTORS)
def test_right(world: World, name: str, actor: str) -> None:
    """Each service and each strict selector does what the role allows, and nothing for anybody else."""
    call, expected = MATRIX[name]
    events = Event.objects.count()
    got = outcome(lambda: call(world, world.actors[actor]))

    assert got == expected.get(actor, expected["else"])
    assert got == "ok" or Event.objects.count() == events


@pytest.mark.parametrize("actor", ACTORS)
def test_predicates_agree_with_each_other(world: World, actor: str) -> None:
    """Lists, predicates, groups and roles are one truth."""
    user, job = world.actors[actor], world.job
    role = role_in(user, world.vision)
    sees = role is not None

    assert (world.vision in queues_visible(user)) == sees
    assert (job in jobs_visible(user)) == (job in job_list(user, JobFilters())) == sees
    assert groups_allowed(user, f"job.{job.pk}") == groups_allowed(user, f"queue.{world.vision.pk}") == sees
    assert (world.vision in queues_submittable(user)) == (role in (Role.MEMBER, Role.LEAD))
    assert may_act_on_job(user, job) == (actor in {"owner", "lead", "root lead", "admin"})
    assert ("vision" in {row["name"] for row in queue_list(user)}) == sees


@pytest.mark.parametrize("actor", ACTORS)
def test_cluster_group_is_for_everybody_who_is_signed_in(world: World, actor: str) -> None:
    """Its frames name neither jobs nor queues."""
    assert groups_allowed(world.actors[actor], "cluster") == (actor not in {"anonymous", "inactive"})


@pytest.mark.parametrize(
    "group", ["", "queue.", "queue.x", "queue.-1", "queue." + "9" * 40, "job.", "job.\x00", "queue", "Cluster", "job.%"]
)
def test_unknown_groups_are_closed(world: World, group: str) -> None:
    """No group but the three kinds exists, also for an admin."""
    assert not groups_allowed(world.actors["admin"], group)


def test_roles_are_inherited_downwards_only(world: World) -> None:
    """A role counts in the whole subtree, the highest on the way up wins, and nothing leaks upwards."""
    below = queue_make("vision/detection", parent=world.vision)
    viewer = _user(world, "viewer")

    assert role_in(viewer, below) == Role.VIEWER
    assert role_in(world.actors["lead"], world.root) is None
    member_make(below, Role.LEAD, user=viewer)
    assert (role_in(viewer, below), role_in(viewer, world.vision)) == (Role.LEAD, Role.VIEWER)
    member_make(world.root, Role.MEMBER, user=viewer)
    assert (role_in(viewer, below), role_in(viewer, world.vision)) == (Role.LEAD, Role.MEMBER)


def test_owner_who_left_the_queue_may_not_act(world: World) -> None:
    """A job belongs to its queue; who has no role there has no job there."""
    owner = _user(world, "owner")
    owner.memberships.all().delete()

    assert not may_act_on_job(owner, world.job)
    assert world.job not in jobs_visible(owner)


@pytest.mark.parametrize(
    "text", ["", "J-", "J-0", "J-999999999999999999999", "0" * 30, "\x00", "x", "../1", "J-1\n", "१"]
)
def test_keys_that_are_none_find_nothing(world: World, text: str) -> None:
    """Whatever stands in a URL, the answer is: no such job."""
    assert outcome(lambda: require_job(world.actors["admin"], text)) == "NotFound"
    assert outcome(lambda: require_queue(world.actors["admin"], text)) == "NotFound"
    assert outcome(lambda: server_detail(world.actors["admin"], text)) == "NotFound"
