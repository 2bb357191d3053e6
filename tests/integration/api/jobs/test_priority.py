"""The priority of a job changes after it was submitted: by REST and page, told, and decisive where the policy looks."""

import json
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from scheduler.live.rounds.run_round import round_run
from scheduler.models import Attempt, Cluster, Event, Job, Queue
from scheduler.services.cluster.settings import cluster_row
from tests.integration.api.conftest import World, spec
from tests.support.live.ports import memory_ports

pytestmark = pytest.mark.django_db


def sent(client: Client, path: str, body: object) -> Any:
    """POST JSON; return the answer."""
    return client.post(path, json.dumps(body), content_type="application/json")


def waiting(client: Client, name: str = "train") -> Job:
    """Return a job that waits."""
    return Job.objects.get(pk=sent(client, "/api/v1/jobs", spec(name=name)).json()["id"])


def test_next_round_goes_by_the_new_priority(world: World) -> None:
    """One place is free; the job that came second and became urgent gets it."""
    cluster_row()
    Cluster.objects.update(policy="priority", policy_options={}, round_number=world.round.number)
    Queue.objects.filter(name="vision").update(quota_gpus=2, may_borrow=False)
    first, second = waiting(world.client("member"), "first"), waiting(world.client("member"), "second")
    answer = sent(world.client("lead"), f"/api/v1/jobs/{second.pk}/reprioritise", {"priority": 80})
    ports, clock, _, _ = memory_ports()
    clock.advance((second.submitted_at - clock.now()).total_seconds() + 1)
    round_run(ports, "test")

    assert (answer.status_code, answer.json()["spec"]["schedule"]["priority"]) == (200, 80)
    assert Attempt.objects.filter(job=second).exists()
    assert not Attempt.objects.filter(job=first).exists()


def test_change_is_told_once_with_both_values(world: World) -> None:
    """The same value again changes nothing; a running job keeps what it holds."""
    path = f"/api/v1/jobs/{world.job.pk}/reprioritise"
    answers = [sent(world.client("member"), path, {"priority": 7}) for _ in range(2)]
    told = Event.objects.get(job=world.job, kind="job_changed")
    stored = Job.objects.get(pk=world.job.pk)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (told.actor, told.reason) == ("mia", "reprioritise")
    assert told.data == {"priority": {"before": 50, "after": 7}}
    assert (stored.state, stored.priority, stored.spec["schedule"]["priority"]) == ("running", 7, 7)
    audited = world.client("admin").get("/api/v1/audit?kind=job_changed").json()["results"][0]
    assert (audited["before"], audited["after"], audited["data"]) == ({"priority": 50}, {"priority": 7}, {})
    assert "priority 7." in world.client("member").get("/").content.decode()


def test_what_is_over_or_out_of_range_is_refused(world: World) -> None:
    """409 for a job that is cancelled, 400 with the field for 101."""
    client = world.client("member")
    job = waiting(client)
    path = f"/api/v1/jobs/{job.pk}/reprioritise"
    refused = sent(client, path, {"priority": 101})
    sent(client, f"/api/v1/jobs/{job.pk}/cancel", {})

    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/priority"
    assert sent(client, path, {"priority": 60}).status_code == 409
    assert Job.objects.get(pk=job.pk).priority == 50


def test_page_says_whether_the_policy_looks_at_it(world: World) -> None:
    """The form keeps what was typed when it is wrong, and leads back to the job when it is right."""
    client = world.client("member")
    path = f"/jobs/J-{waiting(client).number}/reprioritise"
    cluster_row()
    Cluster.objects.update(policy="las")
    asked = client.get(path).content.decode()
    wrong = client.post(path, {"priority": "400"})
    done = client.post(path, {"priority": "90"})

    assert "las decides now and does not look at it" in asked
    assert wrong.status_code == 422
    assert 'value="400"' in wrong.content.decode()
    assert done.status_code == 302
    assert "has priority 90" in str(next(iter(get_messages(done.wsgi_request))))
