"""Arrays of jobs: never more at work than their limit lets, and each job is told which one it is."""

from typing import Any

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.model.lifecycle import HOLDING, TERMINAL, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Attempt, Event, Job
from scheduler.selectors.jobs.listing import job_explain
from scheduler.services.jobs.cancel_suspend_resume import job_resume, job_suspend
from scheduler.services.jobs.check import jobs_checked
from scheduler.services.jobs.submit import jobs_store
from tests.support.live.world import World


@pytest.fixture
def six(world: World) -> World:
    """A cluster with one server of six slots."""
    world.server("alpha", slots=6)
    return world


def members(world: World, first: Job) -> list[Job]:
    """Return the jobs of an array in the order of their indexes."""
    return list(Job.objects.filter(array_number=first.number).order_by("array_index"))


def at_work(world: World, first: Job) -> list[int]:
    """Return the indexes of those that hold GPUs."""
    return [job.array_index or 0 for job in members(world, first) if JobState(job.state) in HOLDING]


def end(world: World, job: Job) -> None:
    """Let the command of a job end well."""
    world.agent_of(job).end(job.pk, cause="completed", exit_code=0)


def test_an_array_is_many_jobs_of_one_spec(six: World) -> None:
    """Consecutive numbers, the indexes that were asked for, one spec, and variables that tell them apart."""
    first = six.submit(array="1,3,5-9:2%2", name="sweep")

    jobs = members(six, first)
    assert [job.array_index for job in jobs] == [1, 3, 5, 7, 9]
    assert [job.number for job in jobs] == list(range(first.number, first.number + 5))
    assert [job.name for job in jobs] == ["sweep-1", "sweep-3", "sweep-5", "sweep-7", "sweep-9"]
    assert {job.spec["array"] for job in jobs} == {"1,3,5-9:2%2"}
    assert Event.objects.filter(job__in=jobs, reason="submit").count() == 5

    six.until_state(jobs[1], JobState.RUNNING)
    env = six.agent_of(jobs[1]).attempt_of(jobs[1].pk).wanted.env
    assert env["CLUSTERWEB_ARRAY_INDEX"] == "3"
    assert env["CLUSTERWEB_ARRAY"] == f"A-{first.number}"
    assert (env["CLUSTERWEB_ARRAY_COUNT"], env["CLUSTERWEB_ARRAY_MAX"]) == ("5", "9")


def test_never_more_are_at_work_than_the_limit(six: World) -> None:
    """Six slots are free and two are used, from the first job to the last; the others say why they wait."""
    first = six.submit(array="0-4%2")
    six.until_state(first, JobState.RUNNING)
    six.pass_time(3)

    waiting = members(six, first)[2]
    assert at_work(six, first) == [0, 1]
    assert waiting.wait_reason == WaitReason.ARRAY_LIMIT
    assert (waiting.wait_evidence["array_most"], waiting.wait_evidence["array_at_work"]) == (2, 2)
    assert waiting.wait_position is None
    explained = job_explain(six.admin, waiting, six.clock.now())
    assert explained["sentence"] == "Its array may have 2 jobs at work at once, and 2 are or come first."

    for job in members(six, first):
        six.until_state(job, JobState.RUNNING)
        assert len(at_work(six, first)) <= 2
        end(six, job)
        for _ in range(4):
            six.pass_time(1)
            assert len(at_work(six, first)) <= 2
    assert {job.state for job in members(six, first)} == {JobState.COMPLETED}


def test_one_that_stops_or_pauses_keeps_its_place(six: World) -> None:
    """A job that is being stopped still holds GPUs; one that failed comes back. Nothing takes their place meanwhile."""
    first = six.submit(array="0-2%1", retry={"max": 4})
    six.until_state(first, JobState.RUNNING)
    six.agent_of(first).end(first.pk, cause="exit_code", exit_code=1)
    six.until_state(first, JobState.QUEUED)
    six.pass_time(2)
    assert at_work(six, first) == []
    assert members(six, first)[1].wait_reason == WaitReason.ARRAY_LIMIT

    six.until_state(first, JobState.RUNNING)
    six.agent_of(first).stops_at_once = False
    six.do(lambda: job_suspend(actor=six.admin, job=Job.objects.get(pk=first.pk), at=six.clock.now()))
    six.until_state(first, JobState.SUSPENDING)
    six.pass_time(3)
    assert at_work(six, first) == [0]

    six.agent_of(first).end(first.pk, cause="suspended")
    six.until_state(members(six, first)[1], JobState.RUNNING)
    six.do(lambda: job_resume(actor=six.admin, job=Job.objects.get(pk=first.pk), at=six.clock.now()))
    six.pass_time(3)
    assert at_work(six, first) == [1], "one that a user suspended waits for a place when it is resumed"
    end(six, members(six, first)[1])
    six.until_state(first, JobState.RUNNING)


def test_the_round_says_what_held_it(six: World) -> None:
    """A what-if from now, a shadow and the row of the round see the same."""
    first = six.submit(array="0-3%1")
    six.until_state(first, JobState.RUNNING)

    round_ = six.round()

    assert round_ is not None
    assert Attempt.objects.count() == 1
    decided: dict[str, Any] = round_.decisions
    if "same_as" not in decided:
        assert decided["waiting_by_reason"] == {"array_limit": 3}


def test_more_than_a_user_may_queue_is_refused(six: World) -> None:
    """Each job of an array counts, also in a bulk."""
    six.settings(user_most_queued=10)
    with pytest.raises(SpecInvalid, match="at most 10 instead of 11"):
        six.submit(array="0-10")

    spec = {"apiVersion": "v1", "name": "a", "queue": "vision", "command": ["true"]}
    with pytest.raises(SpecInvalid, match="at most 10 instead of 12"):
        jobs_checked(actor=six.admin, data=[spec | {"array": "0-5"}, spec | {"array": "0-5"}])

    [single, array] = six.do(
        lambda: jobs_store(
            jobs_checked(actor=six.admin, data=[spec, spec | {"array": "0-5"}]), at=six.clock.now(), ids=six.ports.ids
        )
    )
    assert (single.array_number, array.array_number, array.array_index) == (None, array.number, 0)
    assert Job.objects.exclude(state__in=sorted(TERMINAL)).count() == 7
