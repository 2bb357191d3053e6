"""Queues, quotas that add up, and roles that no user raises above their own."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import get_resolver

from scheduler.core.model.errors import Conflict, NotAllowed, NotFound, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Membership, Queue
from scheduler.models.queue import Role
from scheduler.services.permission import OPERATOR
from scheduler.services.queues.create import RESERVED, queue_create
from scheduler.services.queues.members import membership_remove, membership_set
from scheduler.services.queues.quotas import SiblingQuota, queue_change_quota
from tests.support.rows.factories import AT, job_make, member_make, queue_make, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


@pytest.fixture
def root() -> Queue:
    """A root with 16 GPUs."""
    return queue_make("lab", quota_gpus=16)


def change(actor: User, queue: Queue, **changes: Any) -> Queue:
    """Change a quota; what is not given stays as it is."""
    values = {
        "quota_gpus": queue.quota_gpus,
        "max_gpus": queue.max_gpus,
        "weight": queue.weight,
        "may_borrow": queue.may_borrow,
        "reason": "new project",
        "expected_version": queue.version,
        **changes,
    }
    return queue_change_quota(actor=actor, queue=queue, at=AT, **values)


def refused(call: Any, *args: Any, **kwargs: Any) -> list[tuple[str, str]]:
    """Return pointer and sentence of what is wrong."""
    with pytest.raises(SpecInvalid) as caught:
        call(*args, **kwargs)
    return [(error.pointer, error.detail) for error in caught.value.errors]


def test_created_queue_is_recorded(admin: User, root: Queue) -> None:
    """A queue has its numbers, a colour of its own and an event."""
    queue = queue_create(actor=admin, name="vision", parent=root, quota_gpus=8, max_gpus=12, at=AT)
    event = Event.objects.get(queue=queue)

    assert (queue.parent, queue.quota_gpus, queue.max_gpus, queue.version) == (root, 8, 12, 1)
    assert queue.color_slot != root.color_slot
    assert (event.kind, event.actor, event.reason) == ("queue", "admin", "create")
    assert event.data["after"]["quota_gpus"] == 8


def test_colours_are_shared_only_when_all_are_taken(admin: User) -> None:
    """Nine queues: the first eight differ, the ninth takes the first slot again."""
    slots = [queue_create(actor=admin, name=f"q{n}", parent=None, quota_gpus=1, at=AT).color_slot for n in range(9)]

    assert slots == [1, 2, 3, 4, 5, 6, 7, 8, 1]


@pytest.mark.parametrize("name", ["", "a b", "-a", "a//b", "/a", "a/", "x" * 121, "a\n", "ä"])
def test_bad_name_of_a_queue_is_refused(admin: User, name: str) -> None:
    """Names go into specs, URLs and pages."""
    assert refused(queue_create, actor=admin, name=name, parent=None, quota_gpus=1, at=AT)[0][0] == "/name"


def test_words_of_rest_are_refused_in_names(admin: User) -> None:
    """Each word that follows a queue in a path, by the page and commands too; the message has a name that would do."""
    routes = [route for route in rest_routes(get_resolver().url_patterns) if "queues/<path:name>/" in route]
    words = {route.split("queues/<path:name>/")[1].split("/")[0] for route in routes}
    told = refused(queue_create, actor=admin, name="vision/preemptions", parent=None, quota_gpus=1, at=AT)

    assert len(words) > 10
    assert words == RESERVED
    assert [pointer for pointer, _ in told] == ["/name"]
    assert told[0][1].endswith("Choose another, such as vision-preemptions.")
    assert queue_create(actor=admin, name="preemptions/vision-usage", parent=None, quota_gpus=1, at=AT).pk


def rest_routes(patterns: list[Any], before: str = "") -> list[str]:
    """Return all routes below the patterns."""
    found: list[str] = []
    for one in patterns:
        route = before + str(one.pattern)
        found += rest_routes(one.url_patterns, route) if hasattr(one, "url_patterns") else [route]
    return found


def test_taken_name_is_refused(admin: User, root: Queue) -> None:
    """Names are unique."""
    assert refused(queue_create, actor=admin, name="lab", parent=None, quota_gpus=1, at=AT) == [
        ("/name", "There is a queue lab already.")
    ]


def test_quotas_below_a_queue_never_exceed_its_own(admin: User, root: Queue) -> None:
    """A quota is a guarantee, so what is given below one queue adds up to at most its own."""
    vision = queue_create(actor=admin, name="vision", parent=root, quota_gpus=10, at=AT)
    said = "quota may be at most 6: lab has 16 GPUs and 10 are given. You asked for 7."

    assert refused(queue_create, actor=admin, name="nlp", parent=root, quota_gpus=7, at=AT) == [("/quota_gpus", said)]
    assert refused(change, admin, vision, quota_gpus=17)[0][0] == "/quota_gpus"
    assert refused(change, admin, root, quota_gpus=9) == [
        ("/quota_gpus", "quota must be at least 10: so many GPUs are given to the queues below lab. You asked for 9.")
    ]
    assert change(admin, vision, quota_gpus=16).quota_gpus == 16


def test_quota_beyond_what_is_left_says_which_queues_have_the_rest(admin: User, root: Queue) -> None:
    """The largest first, as they would be after the moves; what is beyond the queue above, no sibling can give."""
    vision = queue_make("vision", parent=root, quota_gpus=2)
    speech = queue_make("speech", parent=root, quota_gpus=8)
    for number in range(6):
        queue_make(f"q{number}", parent=root, quota_gpus=1 if number else 0)
    way = "To take GPUs from them in the same step: moves by REST, --leave of the command."

    assert refused(change, admin, vision, quota_gpus=6) == [
        ("/quota_gpus", "quota may be at most 3: lab has 16 GPUs and 13 are given. You asked for 6."),
        ("/moves", f"speech has 8, q1 has 1, q2 has 1, q3 has 1, q4 has 1 and 1 other has the rest. {way}"),
    ]
    less = [SiblingQuota(queue=speech, quota_gpus=0)]
    assert refused(change, admin, vision, quota_gpus=12, moves=less)[1][1].startswith("q1 has 1, q2 has 1")
    [(_, beyond)] = refused(change, admin, vision, quota_gpus=17)
    assert beyond.endswith("You asked for 17. Give lab a larger quota first.")
    assert change(admin, vision, quota_gpus=11, moves=less).quota_gpus == 11


def test_queue_with_jobs_gets_no_queues_under_it(admin: User, root: Queue) -> None:
    """Jobs live in leaves; finished ones do not stand in the way."""
    job_make(root, state=JobState.COMPLETED)
    queue_create(actor=admin, name="vision", parent=root, quota_gpus=1, at=AT)
    other = queue_make("speech")
    job_make(other)

    assert refused(queue_create, actor=admin, name="speech/asr", parent=other, quota_gpus=1, at=AT) == [
        ("/parent", "speech has 1 job of its own. Jobs belong in queues without others.")
    ]


def test_quota_change_records_before_after_and_reason(admin: User, root: Queue) -> None:
    """The audit says who changed what to what, and why."""
    queue = change(admin, root, quota_gpus=20, may_borrow=False, reason="  two new servers ")
    event = Event.objects.get(queue=root, kind="quota")

    assert (queue.quota_gpus, queue.may_borrow, queue.version) == (20, False, 2)
    assert event.data == {
        "before": {"quota_gpus": 16, "max_gpus": None, "weight": 1.0, "may_borrow": True},
        "after": {"quota_gpus": 20, "max_gpus": None, "weight": 1.0, "may_borrow": False},
        "reason": "two new servers",
    }


@pytest.mark.parametrize("reason", ["", "  ", "ok", "x" * 501, "nul \x00 here"])
def test_quota_change_needs_a_reason(admin: User, root: Queue, reason: str) -> None:
    """Three characters at least, no more than a paragraph, storable."""
    assert refused(change, admin, root, quota_gpus=20, reason=reason)[0][0] == "/reason"
    assert Queue.objects.get(pk=root.pk).quota_gpus == 16


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"quota_gpus": -1}, "/quota_gpus"),
        ({"quota_gpus": 10**9}, "/quota_gpus"),
        ({"quota_gpus": True}, "/quota_gpus"),
        ({"weight": 0.0}, "/weight"),
        ({"weight": float("nan")}, "/weight"),
        ({"max_gpus": 15}, "/max_gpus"),
    ],
)
def test_bad_number_is_refused(admin: User, root: Queue, changes: dict[str, Any], pointer: str) -> None:
    """Each number has its range; the most may not be less than the quota."""
    assert [where for where, _ in refused(change, admin, root, **changes)] == [pointer]


def test_second_of_two_leads_is_told_who_was_first(admin: User, root: Queue) -> None:
    """A change on top of an old version is refused, names the other and loses nothing."""
    change(admin, root, quota_gpus=20)
    with pytest.raises(Conflict, match="The quota of lab was not saved: admin changed it 0 s ago"):
        change(admin, root, quota_gpus=24)

    assert Queue.objects.get(pk=root.pk).quota_gpus == 20


def test_lead_sets_quotas_below_the_own_queue_only(root: Queue) -> None:
    """The lead of a queue shares out what it has; the own quota is somebody else's to set."""
    lead = member_make(root, Role.LEAD)
    vision = queue_make("vision", parent=root, quota_gpus=4)

    assert change(lead, vision, quota_gpus=8).quota_gpus == 8
    with pytest.raises(NotAllowed, match="Only admins may change the quota of lab"):
        change(lead, root, quota_gpus=100)


