"""The cancel of a job that waited is taken back: by REST, by the button of the message, within its time."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Job
from scheduler.selectors.jobs.restoring import UNDO_S
from scheduler.services.queues.user_limits import queue_limit_users
from tests.integration.api.conftest import World, spec
from tests.support.rows.factories import AT

pytestmark = pytest.mark.django_db


def sent(client: Client, path: str, body: object = None) -> Any:
    """POST JSON; return the answer."""
    return client.post(path, json.dumps(body), content_type="application/json")


def waiting(client: Client) -> Job:
    """Return a job that waits."""
    return Job.objects.get(pk=sent(client, "/api/v1/jobs", spec()).json()["id"])


def test_job_is_as_it_was_with_its_number_and_place(world: World) -> None:
    """The same row: queued since its submission, planned again; twice is once."""
    client = world.client("member")
    job = waiting(client)
    assert sent(client, f"/api/v1/jobs/{job.pk}/cancel").json()["actions"] == ["restore"]
    answers = [sent(client, f"/api/v1/jobs/{job.pk}/restore") for _ in range(2)]
    stored = Job.objects.get(pk=job.pk)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (stored.state, stored.wanted, stored.ended_at, stored.end_cause) == ("queued", "run", None, "")
    assert (stored.number, stored.submitted_at) == (job.number, job.submitted_at)
    assert stored.wait_reason
    told = Event.objects.get(job=job, reason="restore")
    assert (told.actor, told.old_state, told.new_state) == ("mia", "cancelled", "queued")


def test_suspended_job_is_suspended_again(world: World) -> None:
    """It does not begin to wait behind its owner's back."""
    client = world.client("member")
    job = waiting(client)
    for action in ("suspend", "cancel", "restore"):
        answer = sent(client, f"/api/v1/jobs/{job.pk}/{action}")

    assert (answer.json()["state"], answer.json()["wanted"]) == ("suspended", "suspend")


def test_it_is_refused_too_late_and_after_it_ran(world: World) -> None:
    """Ten minutes; and what was stopped on its GPUs stays stopped."""
    client = world.client("member")
    job = waiting(client)
    sent(client, f"/api/v1/jobs/{job.pk}/cancel")
    ended_at = Job.objects.get(pk=job.pk).ended_at
    assert ended_at is not None
    Job.objects.filter(pk=job.pk).update(ended_at=ended_at - timedelta(seconds=UNDO_S + 1))
    late = sent(client, f"/api/v1/jobs/{job.pk}/restore")
    running = sent(client, f"/api/v1/jobs/{world.job.pk}/restore")

    assert (late.status_code, running.status_code) == (409, 409)
    assert "within 10 min" in late.json()["detail"]
    assert Job.objects.get(pk=job.pk).state == JobState.CANCELLED


def test_limits_of_its_owner_count_for_it_too(world: World) -> None:
    """Nobody gets more queued jobs by cancelling some for a while."""
    client = world.client("member")
    job = waiting(client)
    sent(client, f"/api/v1/jobs/{job.pk}/cancel")
    queue_limit_users(
        actor=world.users["admin"],
        queue=world.vision,
        user_max_gpus=None,
        user_max_queued=Job.objects.filter(owner=job.owner, queue=world.vision, state="queued").count(),
        reason="a turn for all",
        expected_version=world.vision.version,
        at=AT,
    )

    assert sent(client, f"/api/v1/jobs/{job.pk}/restore").status_code == 400


def test_message_of_a_cancel_has_a_button_that_takes_it_back(world: World) -> None:
    """One job on its page, several from the list; a running job's cancel has none."""
    client = world.client("member")
    one, two = waiting(client), waiting(client)
    answer = client.post(f"/jobs/J-{one.number}/cancel", follow=True)
    assert f'action="/jobs/J-{one.number}/restore"' in answer.content.decode()
    client.post(f"/jobs/J-{one.number}/restore")
    assert Job.objects.get(pk=one.pk).state == JobState.QUEUED

    both = {"job": [f"J-{one.number}", f"J-{two.number}"], "confirmed": "yes"}
    page = client.post("/jobs/cancel", both, follow=True).content.decode()
    assert 'action="/jobs/restore"' in page
    client.post("/jobs/restore", both)
    assert {job.state for job in Job.objects.filter(pk__in=[one.pk, two.pk])} == {"queued"}

    stopped = client.post(f"/jobs/J-{world.job.number}/cancel")
    assert {message.extra_tags for message in get_messages(stopped.wsgi_request)} == {""}
