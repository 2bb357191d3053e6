"""The week of the demonstration: lived through by the real scheduler, kept, and called simulated on pages."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.multijob import Promise
from scheduler.management import demo_week
from scheduler.models import Attempt, Experiment, Job, Lease, Round, Sample, Scenario, Server, UsageHour
from scheduler.models.experiment import ExperimentState
from scheduler.models.scenario import ScenarioState
from scheduler.selectors.cluster.overview import cluster_now
from tests.support.rows.factories import server_make, user_make

URL = "http://127.0.0.1:8000"


@pytest.fixture
def var_dir(settings: Any, tmp_path: Path) -> Path:
    """Return an empty state directory."""
    settings.VAR_DIR, settings.SHARED_DIR = tmp_path, tmp_path / "shared"
    return tmp_path


@pytest.fixture
def admin_client(settings: Any, client: Client) -> Client:
    """Return a browser in which an admin is signed in; static files are served as they lie."""
    backend = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": backend}
    client.force_login(user_make("ada", admin=True))
    return client


@pytest.mark.django_db(transaction=True)
def test_week_leaves_what_a_real_one_would(var_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hours of it: jobs have run and run on, nothing was refused, and each part that pages read has rows."""
    monkeypatch.setattr(demo_week, "WEEK", timedelta(hours=5))
    monkeypatch.setattr(demo_week, "SEARCH_STEPS", 30_000)  # three and a half hours
    monkeypatch.setattr(demo_week, "HEARTBEAT_S", 300.0)  # a search is judged by five reports of each job
    statements = 0

    def counted(execute: Any, *arguments: Any) -> Any:  # as Django calls it
        nonlocal statements
        statements += 1
        return execute(*arguments)

    with connection.execute_wrapper(counted):
        call_command("load_week", url=URL)

    assert statements < 9_000  # they are what the first start of the demonstration takes its time for
    assert set(Server.objects.values_list("state", "rejected_reports")) == {("up", 0)}
    assert all(server.is_simulated for server in Server.objects.all())
    assert Job.objects.filter(state=JobState.COMPLETED).exists()
    running = Job.objects.filter(state=JobState.RUNNING)
    assert running.exists()
    assert not running.filter(step=None).exists()
    assert Round.objects.exclude(decisions={}).exists()
    assert not Attempt.objects.filter(end_cause="server_lost").exists()
    held = sum(Lease.objects.filter(closed_at=None).values_list("num_gpus", flat=True))
    assert 0 < held <= demo_week.GPUS
    assert {"cluster", "queue", "server", "job"} <= set(Sample.objects.values_list("scope", flat=True))
    assert UsageHour.objects.filter(busy_gpu_s__gt=0).exists()
    search = Experiment.objects.get()
    assert search.state != ExperimentState.RUNNING
    assert search.configurations.filter(promise=Promise.POOR).exists()
    asked = Scenario.objects.get()
    assert (asked.state, len(asked.variants)) == (ScenarioState.QUEUED, 3)
    recent = Sample.objects.filter(scope="server", at__gte=Sample.objects.latest("at").at - timedelta(minutes=30))
    assert recent.values("at").distinct().count() > 90  # a chart of half an hour has no holes
    kept = json.loads((var_dir / "agents" / "sim-01.state").read_text())
    assert kept["sequence"] > 0
    assert oct((var_dir / "demo.json").stat().st_mode)[-3:] == "600"

    jobs = Job.objects.count()
    call_command("load_week", url="http://127.0.0.1:8001")

    assert Job.objects.count() == jobs
    assert json.loads((var_dir / "demo.json").read_text())["url"].endswith(":8001")


@pytest.mark.django_db
def test_interrupted_week_is_refused(var_dir: Path) -> None:
    """Half a week is no demonstration; the message says what to do."""
    user_make("admin")

    with pytest.raises(CommandError, match=r"Remove the folder .* and start again"):
        call_command("load_week", url=URL)


@pytest.mark.django_db
def test_pages_say_what_is_simulated(admin_client: Client) -> None:
    """Every page in a band, the server's page beside its name, too."""
    real, simulated = server_make("gpu-01"), server_make("gpu-02", agent_version="simulated 0.1.0")

    for path in ("/", "/jobs", "/cluster"):
        assert "1 of 2 servers are simulated" in admin_client.get(path).text
    assert "as simulated" in admin_client.get(f"/cluster/{simulated.name}").text
    assert "as simulated" not in admin_client.get(f"/cluster/{real.name}").text
    assert [server["simulated"] for server in cluster_now()["servers"]] == [False, True]
    Server.objects.filter(pk=real.pk).update(agent_version="simulated 0.1.0")
    assert "no job computes anything" in admin_client.get("/").text


@pytest.mark.django_db
def test_real_cluster_says_nothing_of_it(admin_client: Client) -> None:
    """No band where no server is simulated."""
    server_make("gpu-01")

    assert "simulated" not in admin_client.get("/").text