def test_lead_of_a_leaf_may_not_change_its_quota(root: Queue) -> None:
    """Leads manage members, not their own quota."""
    vision = queue_make("vision", parent=root)
    with pytest.raises(NotAllowed):
        change(member_make(vision, Role.LEAD), vision, quota_gpus=8)


def test_lead_gives_and_takes_roles_below_the_own(root: Queue) -> None:
    """A lead makes viewers and members and takes that back; each is an event with before and after."""
    lead, user = member_make(root, Role.LEAD, name="lead"), user_make("ada")
    membership_set(actor=lead, queue=root, user=user, role=Role.VIEWER, at=AT)
    membership_set(actor=lead, queue=root, user=user, role=Role.MEMBER, at=AT)
    membership_remove(actor=lead, queue=root, user=user, at=AT)
    events = Event.objects.filter(queue=root, kind="membership").order_by("id")

    assert [(e.data["before"], e.data["after"]) for e in events] == [
        (None, "viewer"),
        ("viewer", "member"),
        ("member", None),
    ]
    assert not Membership.objects.filter(user=user).exists()


def test_giving_the_same_role_again_is_no_event(root: Queue, admin: User) -> None:
    """Nothing changed, nothing is recorded."""
    user = user_make("ada")
    for _ in range(2):
        membership_set(actor=admin, queue=root, user=user, role=Role.VIEWER, at=AT)

    assert Event.objects.filter(kind="membership").count() == 1


