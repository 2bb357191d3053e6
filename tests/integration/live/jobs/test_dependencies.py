"""Jobs that wait for others: never a start before the others have ended as asked, and no wait without hope."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.depends_on import Dependency, Verdict
from scheduler.models import Job, Queue
from scheduler.selectors.jobs.listing import job_detail, job_explain, job_row
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.check import job_check_dry
from scheduler.services.jobs.dependencies import dependencies_apply
from scheduler.services.jobs.restore import job_restore
from scheduler.whatif.one_job.preview import job_preview
from scheduler.whatif.scenarios.past_base import past_base
from tests.support.live.world import World
from tests.support.rows.factories import member_make


@pytest.fixture
def four(world: World) -> World:
    """A cluster with one server of four slots."""
    world.server("alpha", slots=4)
    return world


def fresh(job: Job) -> Job:
    """Return the job as it is now."""
    return Job.objects.get(pk=job.pk)


def end(world: World, job: Job, *, cause: str = "completed") -> None:
    """Let the command of a job end."""
    world.until_state(job, JobState.RUNNING)
    code = 0 if cause == "completed" else 1
    world.agent_of(job).end(job.pk, cause=cause, exit_code=code)


def cancel(world: World, job: Job) -> None:
    """Cancel a job as its owner."""
    world.do(lambda: job_cancel(actor=world.admin, job=fresh(job), at=world.clock.now()))


def test_a_job_starts_after_the_one_it_names(four: World) -> None:
    """It waits with the name and state of the other while GPUs are free, and starts once that has completed."""
    first = four.submit(name="prepare")
    second = four.submit(depends_on=[{f"J-{first.number}": "completed"}])
    four.until_state(first, JobState.RUNNING)
    four.pass_time(3)

    waiting = fresh(second)
    assert (waiting.state, waiting.wait_reason, waiting.wait_position) == ("queued", WaitReason.DEPENDENCY, None)
    sentence = f"It waits until J-{first.number} prepare has completed; that is running now."
    assert job_explain(four.admin, waiting, four.clock.now())["sentence"] == sentence
    assert job_row(waiting)["wait_sentence"] == f"It waits until J-{first.number} prepare has completed."

    end(four, first)
    four.until_state(second, JobState.RUNNING)
    started, ended = fresh(second).first_started_at, fresh(first).ended_at
    assert started is not None
    assert ended is not None
    assert started >= ended
    assert fresh(second).waits_for == ""


def test_a_wait_in_vain_ends_the_job_and_those_behind_it(four: World) -> None:
    """The first fails: the second and what waits for that are cancelled with the cause; what waits for an end runs."""
    first = four.submit(retry={"max": 0})
    after = [{f"J-{first.number}": "completed"}]
    second = four.submit(depends_on=after)
    third = four.submit(depends_on=[f"J-{second.number}"])
    cleanup = four.submit(depends_on=[{f"J-{first.number}": "failed", f"J-{third.number}": "ended"}])

    end(four, first, cause="exit_code")
    four.until_state(cleanup, JobState.RUNNING)

    for job, why in (
        (second, f"it was to start when J-{first.number} completes, and it failed."),
        (third, f"it was to start when J-{second.number} completes, and it was cancelled."),
    ):
        row = fresh(job)
        assert (row.state, row.end_cause) == (JobState.CANCELLED, EndCause.DEPENDENCY)
        assert row.end_detail == f"Never started: {why}"
        assert row.first_started_at is None


def test_what_can_never_be_is_refused_at_the_door(four: World) -> None:
    """A job that failed never completes, one that is not there or not visible is named, all entries at once."""
    first = four.submit()
    cancel(four, first)
    with pytest.raises(SpecInvalid) as refused:
        four.submit(depends_on=[f"J-{first.number}", "J-999", {"A-1": "ended"}])

    assert [(error.pointer, error.code) for error in refused.value.errors] == [
        ("/depends_on/0", "never"),
        ("/depends_on/1", "unknown"),
        ("/depends_on/2", "unknown"),
    ]
    assert "completes, and it was cancelled" in refused.value.errors[0].detail

    four.queue("other")
    member = member_make(Queue.objects.get(name="other"))
    with pytest.raises(SpecInvalid, match=f"There is no job J-{first.number} that you may see"):
        four.submit(queue="other", actor=member, depends_on=[{f"J-{first.number}": "ended"}])


def test_a_reader_learns_nothing_of_a_job_of_another_queue(four: World) -> None:
    """The admin lets a job wait for one of a hidden queue: a member reads its number alone."""
    four.queue("hidden")
    first = four.submit(queue="hidden", name="classified")
    second = four.submit(depends_on=[f"J-{first.number}"])
    four.until_state(first, JobState.RUNNING)
    four.pass_time(2)

    member = member_make(Queue.objects.get(name="vision"))
    told = job_detail(member, fresh(second))
    assert told["wait_sentence"] == f"It waits until J-{first.number} has completed."
    assert "classified" not in str(told)
    assert "classified" in job_detail(four.admin, fresh(second))["wait_sentence"]


def test_an_array_is_waited_for_as_a_whole(four: World) -> None:
    """One of two has ended: the job waits on; with the other it starts, and its array counts as one dependency."""
    array = four.submit(array="0-1")
    job = four.submit(depends_on=[f"A-{array.number}"], array="3-4%1")
    one, two = Job.objects.filter(array_number=array.number).order_by("array_index")
    end(four, one)
    four.until_state(one, JobState.COMPLETED)
    four.pass_time(2)
    assert fresh(job).wait_evidence["array_jobs"] == 2
    assert job_detail(four.admin, fresh(job))["wait_sentence"] == (
        f"It waits until A-{array.number} has completed; 1 of its 2 jobs have ended."
    )

    end(four, two)
    four.until_state(job, JobState.RUNNING)
    four.pass_time(2)
    [later] = Job.objects.filter(array_number=job.number, array_index=4)
    assert later.wait_reason == WaitReason.ARRAY_LIMIT


def test_a_cancel_by_a_slip_of_the_hand_is_taken_back_for_both(four: World) -> None:
    """The first is cancelled and comes back: so may the one that was cancelled for it, and it waits again."""
    for _ in range(4):
        four.submit()
    four.pass_time(3)
    first = four.submit()
    second = four.submit(depends_on=[f"J-{first.number}"])
    cancel(four, first)
    four.until_state(second, JobState.CANCELLED)

    for job in (first, second):
        four.do(lambda job=job: job_restore(actor=four.admin, job=fresh(job), at=four.clock.now()))  # type: ignore[misc]
    four.pass_time(2)

    assert (fresh(second).state, fresh(second).wait_reason) == (JobState.QUEUED, WaitReason.DEPENDENCY)


def test_a_preview_and_a_past_window_know_of_it(four: World) -> None:
    """A dry run says what the job would wait for; a replay of the past gets the order and the limits."""
    first = four.submit(name="prepare")
    array = four.submit(array="0-2%2", depends_on=[f"J-{first.number}"])
    four.until_state(first, JobState.RUNNING)
    data = {
        "apiVersion": "v1",
        "name": "late",
        "queue": "vision",
        "command": ["true"],
        "depends_on": [f"J-{first.number}"],
    }
    checked, _ = job_check_dry(actor=four.admin, data=data)

    preview = job_preview(checked=checked, too_large=[], at=four.clock.now())

    assert (preview["starts"], preview["reason"]) == ("later", "dependency")
    assert preview["sentence"] == f"It waits until J-{first.number} prepare has completed; that is running now."

    end(four, first)
    for job in Job.objects.filter(array_number=array.number).order_by("array_index"):
        end(four, job)
        four.until_state(job, JobState.COMPLETED)
    at = four.clock.now()
    past = past_base(since=at - timedelta(hours=1), until=at, at=at)
    jobs = past.content["source"]["jobs"]
    assert [(job["after"], job["array"], job["array_most"]) for job in jobs] == [
        ([], 0, 0),
        *[([first.number], array.number, 2)] * 3,
    ]


def test_what_many_jobs_wait_for_is_looked_at_once(four: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round does: of a thousand jobs that wait for a thousand that was a million looks, now it is one."""
    first = four.submit(array="0-9%1")
    for _ in range(2):
        four.submit(array="0-9", depends_on=[{f"A-{first.array_number}": "completed"}])
    looks: list[str] = []
    verdict = Dependency.verdict

    def counted(one: Dependency, states: Collection[JobState]) -> Verdict:
        looks.append(one.subject)
        return verdict(one, states)

    monkeypatch.setattr(Dependency, "verdict", counted)

    dependencies_apply(at=four.clock.now())

    assert looks == [f"A-{first.array_number}"]
