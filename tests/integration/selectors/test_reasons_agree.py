"""Of each reason to wait the sentence, the checks, the start estimate and the rest of the page say the same."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.wait_checks import failing_check
from scheduler.models import Cluster, Event, Job, Queue, StartEstimate
from scheduler.selectors.jobs.estimates import estimate_basis, estimates_of
from scheduler.selectors.jobs.explain import job_explain
from scheduler.selectors.jobs.listing import job_detail
from scheduler.selectors.jobs.reason_rows import EstimateError, Explanation
from tests.support.rows.factories import AT, job_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db

NEEDS: Evidence = {"needed_gpus": 2}
IN_QUEUE = {**NEEDS, "queue_held_gpus": 4, "queue_quota_gpus": 4, "queue_max_gpus": 4}
# What rounds say of jobs that an end of a running job may start, and how much of that is the name of the check.
PASSING: dict[WaitReason, tuple[Evidence, str]] = {
    WaitReason.NEW: ({}, "Rounds"),
    WaitReason.QUEUE_QUOTA: ({**IN_QUEUE, "may_borrow": 1, "other_queue_id": 0}, "Quota of vision"),
    WaitReason.QUEUE_MAX: (IN_QUEUE, "Limit of vision"),
    WaitReason.USER_LIMIT: ({**NEEDS, "user_held_gpus": 3, "user_max_gpus": 4}, "Limit of one user in vision"),
    WaitReason.ARRAY_LIMIT: ({"array_most": 1, "array_at_work": 1}, "Limit of its array"),
    WaitReason.DEPENDENCY: ({"first_number": 5, "jobs": 1}, "Jobs that it waits for"),
    WaitReason.NO_CAPACITY: ({**NEEDS, "free_gpus": 1}, "GPUs in the cluster"),
    WaitReason.BEHIND_POLICY_ORDER: ({**NEEDS, "free_gpus": 1}, "GPUs in the cluster"),
    WaitReason.FRAGMENTATION: ({**NEEDS, "largest_free_gpus": 1, "max_servers": 1}, "GPUs on one server"),
    WaitReason.CPU_OR_MEMORY: (NEEDS, "CPU and memory"),
    WaitReason.ISOLATION: ({**NEEDS, "barred_servers": 1, "servers": 3}, "Isolation of servers"),
    WaitReason.PREPARING_ENVIRONMENT: ({**NEEDS, "ready_servers": 1, "servers": 3}, "Python environment"),
    WaitReason.RECONFIGURING: ({"granted_gpus": 2, "missing_gpus": 2}, "GPUs that it was granted"),
    WaitReason.BACKOFF: ({"cause": "exit_code"}, "Pause after a failure"),
}
# What rounds say where something has to change first.
STUCK: dict[WaitReason, tuple[Evidence, str]] = {
    WaitReason.QUEUE_QUOTA: ({**IN_QUEUE, "queue_quota_gpus": 1, "may_borrow": 0}, "Quota of vision"),
    WaitReason.QUEUE_MAX: ({**IN_QUEUE, "queue_max_gpus": 1}, "Limit of vision"),
    WaitReason.USER_LIMIT: ({**NEEDS, "user_held_gpus": 0, "user_max_gpus": 1}, "Limit of one user in vision"),
    WaitReason.NEVER_FEASIBLE: ({**NEEDS, "largest_possible_gpus": 1}, "Size of the servers"),
    WaitReason.ISOLATION: ({**NEEDS, "barred_servers": 3, "servers": 3}, "Isolation of servers"),
    WaitReason.NO_SERVER: ({**NEEDS, "servers": 0}, "Servers"),
    WaitReason.POLICY_PAUSED: ({}, "Scheduler"),
}
# Told by the reader alone, or of jobs that are not queued.
ELSEWHERE = {WaitReason.HELD, WaitReason.SCHEDULER_STALE}


def waiting(reason: WaitReason, evidence: Evidence, **columns: Any) -> Job:
    """Return a job that waits for a reason while all that can be measured is there for it, with a known estimate."""
    vision = Queue.objects.filter(name="vision").first() or queue_make("vision", quota_gpus=8)
    server_make(gpus=8)
    found: dict[str, Any] = {"queue_id": vision.pk, **evidence}
    job = job_make(vision, num_gpus=2, wait_reason=reason, wait_evidence=found, **columns)
    starts = {name: AT + timedelta(hours=1) for name in ("p50_at", "simulated_p90_at", "p90_at")}
    StartEstimate.objects.create(job=job, round_number=1, made_at=AT, futures=24, starts_s=[3_600.0] * 24, **starts)
    return job


def told(job: Job) -> Explanation:
    """Return what an admin reads of a job."""
    return job_explain(user_make(admin=True), found_job(job), AT)


def found_job(job: Job) -> Job:
    """Return a job as pages read it."""
    return Job.objects.select_related("queue", "owner").get(pk=job.pk)


def failing(found: Explanation) -> list[str]:
    """Return the names of the checks that are not passed."""
    return [check["name"] for check in found["checks"] if not check["ok"]]


def test_each_reason_stands_here() -> None:
    """A new one has to say which check it fails, and whether something has to change first."""
    assert {*PASSING, *STUCK} | ELSEWHERE == set(WaitReason)


@pytest.mark.parametrize("reason", PASSING)
def test_what_ends_of_jobs_may_start_has_its_check_and_its_time(reason: WaitReason) -> None:
    """The check of the reason is the one that is not passed; no sentence says that it cannot start."""
    evidence, check = PASSING[reason]
    found = told(waiting(reason, evidence))

    assert found["reason"] == reason
    assert failing(found) == [check]
    assert "cannot start" not in found["sentence"]
    assert found["needed_change"] == ""
    assert found["estimate"]
    assert found["estimate"]["known"]


@pytest.mark.parametrize("reason", STUCK)
def test_what_needs_a_change_says_so_everywhere(reason: WaitReason) -> None:
    """An estimate of before is no longer told, on the page of the job or in lists."""
    evidence, check = STUCK[reason]
    job = waiting(reason, evidence)
    found, listed = told(job), estimates_of([job])[job.pk]

    assert failing(found) == [check]
    change = found["needed_change"]
    assert change
    assert f"It cannot start until {change}." in found["sentence"] or reason in (
        WaitReason.NO_SERVER,
        WaitReason.POLICY_PAUSED,
    )
    assert found["estimate"]
    assert not found["estimate"]["known"]
    assert (found["estimate"]["p50_at"], found["estimate"]["p90_at"], listed["p50_at"]) == (None, None, None)
    assert found["estimate"]["sentence"] == f"Not known: it cannot start until {change}."
    assert found["estimate_basis"] == ""


def test_a_scheduler_that_stands_still_tells_no_start() -> None:
    """Nor does one that was paused after the last round."""
    job = waiting(WaitReason.NO_CAPACITY, {**NEEDS, "free_gpus": 1})
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=AT - timedelta(hours=1))
    stale = told(job)
    Cluster.objects.filter(pk=1).update(paused=True)
    paused = told(job)

    for found, reason in ((stale, WaitReason.SCHEDULER_STALE), (paused, WaitReason.POLICY_PAUSED)):
        assert found["reason"] == reason
        assert "Scheduler" in failing(found)
        assert found["estimate"]
        assert not found["estimate"]["known"]


def test_a_suspended_job_needs_to_be_resumed() -> None:
    """No checks and no time."""
    found = told(job_make(state=JobState.SUSPENDED))

    assert (found["reason"], found["needed_change"]) == (WaitReason.HELD, "it is resumed")
    assert (found["checks"], found["estimate"], found["waits_since"]) == ([], None, None)


def test_a_job_is_told_who_suspended_it() -> None:
    """A lead may do it, too; the newest one counts."""
    job = job_make(state=JobState.SUSPENDED)
    unknown = told(job)
    for number, actor in enumerate(("mia", "lea"), 100):
        Event.objects.create(
            kind="job_state", reason="suspend", job=job, number=number, at=AT, actor=actor, request_id="r"
        )

    assert unknown["sentence"].startswith("Its owner suspended it.")
    assert told(job)["sentence"].startswith("lea suspended it.")


def test_a_job_that_waits_for_one_that_cannot_end_says_so() -> None:
    """It is suspended, or cannot start itself, or waits for such a job; one that only waits its turn may end."""
    vision = queue_make("vision", quota_gpus=8)
    first = job_make(vision)

    def change(**columns: Any) -> str:
        Job.objects.filter(pk=first.pk).update(
            **{"wait_reason": WaitReason.NO_CAPACITY, "wait_evidence": {}, **columns}
        )
        return told(last)["needed_change"]

    def after(other: Job) -> Job:
        evidence: Evidence = {"job": f"J-{other.number}", "until": "completed", "jobs": 1}
        return waiting(WaitReason.DEPENDENCY, evidence, waits_for=f"J-{other.number}:completed")

    last = after(after(first))

    assert change() == ""
    assert change(state=JobState.SUSPENDED, wait_reason="") == f"J-{first.number} is resumed"
    assert change(state=JobState.QUEUED, wait_reason=WaitReason.NEVER_FEASIBLE) == f"J-{first.number} can start"
    assert not told(last)["estimate"]["known"]  # type: ignore[index]  # it waits


def test_a_reader_does_not_learn_that_a_hidden_job_is_suspended() -> None:
    """Its number is told with the reason; how it stands is not."""
    hidden = job_make(queue_make("hidden"), state=JobState.SUSPENDED)
    evidence: Evidence = {"job": f"J-{hidden.number}", "until": "completed", "jobs": 1, "job_queue_id": hidden.queue_id}
    job = waiting(WaitReason.DEPENDENCY, evidence, waits_for=f"J-{hidden.number}:completed")

    found = job_explain(job.owner, Job.objects.select_related("queue").get(pk=job.pk), AT)

    assert told(job)["needed_change"]
    assert (found["needed_change"], [key for key in found["evidence"] if key.startswith("stuck")]) == ("", [])


def test_a_long_chain_of_jobs_costs_a_page_few_queries() -> None:
    """It may be longer than Python's stack; in a net each job is looked at once, however many paths lead to it."""
    vision = queue_make("vision", quota_gpus=8)
    owner = user_make()
    columns = {"wait_reason": WaitReason.DEPENDENCY, "wait_evidence": {"jobs": 2, "until": "completed"}}
    made = [job_make(vision, owner=owner) for _ in range(60)]
    for at, job in enumerate(made[2:]):
        waits_for = " ".join(f"J-{other.number}:completed" for other in made[max(0, at - 1) : at + 2])
        Job.objects.filter(pk=job.pk).update(**columns, waits_for=waits_for)
    with CaptureQueriesContext(connection) as queries:
        found = told(made[-1])

    assert found["needed_change"] == ""
    assert len(queries) < 60