def test_lead_makes_no_leads_and_unmakes_none(root: Queue) -> None:
    """Rights are given only below the own rank, also to oneself."""
    lead, other = member_make(root, Role.LEAD), member_make(root, Role.LEAD)
    user = member_make(root, Role.MEMBER)
    for target, role in ((user, Role.LEAD), (other, Role.MEMBER), (lead, Role.MEMBER)):
        with pytest.raises(NotAllowed):
            membership_set(actor=lead, queue=root, user=target, role=role, at=AT)
    with pytest.raises(NotAllowed):
        membership_remove(actor=lead, queue=root, user=other, at=AT)

    assert Membership.objects.filter(queue=root, role=Role.LEAD).count() == 2


def test_role_that_nobody_holds_cannot_be_taken(root: Queue, admin: User) -> None:
    """Removing a role from above or none is an error that names both."""
    with pytest.raises(NotFound, match="ada has no role in lab"):
        membership_remove(actor=admin, queue=root, user=user_make("ada"), at=AT)


def test_operator_at_the_command_line_sets_up_queues(root: Queue) -> None:
    """A management command acts without a user, by a marker that no request can carry."""
    queue = queue_create(actor=OPERATOR, name="vision", parent=root, quota_gpus=1, at=AT)
    membership_set(actor=OPERATOR, queue=queue, user=user_make("ada"), role=Role.LEAD, at=AT)

    assert set(Event.objects.filter(queue=queue).values_list("actor", flat=True)) == {"operator"}
