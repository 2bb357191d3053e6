"""What a job's page advises: how far it may be spread, whether it has trained enough, whether it uses what it holds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Job, Profile, Queue
from tests.integration.pages_jobs.conftest import World, job_in, samples_of
from tests.support.rows.factories import attempt_make

SETTLED = {"loss": 1.0}


def gang(world: World, **profile: Any) -> Job:
    """Return a running job on 4 devices that may be on 4 servers, and what is known of its kind."""
    job = job_in(world, JobState.RUNNING, num_gpus=4)
    spec = {**job.spec, "resources": {**job.spec["resources"], "gpus": 4, "max_gpus": 4, "max_servers": 4}}
    matrix = {"cpus_per_gpu": [1.0, 2.0], "memory_bytes_per_gpu": [1e9], "relative_speed": [[0.5], [1.0]]}
    found = Profile.objects.create(fingerprint="auto-gang", **matrix, **profile)
    Job.objects.filter(pk=job.pk).update(spec=spec, profile=found)
    return Job.objects.get(pk=job.pk)


def placement(world: World, job: Job) -> str:
    """Return the text of the placement tab."""
    return world.browser("member").open(f"/jobs/J-{job.number}/placement").text


def test_verdict_is_from_what_was_measured(world: World) -> None:
    """Half as fast on two servers: better kept together, with the speed by number of servers."""
    job = gang(world, spread=[[1.0, 0.4], [2.0, 0.5], [4.0, 1.0]])
    text = placement(world, job)

    assert "It loses 50 % on 2 servers" in text
    assert "Measured on attempts of such jobs. It is better kept together." in text
    assert "0.40 of its speed" in text


def test_verdict_follows_from_the_largest_tensor(world: World) -> None:
    """A model without a large tensor may be spread; one of a single tensor may not."""
    even = gang(world, skew=0.1)
    assert "It loses nothing on 2 servers" in placement(world, even)
    assert "From the share of its largest tensor. The scheduler may spread it." in placement(world, even)

    Profile.objects.update(skew=0.9)
    assert "better kept together" in placement(world, even)


def test_verdict_says_what_is_not_known_and_is_left_out_for_one_device(world: World) -> None:
    """Nothing measured is said so; one device is always on one server."""
    assert "What several servers cost it is not known" in placement(world, gang(world))

    alone = placement(world, job_in(world, JobState.RUNNING))
    assert "servers cost it" not in alone
    assert "on 2 servers" not in alone


def test_job_whose_loss_has_settled_is_told_of_with_what_is_left(world: World) -> None:
    """A share of its steps and their cost, and a button for whoever may stop it."""
    job = job_in(world, JobState.RUNNING, step=150, total_steps=600, steps_per_s=0.5)
    samples_of(job, 200, **SETTLED)
    path = f"/jobs/J-{job.number}"
    mine, seen = world.browser("member").open(path), world.browser("viewer").open(path)

    assert "It has probably trained enough" in mine.text
    assert "75 % of its steps are left, about 15 min of CPU slot time" in mine.text
    assert mine.having(href=f"{path}/cancel", data_dialog="cancel-dialog", **{"class": "btn"})
    assert "It has probably trained enough" in seen.text
    assert "Stop it" not in seen.text


@pytest.mark.parametrize("changed", [{"loss": None}, {}])
def test_job_that_still_learns_or_tells_no_loss_is_not(world: World, changed: dict[str, Any]) -> None:
    """No hint without a reason for it."""
    job = job_in(world, JobState.RUNNING, step=150, total_steps=600)
    samples_of(job, 200, **changed)

    assert "trained enough" not in world.browser("member").open(f"/jobs/J-{job.number}").text


def test_job_that_uses_nothing_is_told_of_on_its_page_and_in_the_list(world: World) -> None:
    """Since when, and what its queue does about it; the list finds all of them."""
    job, busy = job_in(world, JobState.RUNNING, num_gpus=2), job_in(world, JobState.RUNNING, name="busy")
    since = datetime.now(UTC) - timedelta(minutes=61)
    Job.objects.filter(pk=job.pk).update(idle_since=since)
    Queue.objects.filter(pk=world.vision.pk).update(idle_action="suspend")
    browser = world.browser("member")
    text = browser.open(f"/jobs/J-{job.number}").text
    listed = browser.open("/jobs", idle="true").text

    assert "It holds 2 CPU slots and has not used them for 1 h 1 min" in text
    assert "It is suspended at about" in text
    assert "Has not used its CPU slots for 1 h 1 min" in listed
    assert busy.name not in listed
    assert "Held, not used" in browser.open("/queues/vision").text


def test_job_that_was_suspended_for_it_says_so(world: World) -> None:
    """Its owner reads why, and how it goes on."""
    job = job_in(world, JobState.SUSPENDED)
    Job.objects.filter(pk=job.pk).update(idle_since=datetime.now(UTC) - timedelta(hours=2), wanted="suspend")
    browser = world.browser("member")

    assert "It was suspended because it held 1 CPU slot without using it" in browser.open(f"/jobs/J-{job.number}").text
    assert "Suspended: it held 1 CPU slot without using it" in browser.open("/jobs").text


def told_of_none(world: World, *, ran_s: float, **columns: Any) -> Job:
    """Return a running job that has told of no checkpoint."""
    job = job_in(world, JobState.RUNNING, **columns)
    Attempt.objects.filter(job=job).update(started_at=datetime.now(UTC) - timedelta(seconds=ran_s))
    return job


def test_job_that_tells_of_no_checkpoint_is_marked(world: World) -> None:
    """With what counts as lost and what it gets when it is stopped; not in its first minute, nor once it has told."""
    silent, young = told_of_none(world, ran_s=240.0), told_of_none(world, ran_s=20.0)
    told = told_of_none(world, ran_s=240.0, checkpoint_name="step-9", checkpoint_step=9)
    stopped = job_in(world, JobState.SUSPENDED)
    ran = attempt_make(stopped, server=world.server)
    begun, ended = (datetime.now(UTC) - timedelta(seconds=ago_s) for ago_s in (400, 100))
    Attempt.objects.filter(pk=ran.pk).update(state="ended", started_at=begun, ended_at=ended)
    browser = world.browser("member")
    text = browser.open(f"/jobs/J-{silent.number}").text
    title = "What it keeps when it is stopped is not known"

    assert title in text
    assert "4 min of work counts as lost when it is stopped. What it saves itself is not known." in text
    assert "Every process of it gets SIGTERM then, and has 30 s to save." in text
    assert title not in browser.open(f"/jobs/J-{young.number}").text
    assert "What it kept when it was stopped is not known" in browser.open(f"/jobs/J-{stopped.number}").text
    assert title not in browser.open(f"/jobs/J-{told.number}").text


def test_answers_to_suspend_and_cancel_say_what_is_kept(world: World) -> None:
    """On the page of one job, and for several in the list."""
    browser = world.browser("member")
    at = datetime.now(UTC)
    alone = told_of_none(world, ran_s=240.0)
    saved = told_of_none(world, ran_s=240.0, name="saved", checkpoint_name="c", checkpoint_step=280, checkpoint_at=at)
    Job.objects.filter(pk=saved.pk).update(checkpoint_attempt=saved.attempts.get(), step=280)
    saved.attempts.update(last_step=280)
    suspended = browser.send(f"/jobs/J-{alone.number}/suspend").text
    asked = browser.open(f"/jobs/J-{saved.number}/cancel").text
    cancelled = browser.send(f"/jobs/J-{saved.number}/cancel").text

    assert "is asked to checkpoint and stop. It has told of no checkpoint: 4 min of work counts as lost" in suspended
    assert "It does not start again. Step 280 is kept; no work is lost." in asked
    assert "is asked to stop. Step 280 is kept; no work is lost." in cancelled