def test_needed_changes_stand_without_numbers() -> None:
    """A reason of an older round may lack what is asked for here."""
    assert all("None" not in needed_change(reason, {}) for reason in WaitReason)


def test_an_environment_that_is_built_is_not_said_to_take_a_week() -> None:
    """Futures do not simulate builds, so that they start it in none tells nothing."""
    job = waiting(WaitReason.PREPARING_ENVIRONMENT, {"ready_servers": 0, "servers": 2})
    StartEstimate.objects.update(reason="not_in_futures", p50_at=None)
    estimate = told(job)["estimate"]

    assert estimate
    assert (estimate["known"], estimate["reason"]) == (False, "preparing")


def test_it_waits_since_it_was_stopped_and_for_this_reason_since_that_began() -> None:
    """The first is the submission where it has not run."""
    job = waiting(WaitReason.NO_CAPACITY, NEEDS, wait_since=AT + timedelta(minutes=40))
    found = told(job)

    assert (found["waits_since"], found["since"]) == ("2026-03-07T14:32:00Z", "2026-03-07T15:12:00Z")


@pytest.mark.parametrize(
    ("ended", "starts", "said"),
    [
        (
            0,
            0,
            "No job has started after such an estimate in the last 7 days, so how far off it is cannot be told. No",
        ),
        (
            5,
            1,
            "1 job started after such an estimate in the last 7 days: too few to tell how far off it is. Only 5 jobs",
        ),
        (
            30,
            10,
            "Such estimates were 12 s off in the median of the last 10 jobs",
        ),
    ],
)
def test_the_error_of_an_estimate_is_told_where_enough_jobs_ended(ended: int, starts: int, said: str) -> None:
    """Where few did, that is said instead of an error."""
    job = waiting(WaitReason.NO_CAPACITY, NEEDS)
    other, columns = job_make(), {"wait_reason": "", "wait_since": None, "ended_at": AT}
    for _ in range(ended):
        other = job_make(job.queue, owner=job.owner)
        Job.objects.filter(pk=other.pk).update(state=JobState.COMPLETED, executed_s=60.0, **columns)
    for _ in range(starts):
        row_of = {"first_p50_at": AT, "first_simulated_p90_at": AT, "first_p90_at": AT, "first_made_at": AT}
        StartEstimate.objects.create(
            job=other, round_number=1, made_at=AT, closed_at=AT, started_at=AT, error_s=12.0, **row_of
        )
    basis = told(job)["estimate_basis"]

    assert basis.startswith(said)
    assert ("too few" in basis) == (0 < ended < 30)
    assert ("12 s" in basis) == (starts == 10)


