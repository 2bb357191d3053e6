"""The one writer of job states: legal moves only, no lost race, an event each, and bookkeeping that always agrees."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.core.model.lifecycle import TERMINAL, TRANSITIONS, WAITING, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Cluster, Event, Job
from scheduler.notify import use_bell
from scheduler.selectors.jobs.explain import round_of_wait
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.state import Wait, job_event, job_transition, job_waits_record
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, job_make, queue_make, user_make
from tests.support.suite.examples import tried

pytestmark = pytest.mark.django_db

WALK = st.lists(st.integers(0, 10), max_size=12)


def move(job: Job, to: JobState, *, seconds: float = 60.0) -> None:
    """Move a job some time after its submission."""
    job_transition(job=job, to=to, at=AT + timedelta(seconds=seconds), actor="scheduler", reason="test")


def folded(job: Job) -> JobState:
    """Return the state that follows from the events alone, checking each step against the table."""
    state: JobState | None = None
    for event in Event.objects.filter(job=job, kind="job_state").order_by("number"):
        assert event.old_state == (state or "")
        after = JobState(event.new_state)
        assert state is None or after in TRANSITIONS[state]
        state = after
    assert state is not None
    return state


@settings(parent=tried(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(walk=WALK)
@example([1, 5, 3])  # ends parked
def test_state_is_the_fold_of_its_events(walk: list[int]) -> None:
    """After any legal walk: state = fold of events, numbers without gaps, reason and end time agree with the state."""
    job = job_make()
    for index, choice in enumerate(walk):
        after = sorted(TRANSITIONS[JobState(job.state)])
        if not after:
            break
        move(job, after[choice % len(after)], seconds=60.0 * (index + 1))
        if choice % 3 == 0:
            job_event(job=job, kind="job_progress", at=AT, actor="agent gpu-01", reason="step")
    stored = Job.objects.get(pk=job.pk)
    numbers = list(Event.objects.filter(job=job).order_by("number").values_list("number", flat=True))

    assert stored.state == folded(job)
    assert numbers == list(range(1, stored.event_count + 1))
    assert (stored.wait_reason != "") == (JobState(stored.state) in WAITING)
    assert (stored.ended_at is not None) == (JobState(stored.state) in TERMINAL)
    assert stored.queueing_s >= 0


@pytest.mark.parametrize("before", list(JobState))
def test_moves_outside_the_table_are_refused(before: JobState) -> None:
    """What the table does not allow raises and writes nothing."""
    job = job_make(state=before)
    events = job.event_count
    for to in set(JobState) - TRANSITIONS[before]:
        with pytest.raises(InvalidTransition, match=f"job {job.number}"):
            move(job, to)
    stored = Job.objects.get(pk=job.pk)

    assert (stored.state, stored.event_count, stored.events.count()) == (before, events, events)


def test_second_of_two_writers_is_refused() -> None:
    """Two who read the same job: the first moves it, the second is told and nothing of it is written."""
    job = job_make()
    first, second = Job.objects.get(pk=job.pk), Job.objects.get(pk=job.pk)
    move(first, JobState.LAUNCHING)
    with pytest.raises(JobChanged):
        move(second, JobState.CANCELLED)
    stored = Job.objects.get(pk=job.pk)

    assert (stored.state, stored.event_count) == (JobState.LAUNCHING, 2)
    assert second.state == JobState.QUEUED


def test_job_that_left_and_came_back_has_changed() -> None:
    """The same state again is not the same job: a plan made before the detour does not move it."""
    job = job_make()
    stale = Job.objects.get(pk=job.pk)
    move(job, JobState.LAUNCHING)
    move(job, JobState.QUEUED)
    with pytest.raises(JobChanged):
        move(stale, JobState.LAUNCHING)

    assert Job.objects.get(pk=job.pk).event_count == 3


def test_event_tells_who_when_and_why() -> None:
    """A move is one event with both states, the actor, the time, the reason and its numbers."""
    job = job_make()
    at = AT + timedelta(seconds=5)
    job_transition(
        job=job, to=JobState.LAUNCHING, at=at, actor="scheduler", reason="granted", data={"round": 7, "gpus": 1}
    )
    event = Event.objects.get(job=job, number=2)

    assert (event.kind, event.old_state, event.new_state) == ("job_state", "queued", "launching")
    assert (event.at, event.actor, event.reason, event.data) == (at, "scheduler", "granted", {"round": 7, "gpus": 1})
    assert event.queue_id == job.queue_id


def test_waiting_time_is_added_when_the_job_leaves_its_queue() -> None:
    """Each wait is counted once, when it ends; a wall clock that steps back never makes it negative."""
    job = job_make()
    move(job, JobState.LAUNCHING, seconds=90)
    move(job, JobState.QUEUED, seconds=100)
    move(job, JobState.LAUNCHING, seconds=130)
    move(job, JobState.QUEUED, seconds=200)
    move(job, JobState.LAUNCHING, seconds=150)

    assert Job.objects.get(pk=job.pk).queueing_s == 120.0


def test_columns_given_with_the_move_win() -> None:
    """The engine may say more than the bookkeeping, such as a back-off instead of a new wait."""
    job = job_make(state=JobState.RUNNING)
    retry_after = AT + timedelta(minutes=10)
    job_transition(
        job=job,
        to=JobState.QUEUED,
        at=AT,
        actor="scheduler",
        reason="exit_code",
        changes={"wait_reason": WaitReason.BACKOFF, "retry_after": retry_after, "failures": 1},
    )
    stored = Job.objects.get(pk=job.pk)

    assert (stored.wait_reason, stored.retry_after, stored.failures) == (WaitReason.BACKOFF, retry_after, 1)
    assert (job.wait_reason, job.retry_after, job.failures) == (WaitReason.BACKOFF, retry_after, 1)


def test_back_off_ends_with_the_wait() -> None:
    """A job that runs has no time before which it may not run."""
    job = job_make(retry_after=AT)
    move(job, JobState.LAUNCHING)

    assert Job.objects.get(pk=job.pk).retry_after is None


def test_waits_are_written_and_a_new_reason_is_an_event() -> None:
    """A round writes reason, numbers, position; only a change of the reason itself is news."""
    job = job_make()
    for number, held in ((1, 6), (2, 7)):
        wait = Wait(job_id=job.pk, reason=WaitReason.QUEUE_QUOTA, evidence={"queue_held_gpus": held}, position=number)
        changed = job_waits_record(waits=[wait], round_number=number, at=AT + timedelta(seconds=number))

        assert changed == [job.pk]
    stored = Job.objects.get(pk=job.pk)

    assert (stored.wait_reason, stored.wait_position, stored.wait_round) == ("queue_quota", 2, 2)
    assert stored.wait_evidence == {"queue_held_gpus": 7}
    assert stored.wait_since == AT + timedelta(seconds=1)
    assert [e.reason for e in Event.objects.filter(job=job, kind="job_wait")] == ["queue_quota"]
    assert stored.event_count == 2


def test_flickering_reasons_are_told_once_a_minute() -> None:
    """The page always shows the reason of the last round; the history has one entry a minute at most, and the last."""
    job = job_make()
    two = [WaitReason.NO_CAPACITY, WaitReason.FRAGMENTATION]
    for seconds in range(0, 140, 10):
        reason = two[seconds // 10 % 2] if seconds < 90 else WaitReason.NO_SERVER
        wait = Wait(job_id=job.pk, reason=reason, evidence={}, position=1)
        job_waits_record(waits=[wait], round_number=1, at=AT + timedelta(seconds=seconds))

        assert Job.objects.get(pk=job.pk).wait_reason == reason
    told = Event.objects.filter(job=job, kind="job_wait").order_by("number")

    assert [((event.at - AT).total_seconds(), event.reason) for event in told] == [
        (0.0, "no_capacity"),
        (70.0, "fragmentation"),
        (130.0, "no_server"),
    ]


def test_same_wait_again_writes_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """A round without a new reason is no event and no write; the round that said so last is the newest one."""
    job = job_make()
    wait = Wait(job_id=job.pk, reason=WaitReason.NO_CAPACITY, evidence={"free_gpus": 0}, position=1)
    job_waits_record(waits=[wait], round_number=1, at=AT)

    cluster_row()
    Cluster.objects.update(round_number=2)
    with django_assert_num_queries(1):
        assert job_waits_record(waits=[wait], round_number=2, at=AT) == []

    assert round_of_wait(Job.objects.get(pk=job.pk)) == 2


def test_waits_of_jobs_that_run_meanwhile_are_left_out() -> None:
    """A job that was launched or cancelled since the snapshot keeps its empty reason."""
    job = job_make(state=JobState.RUNNING)
    wait = Wait(job_id=job.pk, reason=WaitReason.NO_CAPACITY, evidence={}, position=1)

    assert job_waits_record(waits=[wait], round_number=1, at=AT) == []
    assert Job.objects.get(pk=job.pk).wait_reason == ""


def test_waits_of_many_jobs_cost_few_queries(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """A round writes the reasons of all waiting jobs in batches, not one by one."""
    queue, owner = queue_make(), user_make()
    jobs = [job_make(queue, owner=owner) for _ in range(30)]
    waits = [
        Wait(job_id=job.pk, reason=WaitReason.NO_CAPACITY, evidence={"free_gpus": 0}, position=n)
        for n, job in enumerate(jobs, start=1)
    ]
    with django_assert_max_num_queries(10):
        job_waits_record(waits=waits, round_number=1, at=AT)


def test_move_touches_the_live_pages_after_commit(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    """Whoever watches the job or its queue is told once the move is committed."""
    job, bell = job_make(), MemoryBell()
    use_bell(bell)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            move(job, JobState.LAUNCHING)
    finally:
        use_bell(None)

    assert bell.touched >= {f"job.{job.pk}", f"queue.{job.queue_id}"}
