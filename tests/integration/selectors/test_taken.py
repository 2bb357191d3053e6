"""What took GPUs from a queue: by queue, person and job, with the work that was lost; others' names are hidden."""

from datetime import timedelta

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Attempt, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.queues.taken import taken
from tests.support.rows.factories import AT, attempt_make, job_make, member_make, queue_make, user_make

pytestmark = pytest.mark.django_db
SINCE, UNTIL = AT - timedelta(hours=1), AT + timedelta(hours=1)


def preempt(victim: Queue, by: Job | None, *, rule: str, lost_s: float, gpus: int = 2) -> Job:
    """Let one job of a queue have been preempted, and return it."""
    job = job_make(victim, state=JobState.QUEUED, num_gpus=gpus)
    attempt = attempt_make(job)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", end_cause=EndCause.PREEMPTED, ended_at=AT, preempt_rule=rule, preempted_by=by, lost_s=lost_s,
        num_gpus=gpus,
    )  # fmt: skip
    return job


def test_takers_are_those_that_cost_most_first() -> None:
    """Recalls are counted apart; what no job took has no taker."""
    vision, speech = queue_make("vision"), queue_make("speech")
    owner = member_make(speech, name="sam")
    taker = job_make(speech, state=JobState.QUEUED, owner=owner, name="big")
    first = preempt(vision, taker, rule="quota_reclaim", lost_s=3600)
    preempt(vision, taker, rule="policy_order", lost_s=0)
    preempt(vision, None, rule="server_gone", lost_s=900)
    preempt(speech, taker, rule="policy_order", lost_s=9999)

    found = taken(user_make("ada", admin=True), vision, since=SINCE, until=UNTIL)

    assert found["total"] == {"name": "all", "preemptions": 3, "recalls": 1, "lost_gpu_hours": 2.5}
    assert [(row["name"], row["preemptions"], row["recalls"]) for row in found["queues"]] == [
        ("speech", 2, 1),
        ("no job", 1, 0),
    ]
    assert [row["name"] for row in found["people"]] == ["sam", "no job"]
    assert found["jobs"][0]["name"] == f"big J-{taker.number}"
    assert [row["lost_gpu_hours"] for row in found["losers"]] == [2.0, 0.5, 0.0]
    assert found["losers"][0]["name"].endswith(f"J-{first.number}")
    assert taken(user_make("bob", admin=True), vision, since=UNTIL, until=UNTIL + timedelta(hours=1))["jobs"] == []


def test_lead_reads_which_queue_it_was_as_in_the_loans() -> None:
    """The queue by its name, its users and jobs as those of the queue, and why they have no names of their own."""
    vision, speech, text = queue_make("vision"), queue_make("speech"), queue_make("text")
    for queue in (speech, speech, text):
        preempt(vision, job_make(queue, state=JobState.QUEUED, name="secret"), rule="quota_reclaim", lost_s=60)

    found = taken(member_make(vision, Role.LEAD), vision, since=SINCE, until=UNTIL)

    assert [row["name"] for row in found["queues"]] == ["speech", "text"]
    assert [row["name"] for row in found["people"]] == ["a user of speech", "a user of text"]
    assert [row["name"] for row in found["jobs"]] == ["a job of speech", "a job of text"]
    assert found["hidden"] == "Users and jobs are named only where you have a role in their queue."
    assert "secret" not in str(found)


def test_names_of_queues_that_one_does_not_see_are_hidden() -> None:
    """A member of vision learns that another queue took it, and no more."""
    vision, speech = queue_make("vision"), queue_make("speech")
    preempt(vision, job_make(speech, state=JobState.QUEUED, name="secret"), rule="policy_order", lost_s=60)

    found = taken(member_make(vision), vision, since=SINCE, until=UNTIL)

    assert [found[kind][0]["name"] for kind in ("queues", "people", "jobs")] == [
        "another queue",
        "another person",
        "another job",
    ]
    assert found["hidden"] == "Only leads of vision and admins read the names of queues in which they have no role."
    assert taken(user_make("ada", admin=True), vision, since=SINCE, until=UNTIL)["hidden"] == ""