@pytest.mark.parametrize(
    ("covered", "said"),
    [
        (0.0, "; 0 % started by the time given for 9 in 10."),
        (0.9, "; 90 % started"),
        (None, "median of the last 40 jobs."),
    ],
)
def test_the_worst_coverage_is_told_and_no_number_of_starts_is_made_up(covered: float | None, said: str) -> None:
    """The share is of the starts that had such a time, which may be fewer than those with an error."""
    error: EstimateError = {
        "starts": 40,
        "median_error_s": 60.0,
        "ratios": 0,
        "covered_frac": covered,
        "covered_simulated_frac": None,
        "untold_frac": None,
    }

    assert said in estimate_basis(error).replace("\u00a0", " ")


@pytest.mark.parametrize(("ahead", "says"), [(1, "1 goes first, 2 free"), (3, "3 go first, 2 free")])
def test_the_check_of_the_order_counts_jobs_as_one_says_it(ahead: int, says: str) -> None:
    """One job goes, several go."""
    evidence: Evidence = {"ahead_jobs": ahead, "free_gpus": 2, "needed_gpus": 1}

    assert failing_check(WaitReason.BEHIND_POLICY_ORDER, evidence) == ("Jobs ahead", says)


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_no_check_of_free_gpus_is_passed_beside_a_sentence_that_says_too_few_are_free(ahead: int) -> None:
    """Also where some came free since the round: the check tells the number of the sentence."""
    job = waiting(WaitReason.BEHIND_POLICY_ORDER, {**NEEDS, "free_gpus": 0}, wait_position=4)
    for at in range(ahead):
        Job.objects.filter(pk=job_make(job.queue).pk).update(wait_position=at + 1)
    found = told(job)
    [check] = [check for check in found["checks"] if check["name"] == "GPUs in the cluster"]

    assert "no GPU is free" in found["sentence"]
    assert (check["ok"], check["text"]) == (False, "needs 2, 0 free")


