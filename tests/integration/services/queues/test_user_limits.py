"""Limits of each user in a queue: who sets them, what is refused, and that the live round keeps to them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Cluster, Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.notify import use_bell
from scheduler.services.jobs.change import job_change
from scheduler.services.jobs.check import spec_check
from scheduler.services.jobs.submit import jobs_store
from scheduler.services.queues.user_limits import queue_limit_users
from scheduler.whatif.one_job.preview import job_preview
from tests.support.live.world import World
from tests.support.rows.factories import AT, member_make, spec_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(settings: Any, tmp_path: Path) -> Iterator[World]:
    """Four slots and one queue."""
    settings.SHARED_DIR = tmp_path
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    made = World()
    made.server("server-01", slots=4)
    made.queue("vision", quota_gpus=4)
    yield made
    use_bell(None)


def limit(world: World, **limits: Any) -> Queue:
    """Limit the users of the queue as its lead."""
    queue = Queue.objects.get(name="vision")
    values = {"user_max_gpus": queue.user_max_gpus, "user_max_queued": queue.user_max_queued, **limits}
    lead = member_make(queue, Role.LEAD)
    at, version = world.clock.now(), queue.version
    return world.do(
        lambda: queue_limit_users(
            actor=lead, queue=queue, reason="deadline week", expected_version=version, at=at, **values
        )
    )


def test_the_live_round_keeps_to_the_limit_and_says_why(world: World) -> None:
    """One user has 2 of 4 slots at most: the third job waits for that reason until another of the user's ends."""
    limit(world, user_max_gpus=2)
    user = member_make(Queue.objects.get(name="vision"))

    jobs = [world.submit(actor=user) for _ in range(3)]
    other = world.submit()
    world.until_state(other, JobState.RUNNING)

    assert [world.state(job) for job in jobs] == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    last = Job.objects.get(pk=jobs[-1].pk)
    assert last.wait_reason == WaitReason.USER_LIMIT
    assert last.wait_evidence["user_max_gpus"] == 2


def test_more_than_a_user_may_have_is_refused_at_the_door(world: World) -> None:
    """A job wider than the limit could never start, and queued jobs beyond their number are too."""
    limit(world, user_max_gpus=2, user_max_queued=1)
    user = member_make(Queue.objects.get(name="vision"))

    with pytest.raises(SpecInvalid, match=r"at most 2 GPUs in vision\. You asked for 3"):
        world.submit(actor=user, gpus=3)
    world.submit(actor=user)
    with pytest.raises(SpecInvalid, match="You have 1 queued in vision"):
        world.submit(actor=user)
    world.submit()  # another user has a number of one's own


def test_a_change_at_the_limit_counts_the_job_once(world: World) -> None:
    """Who may queue no more can still change what waits; an array's job is one; a lead's own jobs do not count."""
    world.until_state(world.submit(gpus=4), JobState.RUNNING)
    user, lead = (member_make(Queue.objects.get(name="vision"), role) for role in (Role.MEMBER, Role.LEAD))
    job = world.submit(actor=user, gpus=2)
    spec = spec_make(queue="vision", array="0-1")
    of_array = jobs_store([spec_check(actor=user, spec=spec)], at=world.clock.now(), ids=world.ports.ids)[0]
    for _ in range(3):
        world.submit(actor=lead)
    limit(world, user_max_queued=3)

    for actor, changed, cpus in ((user, job, 1), (lead, job, 2), (lead, of_array, 1)):
        made = job_change(actor=actor, job=changed, change={"cpus": cpus}, at=world.clock.now())
        assert made.spec["resources"]["cpus"] == cpus
    with pytest.raises(SpecInvalid, match="You have 3 queued in vision"):
        world.submit(actor=user)


def test_a_move_to_another_queue_is_one_job_more_there_alone(world: World) -> None:
    """Not in the cluster, whose limit the user has reached; the new queue's limit counts it."""
    world.queue("speech", quota_gpus=4)
    speech, vision = Queue.objects.get(name="speech"), Queue.objects.get(name="vision")
    user = member_make(vision)
    member_make(speech, user=user)
    jobs = [world.submit(actor=user, gpus=4) for _ in range(2)]
    Cluster.objects.update(user_most_queued=2)

    moved = job_change(actor=user, job=jobs[0], change={"queue": "speech"}, at=world.clock.now())
    Queue.objects.filter(pk=speech.pk).update(user_max_queued=1)

    assert moved.queue == speech
    with pytest.raises(SpecInvalid, match="You have 1 queued in speech"):
        job_change(actor=user, job=jobs[1], change={"queue": "speech"}, at=world.clock.now())


def test_a_change_tells_all_that_it_changes(world: World) -> None:
    """The largest number of an elastic job too, which grows with its GPUs."""
    job = world.submit(resources={"gpus": 2, "min_gpus": 1, "max_gpus": 2})

    job_change(actor=world.admin, job=job, change={"gpus": 3}, at=world.clock.now())

    data = Event.objects.get(kind="job_changed").data
    assert (data["gpus"], data["max_gpus"]) == ({"before": 2, "after": 3}, {"before": 2, "after": 3})


def test_a_dry_run_knows_the_limit_of_its_owner(world: World) -> None:
    """Where a user has all there is for one, the preview says so, while another user's job would start."""
    limit(world, user_max_gpus=1)
    vision = Queue.objects.get(name="vision")
    user, other = member_make(vision), member_make(vision)
    world.until_state(world.submit(actor=user), JobState.RUNNING)
    checks = [spec_check(actor=actor, spec=spec_make(queue="vision")) for actor in (user, other)]

    found, of_other = (job_preview(checked=checked, too_large=(), at=world.clock.now()) for checked in checks)

    assert (found["starts"], found["reason"]) == ("later", WaitReason.USER_LIMIT)
    assert of_other["starts"] == "now"


def test_limits_are_the_leads_with_a_reason_and_audited(world: World) -> None:
    """Members are refused, a reason is needed, two leads do not overwrite each other, and the event tells both."""
    queue = limit(world, user_max_gpus=2)
    event = Event.objects.get(kind="user_limits")
    values: dict[str, Any] = {"queue": queue, "user_max_gpus": 3, "user_max_queued": None, "at": AT}

    assert event.data == {
        "before": {"user_max_gpus": None, "user_max_queued": None},
        "after": {"user_max_gpus": 2, "user_max_queued": None},
        "reason": "deadline week",
    }
    with pytest.raises(NotAllowed):
        queue_limit_users(actor=member_make(queue), reason="more please", expected_version=queue.version, **values)
    with pytest.raises(SpecInvalid, match="reason"):
        queue_limit_users(actor=world.admin, reason="", expected_version=queue.version, **values)
    with pytest.raises(Conflict):
        queue_limit_users(actor=world.admin, reason="too late", expected_version=queue.version - 1, **values)


def test_a_lead_sets_them_in_the_page_and_everybody_reads_them(world: World) -> None:
    """The form of the quota tab saves; the line of the change and the first tab show it."""
    queue = Queue.objects.get(name="vision")
    client = Client()
    client.force_login(member_make(queue, Role.LEAD))
    form = {"do": "limits", "limits-user_max_gpus": 3, "limits-user_max_queued": "", "limits-version": queue.version}

    refused = client.post("/queues/vision?tab=quota", {**form, "limits-reason": ""})
    saved = client.post("/queues/vision?tab=quota", {**form, "limits-reason": "deadline week"}, follow=True)

    assert refused.status_code == 422
    assert "hold 3\u00a0CPU slots at most" in saved.content.decode()
    assert "Each user at most" in client.get("/queues/vision").content.decode()
