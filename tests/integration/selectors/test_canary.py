"""Nothing of a queue reaches those without a role in it, whatever they read."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Cluster, Event, Job, Server
from scheduler.models.queue import Role
from scheduler.selectors.cluster.fairness import fairness, jct_summary
from scheduler.selectors.cluster.overview import cluster_now, feed, gpu_map, queue_shares
from scheduler.selectors.cluster.rounds import round_detail, round_list
from scheduler.selectors.cluster.servers import server_detail, server_list
from scheduler.selectors.jobs.listing import (
    JobFilters,
    event_row,
    job_detail,
    job_events,
    job_explain,
    job_list,
    job_row,
    job_timeline,
)
from scheduler.selectors.queues.tree import queue_detail, queue_list
from scheduler.selectors.visibility import (
    Actor,
    jobs_visible,
    queues_visible,
)
from scheduler.services.jobs.state import Wait, job_waits_record
from scheduler.services.queues.members import membership_set
from tests.support.rows.factories import (
    AT,
    job_make,
    member_make,
    queue_make,
    round_make,
    server_make,
    user_make,
)

pytestmark = pytest.mark.django_db


def everything(user: Actor, own: Job) -> str:
    """Return all that a reader can get at, as one text."""
    data: list[Any] = [
        [job_row(job) for job in job_list(user, JobFilters())],
        [round_detail(user, round_.number) for round_ in round_list(user)],
        [queue_detail(user, queue) for queue in queues_visible(user)],
        [server_detail(user, row["id"]) for row in server_list(user)],
        [queue_list(user), queue_shares(user), gpu_map(user), feed(user, 100), fairness(user, AT)],
        [jct_summary(user, AT - timedelta(days=1)), cluster_now(AT)],
    ]
    for job in jobs_visible(user):
        data += [job_detail(user, job), job_explain(user, job, AT), job_timeline(job, AT, user)]
        data += [job_timeline(job, AT), [event_row(event) for event in job_events(job)], job_row(job)]
    assert own.name in json.dumps(data) or not jobs_visible(user).exists()
    return json.dumps(data)


def canary_world() -> tuple[User, Job]:
    """Fill two queues whose jobs meet: one preempts the other, waits behind it, shares rounds and servers with it."""
    server = server_make("gpu-01", gpus=8)
    root = queue_make("canary-root", quota_gpus=8)
    theirs = queue_make("canary-queue", parent=root)
    ours = queue_make("speech", parent=root)
    them, we = member_make(theirs, name="canary-owner"), member_make(ours, name="outsider")
    running = job_make(theirs, owner=them, state=JobState.RUNNING, name="canary-running", server=server)
    ahead = job_make(theirs, owner=them, name="canary-ahead", wait_position=1)
    job_make(theirs, owner=them, state=JobState.COMPLETED, name="canary-done", server=server)
    done = job_make(ours, owner=we, state=JobState.COMPLETED, name="own-done", server=server)
    own = job_make(ours, owner=we, state=JobState.PREEMPTING, name="own-job", server=server)
    Attempt.objects.filter(job=own).update(preempted_by=running, preempt_rule="policy_order", stop_requested_at=AT)
    Event.objects.filter(job=own, new_state="preempting").update(data={"by_job": running.number})
    waiting = job_make(ours, owner=we, name="own-waiting")
    evidence = {"queue_id": root.pk, "other_queue_id": theirs.pk, "may_borrow": 1, "queue_held_gpus": 2}
    wait = Wait(job_id=waiting.pk, reason="queue_quota", evidence=evidence, position=2)  # type: ignore[arg-type]
    job_waits_record(waits=[wait], round_number=1, at=AT)
    membership_set(
        actor=user_make("boss", admin=True), queue=theirs, user=user_make("canary-user"), role=Role.LEAD, at=AT
    )
    Event.objects.create(at=AT, kind="token", actor="canary-owner", reason="create", data={"name": "canary-token"})
    Event.objects.create(at=AT, kind="report_rejected", actor="agent gpu-01", server=server, data={"x": "canary-x"})
    grants = [
        {"job": job.number, "state": "kept", "seats": [{"server": server.number, "gpus": 1}]} for job in (running, own)
    ]
    round_make(
        1,
        decisions={
            "grants": grants,
            "preemptions": [
                {"job": own.number, "rule": "policy_order", "by_job": running.number, "evidence": evidence},
                {"job": running.number, "rule": "policy_order", "by_job": own.number, "evidence": {"canary": 1}},
            ],
            "waiting": [
                {"job": ahead.number, "position": 1, "reason": "canary_reason", "evidence": {"canary": 1}},
                {"job": waiting.number, "position": 2, "reason": "queue_quota", "evidence": evidence},
            ],
            "waiting_by_reason": {"queue_quota": 2},
        },
    )
    Cluster.objects.filter(pk=1).update(round_number=1, round_finished_at=AT)
    assert done.state == JobState.COMPLETED
    return we, own


def test_no_reader_meets_anything_of_a_queue_without_a_role() -> None:
    """Names of other queues, their jobs, owners, members and reasons are in nothing that an outsider can read."""
    outsider, own = canary_world()
    text = everything(outsider, own)

    assert "canary" not in text
    assert "another queue" in text
    assert "another job" in text
    assert "other queues" in text
    assert Server.objects.get().key_hex not in text


def test_who_has_no_role_at_all_sees_the_machines_alone() -> None:
    """Somebody who has just signed in for the first time."""
    _, own = canary_world()
    text = everything(user_make(), own)

    assert "canary" not in text
    assert not re.search(r"\bown\b", text)
    assert "gpu-01" in text


@pytest.mark.parametrize("actor", [AnonymousUser(), User(username="gone", is_active=False)])
def test_nobody_reads_without_signing_in(actor: Actor) -> None:
    """Every list is empty for anonymous and deactivated users."""
    canary_world()

    assert [server_list(actor), gpu_map(actor), queue_list(actor), queue_shares(actor), feed(actor, 10)] == [[]] * 5
    assert not round_list(actor).exists()
    assert not job_list(actor, JobFilters()).exists()
    assert fairness(actor, AT)["jobs"] == []
    assert jct_summary(actor, AT - timedelta(days=1))["count"] == 0


def test_admin_sees_all_of_it() -> None:
    """The same reads have the names for who may know them; keys are for nobody."""
    _, own = canary_world()
    text = everything(User.objects.get(username="boss"), own)

    assert "canary-running" in text
    assert "canary-token" in text
    assert Server.objects.get().key_hex not in text
