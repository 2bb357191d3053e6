"""What is old goes in small steps, and what a sum over it was stays."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.conf import settings as configured
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler import tasks
from scheduler.core.model.lifecycle import JobState
from scheduler.models import (
    Attempt,
    Cluster,
    Configuration,
    Delivery,
    Environment,
    Event,
    Experiment,
    IdempotencyKey,
    Job,
    JobDay,
    Lease,
    LeaseGpu,
    Round,
    Scenario,
    ScenarioRun,
    ServerEnvironment,
    Trial,
    UsageHour,
)
from scheduler.selectors.queues.usage import usage
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.retention import hours as hours_module
from scheduler.services.retention import jobs as jobs_module
from scheduler.services.retention import rows as rows_module
from scheduler.services.retention.policy import policy
from scheduler.services.retention.remove import old_rows_remove
from tests.support.live.ports import memory_ports
from tests.support.rows import factories
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import AT
from tests.support.rows.notices import delivery_make, webhook_make

OLD = AT - timedelta(days=configured.KEEP_JOBS_DAYS + 3)
LATELY = AT - timedelta(days=2)
YEAR = {"since": AT - timedelta(days=360), "until": AT}
OF_JOBS = (Job, Attempt, Lease, LeaseGpu)


def steps(number: int) -> Any:
    """Return a share of time that ends after so many chunks."""
    left = iter([True] * number)
    return lambda: next(left, False)


def always() -> bool:
    """Go on to the end."""
    return True


def test_old_jobs_go_with_all_they_have_and_their_sums_stay(db: None) -> None:
    """A lease over three hours, two users, three ends: GPU-hours, completed jobs and GPU-seconds are as before."""
    queue = factories.queue_make("vision")
    mia, ben = factories.member_make(queue), factories.member_make(queue)
    for owner, state, gpus in (
        (mia, JobState.COMPLETED, 2),
        (mia, JobState.COMPLETED, 1),
        (mia, JobState.FAILED, 1),
        (ben, JobState.CANCELLED, 3),
    ):
        factories.job_make(queue, state=state, owner=owner, num_gpus=gpus, at=OLD, step_s=4_321.0)
    fresh = factories.job_make(queue, state=JobState.COMPLETED, owner=mia, at=LATELY)
    waits = factories.job_make(queue, owner=mia, at=OLD)
    Job.objects.update(attained_gpu_s=100.0)
    before = usage(queue, **YEAR)
    assert before["total"]["allocated_gpu_hours"] > 1
    gone = old_rows_remove(at=AT, go_on=always)

    after = usage(queue, **YEAR)
    assert after["total"]["allocated_gpu_hours"] == pytest.approx(before["total"]["allocated_gpu_hours"], abs=1e-6)
    for was, now in zip(before["rows"], after["rows"], strict=True):
        assert (now["user"], now["queue"]) == (was["user"], was["queue"])
        assert now["allocated_gpu_hours"] == pytest.approx(was["allocated_gpu_hours"], abs=1e-6)
        assert now["busy_gpu_hours"] is None
    assert set(Job.objects.all()) == {fresh, waits}
    assert set(Event.objects.values_list("job", flat=True)) == {fresh.pk, waits.pk}
    assert set(Attempt.objects.values_list("job", flat=True)) == {fresh.pk}
    days = JobDay.objects.order_by().values_list("user", "state", "num_jobs", "attained_gpu_s")
    assert set(days) == {(mia.pk, "completed", 2, 200.0), (mia.pk, "failed", 1, 100.0), (ben.pk, "cancelled", 1, 100.0)}
    assert gone["jobs"] > 4
    assert old_rows_remove(at=AT, go_on=always) == {}


def test_pass_that_is_stopped_anywhere_goes_on_and_loses_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every single chunk, whatever its size, the sums over what is kept and what is gone are the same."""
    for name in ("EVENTS_A_CHUNK", "LEASES_A_CHUNK", "ATTEMPTS_A_CHUNK", "JOBS_AT_ONCE"):
        monkeypatch.setattr(jobs_module, name, 2)
    queue = factories.queue_make("vision")
    for hour in range(5):
        factories.job_make(queue, state=JobState.COMPLETED, at=OLD + timedelta(hours=hour), step_s=1_000.0)
    monkeypatch.setattr(hours_module, "ROWS_A_CHUNK", 2)
    hours = usage(queue, **YEAR)["total"]["allocated_gpu_hours"]
    seen = set()
    while old_rows_remove(at=AT, go_on=steps(1)):
        assert usage(queue, **YEAR)["total"]["allocated_gpu_hours"] == pytest.approx(hours, abs=1e-6)
        removed = JobDay.objects.aggregate(jobs=Sum("num_jobs"))["jobs"] or 0
        assert removed + Job.objects.count() == 5
        seen.add(removed)

    assert seen == {0, 2, 4, 5}
    while old_rows_remove(at=AT, go_on=steps(2)):  # the first finds no job any more
        assert usage(queue, **YEAR)["total"]["allocated_gpu_hours"] == pytest.approx(hours, abs=1e-6)
    assert set(UsageHour.objects.values_list("num_hours", flat=True)) == {24}
    assert not any(model.objects.exists() for model in OF_JOBS)


