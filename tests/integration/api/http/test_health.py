"""Health, readiness, version and metrics."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from scheduler.api.health import views as health
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job, Queue, UsageHour
from scheduler.services.cluster.settings import cluster_row
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make


class Broker:
    """A Redis client that answers, or does not."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers

    def ping(self) -> bool:
        """Answer as told."""
        if not self._answers:
            raise redis.ConnectionError("refused")
        return True

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def working(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which every part works."""
    cluster_row()
    Cluster.objects.update(round_number=7, round_finished_at=datetime.now(UTC))
    monkeypatch.setattr(health, "broker_client", lambda: Broker(answers=True))
    return world


def parts() -> tuple[int, dict[str, Any]]:
    """Return status and parts of the readiness."""
    answer = Client().get("/readyz")
    return answer.status_code, answer.json()["parts"]


def test_ready_when_every_part_works(working: World) -> None:
    """Each part says what was seen."""
    status, found = parts()

    assert status == 200
    assert set(found) == {"database", "migrations", "broker", "rounds", "steps"}
    assert all(part["ok"] and part["detail"] for part in found.values())
    assert "round 7" in found["rounds"]["detail"]


def test_not_ready_without_a_broker(working: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents cannot be reached."""
    monkeypatch.setattr(health, "broker_client", lambda: Broker(answers=False))

    status, found = parts()

    assert status == 503
    assert [name for name, part in found.items() if not part["ok"]] == ["broker"]


@pytest.mark.parametrize(("age_rounds", "status"), [(2.9, 200), (3.9, 503)])
def test_not_ready_when_rounds_stopped(working: World, settings: Any, age_rounds: float, status: int) -> None:
    """Three missed rounds and five seconds are too many."""
    settings.ROUND_S = 10.0
    Cluster.objects.update(round_finished_at=datetime.now(UTC) - timedelta(seconds=10.0 * age_rounds))

    assert parts()[0] == status


def test_not_ready_before_the_first_round(working: World) -> None:
    """A scheduler that never planned is no scheduler."""
    Cluster.objects.update(round_finished_at=None)

    assert parts()[0] == 503


@pytest.mark.parametrize(("is_first_start", "level"), [(True, "INFO"), (False, "WARNING")])
def test_not_ready_is_logged_as_no_error(
    working: World, caplog: pytest.LogCaptureFixture, is_first_start: bool, level: str
) -> None:
    """Whoever asks each second while the product starts makes no errors in its log."""
    Cluster.objects.update(round_finished_at=None if is_first_start else datetime(2026, 1, 1, tzinfo=UTC))
    caplog.set_level("INFO")
    parts()

    assert [(record.levelname, record.message) for record in caplog.records] == [(level, "not_ready")]
    assert "round" in caplog.records[0].rounds  # type: ignore[attr-defined]  # a field of the event


def test_not_ready_with_migrations_to_apply(working: World) -> None:
    """A new version on an old database must not serve."""
    [last] = MigrationExecutor(connection).loader.graph.leaf_nodes("scheduler")
    MigrationRecorder(connection).record_unapplied(*last)

    status, found = parts()

    assert status == 503
    assert "1 migration" in found["migrations"]["detail"]


@pytest.mark.parametrize("replaced", [1, 20])
def test_not_ready_with_some_of_the_migrations_that_were_replaced(working: World, replaced: int) -> None:
    """Django would say of such a database that nothing has to be applied."""
    recorder = MigrationRecorder(connection)
    loader = MigrationExecutor(connection).loader
    first = loader.graph.root_nodes("scheduler")[0]
    later = [name for name in loader.graph.nodes if name[0] == "scheduler" and name != first]
    for name in [first, *later, *loader.get_migration(*first).replaces[replaced:]]:
        recorder.record_unapplied(*name)

    status, found = parts()

    assert status == 503
    assert "cannot be brought up to date" in found["migrations"]["detail"]


def test_not_ready_without_a_database_and_says_no_more_than_that(
    working: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the database's error may hold a host or a user."""

    class Gone:
        vendor = "postgresql"

        def cursor(self) -> object:
            raise DatabaseError("password of clusterweb@db failed")

    monkeypatch.setattr(health, "connection", Gone())

    answer = Client().get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["parts"]["database"]["ok"] is False
    assert b"password" not in answer.content


def test_alive_and_version_need_nothing() -> None:
    """No database, no sign-in; a failing database must not make a load balancer restart the process."""
    assert Client().get("/healthz").json() == {"ok": True}
    assert Client().get("/version").json()["api"] == "v1"
    assert Client().post("/healthz").status_code == 405


def samples(client: Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample of the metrics by name and labels."""
    text = client.get("/metrics").content.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_what_is_in_the_database(working: World) -> None:
    """Two scrapes of two processes say the same, as the database does."""
    before = samples(Client())["clusterweb_job_submissions_total", (("queue", "vision"),)]
    job_make(working.vision, wait_reason="no_capacity")
    job_make(working.vision, state=JobState.COMPLETED)

    found = samples(Client())

    assert found["clusterweb_jobs", (("queue", "vision"), ("state", "running"))] == 1
    assert found["clusterweb_job_submissions_total", (("queue", "vision"),)] == before + 2
    assert found["clusterweb_pending_jobs", (("queue", "vision"), ("reason", "no_capacity"))] == 1
    assert found["clusterweb_job_completion_seconds_count", ()] == 1
    assert found["clusterweb_job_completion_seconds_sum", ()] == pytest.approx(180)
    assert found["clusterweb_job_completion_seconds_bucket", (("le", "60.0"),)] == 0
    assert found["clusterweb_job_completion_seconds_bucket", (("le", "300.0"),)] == 1
    assert found["clusterweb_queue_wait_seconds_count", ()] == 2
    assert found["clusterweb_round_duration_seconds_count", ()] == 1
    assert found["clusterweb_queue_gpus", (("kind", "allocated"), ("queue", "vision"))] == 1
    assert found["clusterweb_gpu_seconds_total", (("queue", "vision"), ("use", "allocated"))] > 60
    states = {labels[0][1]: value for (name, labels), value in found.items() if name == "clusterweb_gpus"}
    assert states == {"busy": 0, "allocated_not_busy": 1, "allocated_unknown": 0, "free": 4, "drained": 0, "broken": 0}


def test_metrics_tell_how_long_requests_took(working: World) -> None:
    """By the name of the route, so that no path of a job becomes a label."""
    labels = (("code", "200"), ("method", "GET"), ("route", "api-job"))
    key = ("clusterweb_http_request_duration_seconds_count", labels)
    before = samples(Client()).get(key, 0)
    working.client("member").get(f"/api/v1/jobs/{working.job.pk}")

    assert samples(Client())[key] == before + 1


def test_metrics_tell_how_fair_each_queue_was_served(working: World) -> None:
    """The mean of its jobs, as the overview rates them."""
    Job.objects.filter(pk=working.job.pk).update(executed_s=30.0)

    assert samples(Client())["clusterweb_finish_time_fairness_ratio", (("queue", "vision"),)] > 0


def test_metrics_tell_what_queues_lend_and_how_busy_their_gpus_were(working: World) -> None:
    """What one queue holds above its quota, another one lent; busy time is what servers measured."""
    Queue.objects.filter(name="vision").update(quota_gpus=0)
    UsageHour.objects.create(
        hour=datetime(2026, 1, 1, tzinfo=UTC),
        queue=working.vision,
        user=working.users["member"],
        measured_gpu_s=9.0,
        busy_gpu_s=7.0,
    )

    found = samples(Client())

    assert found["clusterweb_queue_gpus", (("kind", "borrowed"), ("queue", "vision"))] == 1
    assert sum(found["clusterweb_queue_gpus", (("kind", "lent"), ("queue", name))] for name in ("org", "speech")) == 1
    assert found["clusterweb_gpu_seconds_total", (("queue", "vision"), ("use", "busy"))] == 7


def test_metrics_name_no_job_and_no_user(working: World) -> None:
    """What a monitoring system stores for years must not grow with every job."""
    text = Client().get("/metrics").content.decode()

    assert "canary" not in text
    assert working.job.pk not in text
    assert not any(user.username in text for user in working.users.values())


def test_metrics_are_open_to_this_machine_alone(working: World) -> None:
    """From elsewhere, and through a proxy beside us, an admin's token is needed."""
    far = Client(REMOTE_ADDR="192.0.2.7")

    assert Client().get("/metrics").status_code == 200
    assert far.get("/metrics").status_code == 401
    assert Client().get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 401
    assert far.get("/metrics", headers=working.bearer("lead")).status_code == 403
    assert far.get("/metrics", headers=working.bearer("admin", "admin")).status_code == 200