def test_a_number_that_is_newer_than_the_sentence_says_so() -> None:
    """Too few are free by now as well, but not as few as the round found."""
    job = waiting(WaitReason.BEHIND_POLICY_ORDER, {"needed_gpus": 9, "free_gpus": 0}, wait_position=4)
    Job.objects.filter(pk=job.pk).update(num_gpus=9)
    checks = {check["name"]: check for check in told(job)["checks"]}

    assert checks["GPUs in the cluster"]["text"] == "needs 9, 8 free by now"


LINES = [(), (JobState.QUEUED,), (JobState.PARKED, JobState.QUEUED)]


@pytest.mark.parametrize("states", LINES, ids=["first", "second", "third"])
@pytest.mark.parametrize("reason", PASSING)
def test_place_sentence_and_checks_count_the_same_jobs(reason: WaitReason, states: tuple[JobState, ...]) -> None:
    """Also where jobs have left the line since the round that gave it the eighth place."""
    evidence, check = PASSING[reason]
    job = waiting(reason, evidence, wait_position=8)
    for at, state in enumerate(states, start=3):
        other = job_make(job.queue, state=state)
        Job.objects.filter(pk=other.pk).update(wait_position=at)
    job_make(job.queue, state=JobState.CANCELLED)
    found = told(job)

    assert (found["position"], found["waiting_jobs"], found["queue_position"]) == (len(states) + 1,) * 3
    assert found["num_ahead"] == len(found["ahead"]) == len(states)
    assert failing(found) == [check]
    if reason is WaitReason.BEHIND_POLICY_ORDER:
        begin = {0: "Next in line", 1: "1 job is ahead", 2: "2 jobs are ahead"}[len(states)]
        assert found["sentence"].startswith(begin)
        assert job_detail(job.owner, found_job(job))["wait_sentence"] == found["sentence"]


@pytest.mark.parametrize("evidence", [{**NEEDS, "free_gpus": 0}, {**NEEDS, "first_needs_gpus": 8}])
def test_no_check_says_that_jobs_are_ahead_of_the_first(evidence: Evidence) -> None:
    """One check is not passed all the same, as it waits."""
    found = told(waiting(WaitReason.BEHIND_POLICY_ORDER, evidence, wait_position=1))

    assert found["sentence"].startswith("Next in line")
    assert failing(found) == ["GPUs in the cluster" if "free_gpus" in evidence else "Rounds"]


def test_a_parked_job_is_told_to_wait_for_its_turn() -> None:
    """It waits, though not in the queue: it is not said to wait for nothing."""
    found = told(job_make(queue_make("vision", quota_gpus=8), state=JobState.PARKED))

    assert found["sentence"] == "It is parked: it takes turns with other jobs, and goes on with its next one."