def test_chunks_are_short(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No transaction removes more than some hundred rows, however much one job has."""
    queue = factories.queue_make("vision")
    job = factories.job_make(queue, state=JobState.COMPLETED, at=OLD)
    first = job.event_count
    Event.objects.bulk_create(
        Event(at=OLD, kind="job_wait", actor="scheduler", job=job, number=first + number) for number in range(1, 2_500)
    )
    kept = next(one for one in policy() if one.name == "jobs")
    sizes = []
    while size := jobs_module.jobs_chunk_remove(kept, at=AT):
        sizes.append(size)

    assert max(sizes) <= 500
    assert sum(sizes) > 2_500


def test_job_goes_with_its_whole_experiment(db: None) -> None:
    """While one configuration is new or trains, no other goes; then the experiment goes with its last job."""
    queue = factories.queue_make("vision")
    experiment = experiment_make(queue, factories.user_make())
    second = factories.job_make(queue)
    Configuration.objects.create(experiment=experiment, number=2, job=second, values={})
    jobs = [one.job for one in experiment.configurations.select_related("job")]
    ended = {"state": JobState.COMPLETED, "wait_reason": "", "wait_since": None, "ended_at": OLD}
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(**ended)
    old_rows_remove(at=AT, go_on=always)
    assert Job.objects.count() == len(jobs)

    Experiment.objects.update(state="exhausted", ended_at=LATELY)
    old_rows_remove(at=AT, go_on=always)
    assert Job.objects.count() == len(jobs)

    Experiment.objects.update(ended_at=OLD)
    old_rows_remove(at=AT, go_on=always)
    assert not Job.objects.exists()
    assert not Experiment.objects.exists()


def test_rounds_that_stay_can_still_be_read(db: None) -> None:
    """The oldest one repeats the decisions of a round of long ago: that one stays with it."""
    age = timedelta(days=configured.KEEP_ROUNDS_DAYS)
    for number, at, same_as in (
        (1, AT - age - timedelta(days=9), None),
        (2, AT - age - timedelta(days=8), None),
        (3, AT - age - timedelta(days=7), 2),
        (4, AT - age + timedelta(days=1), 2),
        (5, AT - timedelta(days=1), None),
    ):
        factories.round_make(number, at=at, decisions={} if same_as is None else {"same_as": same_as})
    old_rows_remove(at=AT, go_on=always)

    assert sorted(Round.objects.values_list("number", flat=True)) == [2, 4, 5]


def test_newest_round_stays_whatever_its_age(db: None) -> None:
    """A cluster that was switched off for a year still has the decisions that hold now."""
    for number in (1, 2):
        factories.round_make(number, at=AT - timedelta(days=400 - number))
    old_rows_remove(at=AT, go_on=always)

    assert list(Round.objects.values_list("number", flat=True)) == [2]


def test_each_kind_goes_by_its_own_age(db: None, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old ones go, fresh ones and open ones stay, audit entries longest."""
    monkeypatch.setattr(rows_module, "ROWS_A_CHUNK", 2)
    user = factories.user_make()

    def event(at: datetime, request_id: str) -> None:
        Event.objects.create(at=at, kind="settings", actor="x", request_id=request_id)

    def scenario(pk: str, state: str, ended_at: datetime | None) -> None:
        Scenario.objects.create(
            id=pk, name=pk, owner=user, created_at=OLD, start={}, of_cluster=True, variants=[], seeds=[], state=state,
            ended_at=ended_at,
        )  # fmt: skip
        ScenarioRun.objects.create(scenario_id=pk, variant=0, seed=1)

    for at in (OLD, OLD, OLD, LATELY):
        event(at, "")
        event(at, "of-a-request")
    event(AT - timedelta(days=settings.KEEP_AUDIT_DAYS + 1), "of-a-request")
    scenario("old", "completed", OLD)
    scenario("new", "completed", LATELY)
    scenario("open", "running", None)
    Trial.objects.create(kind="pack", began_s=0, until_s=0, verdict="kept", place=None, ended_at=OLD)
    Trial.objects.create(kind="pack", began_s=0, until_s=0, verdict="kept", place=1, ended_at=None)
    for key, at in (("a", AT - timedelta(hours=25)), ("b", AT - timedelta(hours=1))):
        IdempotencyKey.objects.create(user=user, route="r", key=key, body_hash="", status=201, body={}, created_at=at)
        Session.objects.create(session_key=key, session_data="", expire_date=at)
    webhook, done = webhook_make(user), {"state": "delivered", "next_at": None}
    delivery_make(webhook, created_at=AT - timedelta(days=31), **done)
    young = delivery_make(webhook, created_at=AT - timedelta(days=29), **done)
    to_send = delivery_make(webhook, created_at=OLD)
    gone = old_rows_remove(at=AT, go_on=always)

    assert gone == {
        "audit": 1,
        "events": 3,
        "scenarios": 2,  # with its run
        "trials": 1,
        "deliveries": 1,
        "idempotency_keys": 1,
        "sessions": 2,
    }
    assert Event.objects.exclude(request_id="").count() == 4
    assert set(Scenario.objects.values_list("pk", flat=True)) == {"new", "open"}
    assert set(ScenarioRun.objects.values_list("scenario", flat=True)) == {"new", "open"}
    assert Trial.objects.get().place == 1
    assert set(Delivery.objects.all()) == {young, to_send}


def test_environments_go_when_no_job_is_left_that_names_them(db: None) -> None:
    """What a server has of one goes from the list with it; one that was asked for lately stays."""
    queue, server = factories.queue_make("vision"), factories.server_make("gpu-1")
    made = {"queue": queue, "kind": "requirements", "source": "r.txt", "files": {"r.txt": "a"}, "created_at": OLD}
    rows = {
        name: Environment.objects.create(pk=name * 64, used_at=LATELY if name == "c" else OLD, **made) for name in "abc"
    }
    job = factories.job_make(queue, state=JobState.QUEUED)
    Job.objects.filter(pk=job.pk).update(environment=rows["b"])
    ServerEnvironment.objects.create(environment=rows["a"], server=server, asked_at=OLD, changed_at=OLD)

    gone = old_rows_remove(at=AT, go_on=always)

    assert gone["environments"] == 2  # with what the server has
    assert set(Environment.objects.values_list("pk", flat=True)) == {"b" * 64, "c" * 64}
    assert not ServerEnvironment.objects.exists()


def test_hours_of_removed_leases_count_in_proportion_at_the_edges(db: None) -> None:
    """Half an hour of a range takes half of that hour."""
    queue, user = factories.queue_make("vision"), factories.user_make()
    hour = OLD.replace(minute=0, second=0, microsecond=0)
    UsageHour.objects.create(hour=hour, queue=queue, user=user, removed_gpu_s=7_200.0)
    found = usage(queue, since=hour + timedelta(minutes=30), until=AT)

    assert found["total"]["allocated_gpu_hours"] == pytest.approx(1.0)
    assert found["total"]["busy_gpu_hours"] is None


def test_old_hours_become_days(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured in the hours of a day is its sum; an hour that comes later is added; fresh hours stay."""
    monkeypatch.setattr(hours_module, "ROWS_A_CHUNK", 5)
    queue, user = factories.queue_make("vision"), factories.user_make()
    day = OLD.replace(hour=0, minute=0, second=0, microsecond=0)
    made = {"queue": queue, "user": user, "measured_gpu_s": 3_600.0, "busy_gpu_s": 1_800.0}
    UsageHour.objects.bulk_create(UsageHour(hour=day + timedelta(hours=hour), **made) for hour in range(24))
    UsageHour.objects.create(hour=LATELY, **made)
    before = usage(queue, **YEAR)
    assert old_rows_remove(at=AT, go_on=always) == {"usage_hours": 24}
    assert usage(queue, **YEAR) == before
    UsageHour.objects.create(hour=day + timedelta(hours=7), removed_gpu_s=60.0, queue=queue, user=user)
    old_rows_remove(at=AT, go_on=always)

    hours = UsageHour.objects.order_by("hour").values_list("hour", "num_hours", "busy_gpu_s", "removed_gpu_s")
    assert list(hours) == [(day, 24, 24 * 1_800.0, 60.0), (LATELY, 1, 1_800.0, 0.0)]
    half = usage(queue, since=day + timedelta(hours=12), until=day + timedelta(hours=30))
    assert half["total"]["busy_gpu_hours"] == pytest.approx(6.0)


def test_admin_sees_what_is_kept_and_for_how_long(
    db: None, client: Client, settings: LazySettings, tmp_path: Path
) -> None:
    """Each kind with its rows, the setting of its age, and what was removed so far; others see no such page."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STATIC_ROOT, settings.STORAGES = tmp_path, {**settings.STORAGES, "staticfiles": plain}
    queue = factories.queue_make("vision")
    factories.job_make(queue, state=JobState.COMPLETED, at=OLD)
    factories.job_make(queue, state=JobState.COMPLETED, at=LATELY)
    old_rows_remove(at=AT, go_on=always)
    client.force_login(factories.user_make("ada", admin=True))
    page = client.get("/admin/kept").content.decode().replace("\xa0", " ")

    for text in (
        "Ended jobs",
        "KEEP_JOBS_DAYS",
        "60 days",
        "KEEP_AUDIT_DAYS",
        "Messages to webhooks",
        "Sessions",
        "1 job removed so far",
    ):
        assert text in page
    client.force_login(factories.user_make("mia"))
    assert client.get("/admin/kept").status_code == 404


def test_ended_jobs_are_counted_while_their_files_are_kept(db: None) -> None:
    """What is shown counts each ended job; one with a directory cannot be removed yet."""
    queue = factories.queue_make("vision")
    factories.job_make(queue, state=JobState.COMPLETED, at=OLD)
    factories.job_make(queue, state=JobState.FAILED, at=OLD, directory_bytes=1)
    factories.job_make(queue, state=JobState.RUNNING, at=OLD)
    jobs = next(one for one in policy() if one.name == "jobs")

    assert (jobs.all_rows.count(), jobs.rows.count(), jobs.old(AT).count()) == (2, 1, 1)


def test_metrics_count_removed_jobs_too(db: None, client: Client) -> None:
    """Counters of submissions and GPU-seconds never fall."""
    queue = factories.queue_make("vision")
    factories.job_make(queue, state=JobState.COMPLETED, at=OLD)
    Job.objects.update(attained_gpu_s=50.0)

    def lines() -> set[str]:
        names = (
            "clusterweb_jobs{",
            "clusterweb_job_submissions_total{",
            'clusterweb_gpu_seconds_total{queue="vision",use="al',
        )
        return {line for line in client.get("/metrics").content.decode().splitlines() if line.startswith(names)}

    before = lines()
    old_rows_remove(at=AT, go_on=always)

    assert not Job.objects.exists()
    assert len(before) == 3
    assert lines() == before


def test_a_pass_that_finds_nothing_to_do_waits_for_no_lock(db: None) -> None:
    """On SQLite the beginning of a transaction waits for all that write, and holds them up."""
    factories.job_make(state=JobState.COMPLETED, at=AT)
    with CaptureQueriesContext(connection) as asked:
        assert old_rows_remove(at=AT, go_on=always) == {}

    assert len(asked) > 10
    assert [query["sql"] for query in asked if not query["sql"].startswith("SELECT")] == []


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("database is locked"), ZeroDivisionError("a defect")])
def test_a_clean_up_that_fails_again_and_again_is_told(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """One failure is none, and one that is well in between forgets those before; so many in a row are one."""
    cluster_row()
    outcomes: list[Exception | None] = [*[error] * 4, None, *[error] * 5]
    ports, clock, _, _ = memory_ports()

    def remove(**_: object) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    def pass_minutes(minutes: int) -> None:
        for _ in range(minutes):
            clock.advance(60.0)
            tasks.remove_old_rows()

    monkeypatch.setattr(tasks, "live_ports", lambda: ports)
    monkeypatch.setattr(tasks, "old_rows_remove", remove)
    pass_minutes(9)
    assert Cluster.objects.get().failing_steps == {}

    pass_minutes(1)
    assert set(Cluster.objects.get().failing_steps) == {"clean-up"}

    outcomes.append(None)
    pass_minutes(1)
    assert Cluster.objects.get().failing_steps == {}
