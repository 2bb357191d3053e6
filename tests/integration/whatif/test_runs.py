"""What-if runs from the question to the result, in real processes.

What is killed, cancelled or wrong leaves no run hanging.
"""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import User

from clusterweb.config.env import BASE_DIR
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Job, Scenario, ScenarioRun
from scheduler.models.queue import Role
from scheduler.models.scenario import AS_IT_WAS, RunState, ScenarioState
from scheduler.selectors.whatif import scenario_metrics, scenario_progress
from scheduler.services.whatif.files import trace_file_create
from scheduler.services.whatif.scenarios import scenario_cancel, scenario_create
from scheduler.simulator.study.cluster import Cluster, ServerGroup, server_table
from scheduler.simulator.study.starting_points import columns_to_json
from scheduler.whatif.scenarios import children
from scheduler.whatif.scenarios.bases import unpacked
from scheduler.whatif.scenarios.runner import LOST_AFTER, MOST_ATTEMPTS, Runner
from tests.support.e2e.stack import wait_for
from tests.support.rows.factories import AT, job_make, member_make, queue_make, round_make, server_make, user_make
from tests.support.rows.scenarios import SMALL, TRACE, scenario_body, trace_file_make
from tests.support.rows.whatif_world import Worlds

pytestmark = pytest.mark.django_db(transaction=True)
CLUSTER = Cluster(groups=(ServerGroup(count=2, gpus=4, cpus=16, memory_bytes=1e11),))
PLAIN = {"locality": "consolidate", "mechanism": "proportional"}
LONG = {"kind": "generator", "text": "philly?jobs=4000&load=1.3", "cluster": SMALL}


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("ada", admin=True)


@pytest.fixture
def worlds(processes: None, settings: Any, tmp_path: Path) -> Iterator[Worlds]:
    """Workers of this test; none of their processes outlives it."""
    settings.VAR_DIR = tmp_path
    made = Worlds()
    yield made
    made.stop()


def until(runner: Runner, what: str, check: Callable[[], object]) -> None:
    """Let a worker work until something holds."""

    def found() -> object:
        runner.tick()
        return check()

    wait_for(what, found, within_s=60)


def ask(user: User, **changes: Any) -> Scenario:
    """Keep a scenario."""
    return scenario_create(actor=user, body=scenario_body(**changes), at=datetime.now(UTC))


def finished(worlds: Worlds, scenario: Scenario) -> Scenario:
    """Let one worker work until the scenario has ended."""
    runner = worlds.runner()

    def ended() -> bool:
        runner.tick()
        scenario.refresh_from_db()
        return scenario.ended_at is not None

    wait_for("the scenario has ended", ended, within_s=180)
    return scenario


def test_generated_workload_is_simulated_for_every_variant_and_seed(worlds: Worlds, admin: User) -> None:
    """All runs complete, the table has a mean and a spread, and frames told how far it was."""
    scenario = finished(worlds, ask(admin, seeds=[1, 2]))

    metrics = {metric["key"]: metric for metric in scenario_metrics(scenario)}
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert [cell["seeds"] for cell in metrics["avg_jct_s"]["variants"]] == [2, 2]
    assert (metrics["avg_jct_s"]["variants"][0]["half_width"] or 0.0) > 0
    assert scenario_progress(scenario, datetime.now(UTC))["frac"] == 1.0
    assert {frame.group for frame in worlds.frames.sent} == {f"scenario.{scenario.pk}"}
    assert worlds.frames.sent[-1].data["state"] == "completed"


def test_uploaded_trace_is_replayed_on_more_and_fewer_servers(worlds: Worlds, admin: User) -> None:
    """Jobs that the smallest cluster cannot hold are left out of all variants, and that is said."""
    wide = TRACE + b"30,10,8\n"
    file = trace_file_create(actor=admin, name="small.csv", content=io.BytesIO(wide), at=AT)
    start = {"kind": "trace", "file": file.pk, "cluster": SMALL}
    variants = [{"policy": "fifo"}, {"policy": "fifo", "servers": -1}]

    scenario = finished(worlds, ask(admin, start=start, variants=variants))

    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.about["warnings"] == ["1 of 4 jobs need more than 4 GPUs and were left out"]
    assert [run.num_jobs for run in scenario.runs.all()] == [3, 3]


def test_trace_that_cannot_be_read_fails_with_its_line(worlds: Worlds, admin: User) -> None:
    """The sentence of the reader reaches the page."""
    file = trace_file_make(admin, TRACE + b"40,soon,1\n")

    scenario = finished(worlds, ask(admin, start={"kind": "trace", "file": file.pk, "cluster": SMALL}))

    assert scenario.state == ScenarioState.FAILED
    assert "line 5, column run_s" in scenario.error
    assert not scenario.runs.filter(state__in=["queued", "running"]).exists()


def test_live_cluster_is_simulated_from_where_it_is(worlds: Worlds, admin: User) -> None:
    """Jobs go on where they run; what nobody knows of their length comes from those that ended."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    owner = member_make(queue)
    for _ in range(5):
        job_make(queue, state=JobState.COMPLETED, owner=owner, server=server, executed_s=600.0)
    job_make(queue, state=JobState.RUNNING, owner=owner, server=server, num_gpus=3)
    job_make(queue, owner=owner, num_gpus=2, name="waits")
    job_make(queue, owner=owner, num_gpus=1, step=10, total_steps=100, steps_per_s=1.0)

    scenario = finished(worlds, ask(admin, start={"kind": "live"}, seeds=[1, 2]))

    runs = list(scenario.runs.all())
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert [run.num_jobs for run in runs] == [3] * 4
    assert all(run.summary and run.summary["finished"] == 3 for run in runs)


def test_lead_learns_of_other_queues_only_sums(worlds: Worlds) -> None:
    """Nothing that is kept of the runs has the name of a job or queue of others, nor when one of their jobs ran."""
    server = server_make("gpu-01", gpus=8)
    vision, nlp = queue_make("vision", quota_gpus=4), queue_make("nlp", quota_gpus=4)
    lead, stranger = member_make(vision, Role.LEAD), member_make(nlp)
    for _ in range(5):
        job_make(vision, state=JobState.COMPLETED, owner=lead, server=server, executed_s=600.0)
    job_make(vision, owner=lead, num_gpus=2, name="mine")
    for index in range(3):
        job_make(nlp, owner=stranger, num_gpus=2, name=f"secret-{index}")
    variants = [{"quotas": {"vision": 4}}, {"quotas": {"vision": 6}}]

    scenario = finished(worlds, ask(lead, start={"kind": "live"}, variants=variants))

    kept = json.dumps(list(scenario.runs.values("figures", "summary")), default=str)
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.base is not None
    assert "secret" not in kept + unpacked(bytes(scenario.base)).decode()
    assert "nlp" not in kept + unpacked(bytes(scenario.base)).decode()
    for run in scenario.runs.all():
        assert run.figures is not None
        assert run.figures["queue_names"] == ["vision", "other queues"]
        assert run.figures["bar_names"] == ["mine"]
        assert len(run.figures["gantt"]["bars"]) == 1
        assert run.summary is not None
        assert run.summary["jobs"] == 4


def test_live_cluster_of_unknown_run_times_says_so(worlds: Worlds, admin: User) -> None:
    """Nothing is made up where nothing is known any more when the run begins."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    job = job_make(queue, state=JobState.RUNNING, server=server, num_gpus=3, step=1, total_steps=100, steps_per_s=1.0)
    asked = ask(admin, start={"kind": "live"})
    Job.objects.filter(pk=job.pk).update(steps_per_s=None)

    scenario = finished(worlds, asked)

    assert scenario.state == ScenarioState.FAILED
    assert scenario.error.startswith("1 of 1 jobs tell no run time")


def test_past_window_is_replayed_and_compared_with_what_happened(worlds: Worlds, admin: User) -> None:
    """The fidelity card has the replay under the settings of then beside what really happened."""
    server, queue = server_make("gpu-01", gpus=2), queue_make("vision", quota_gpus=2)
    round_make(1, started_at=AT, policy="fifo")
    for index in range(6):
        begin, end = AT + timedelta(seconds=200 * index), AT + timedelta(seconds=200 * index + 150)
        job_make(queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=begin, ended_at=end, executed_s=150.0)
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start))

    rows = {row["key"]: row for row in scenario.about["fidelity"]}
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.about["held"]["policy"] == "fifo"
    assert rows["avg_jct_s"]["happened"] == pytest.approx(150.0)
    assert rows["avg_jct_s"]["error_frac"] == pytest.approx(0.0, abs=1e-6)
    assert rows["makespan_s"]["error_frac"] == pytest.approx(0.0, abs=1e-6)
    assert ScenarioRun.objects.filter(variant=AS_IT_WAS).count() == 1


def test_what_others_leave_where_runs_work_is_not_loaded(
    worlds: Worlds, admin: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs work in the folder for temporary files, in which everybody may write."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "json.py").write_text("import os\nopen('was-here', 'w')\nos._exit(3)\n")
    scenario = finished(worlds, ask(admin))

    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert not (tmp_path / "was-here").exists()


def test_process_of_a_run_is_told_no_secret(worlds: Worlds, admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workload may be a file from a stranger."""
    for name in ("SECRET_KEY", "REDIS_URL", "DATABASE_URL", "OIDC_CLIENT_SECRET"):
        monkeypatch.setenv(name, "canary")
    ask(admin, start=LONG)
    runner = worlds.runner(slots=1)
    until(runner, "a run runs", worlds.pids)

    told = psutil.Process(worlds.pids()[0]).environ()

    assert "PYTHONPATH" in told
    assert "canary" not in told.values()
    assert not set(told) & {"VAR_DIR", "DJANGO_SETTINGS_MODULE"}


@pytest.mark.parametrize("sent", [b"[" * 10_000 + b"\n", b'{"result": 1}\n', b"{}\n", b"x" * 100_000])
def test_process_that_sends_no_result_fails_the_run(
    sent: bytes, worlds: Worlds, admin: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What it sends is read as that of a stranger: nested, without fields, without end."""
    monkeypatch.setattr(children, "MOST_MESSAGE_BYTES", 65_536)
    (tmp_path / "sent").write_bytes(sent)
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\ncat {tmp_path / 'sent'}; sleep 3600\n")
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))

    scenario = finished(worlds, ask(admin))

    assert scenario.state == ScenarioState.FAILED
    assert scenario.error == "Its process sent what is no result, or a result that is too large."


def test_killed_process_of_a_run_fails_it_with_a_sentence(worlds: Worlds, admin: User) -> None:
    """A run that is killed by the machine does not hang."""
    ask(admin, start=LONG)
    runner = worlds.runner()
    until(runner, "a run runs", worlds.pids)

    os.kill(worlds.pids()[0], signal.SIGKILL)
    scenario = Scenario.objects.get()
    until(runner, "it failed", Scenario.objects.filter(state="failed").exists)

    scenario.refresh_from_db()
    assert "was killed" in scenario.error


def test_run_of_a_killed_worker_is_taken_by_another(worlds: Worlds, admin: User) -> None:
    """Silence puts a run back; the worker that comes back late finds it is no longer its own."""
    scenario = ask(admin)
    lost = worlds.runner()
    until(lost, "a run runs", worlds.pids)
    taken = ScenarioRun.objects.filter(state=RunState.RUNNING)
    assert taken.exists()
    worlds.clock_ahead(LOST_AFTER + timedelta(seconds=1))

    finished(worlds, scenario)
    lost.tick()

    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert max(run.attempts for run in scenario.runs.all()) == 2


def test_run_that_is_lost_again_and_again_fails(worlds: Worlds, admin: User) -> None:
    """Nothing is tried for ever."""
    scenario = ask(admin, start=LONG)
    for _ in range(MOST_ATTEMPTS):
        runner = worlds.runner(slots=1)
        until(runner, "taken", ScenarioRun.objects.filter(state="running").exists)
        worlds.clock_ahead(LOST_AFTER + timedelta(seconds=1))
    worlds.runner(slots=1).tick()

    scenario.refresh_from_db()
    assert scenario.state == ScenarioState.FAILED
    assert scenario.error == f"The process that made it was lost {MOST_ATTEMPTS} times."


def test_cancel_ends_the_processes(worlds: Worlds, admin: User) -> None:
    """Nobody simulates what nobody wants."""
    scenario = ask(admin, start=LONG)
    runner = worlds.runner()
    until(runner, "a run runs", worlds.pids)
    pids = worlds.pids()

    scenario_cancel(actor=admin, scenario=scenario, at=datetime.now(UTC))
    until(runner, "processes ended", lambda: not any(map(psutil.pid_exists, pids)))

    assert set(scenario.runs.values_list("state", flat=True)) == {"cancelled"}
    assert runner.is_idle


def test_worker_that_stops_gives_its_runs_back_at_once(worlds: Worlds, admin: User) -> None:
    """A restart costs the time of the run, not the wait for a heartbeat."""
    ask(admin, start=LONG)
    runner = worlds.runner()
    until(runner, "a run runs", worlds.pids)
    pids = worlds.pids()

    runner.stop()

    assert not any(map(psutil.pid_exists, pids))
    assert set(ScenarioRun.objects.values_list("state", "attempts")) == {("queued", 0)}


@pytest.mark.usefixtures("processes")
def test_process_of_a_run_ends_with_its_worker(tmp_path: Path) -> None:
    """A child that nobody reads ends by itself, however its worker died."""
    base = {"servers": columns_to_json(server_table(CLUSTER)), "queues": None, "round_s": 60.0, "least_gpus": 8}
    base["source"] = {"kind": "generator", "text": LONG["text"]}
    (tmp_path / "base.json").write_text(json.dumps(base))
    task = {"base": str(tmp_path / "base.json"), "variant": {"policy": "las", **PLAIN}, "seed": 1}
    text = (
        "import time; from scheduler.whatif.scenarios.children import Child; "
        f"print(Child({task!r}).pid, flush=True); time.sleep(99)"
    )
    worker = subprocess.Popen([sys.executable, "-c", text], cwd=BASE_DIR, stdout=subprocess.PIPE)
    assert worker.stdout
    pid = int(worker.stdout.readline())

    worker.kill()
    worker.communicate()

    wait_for("the child ended", lambda: _is_over(pid), within_s=30)


def _is_over(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_history_counts_what_ran_on_when_the_window_began(worlds: Worlds, admin: User) -> None:
    """A job from before the window holds its GPUs in the replay too, for as long as it still ran."""
    server, queue = server_make("gpu-01", gpus=2), queue_make("vision", quota_gpus=2)
    early = job_make(queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=AT - timedelta(seconds=1000))
    Job.objects.filter(pk=early.pk).update(ended_at=AT + timedelta(seconds=300), executed_s=1200.0)
    Attempt.objects.filter(job=early).update(
        created_at=AT - timedelta(seconds=900), ended_at=AT + timedelta(seconds=300)
    )
    job_make(
        queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=AT,
        ended_at=AT + timedelta(seconds=400), executed_s=100.0,
    )  # fmt: skip
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start, variants=[{"policy": "fifo"}, {"policy": "las"}]))

    rows = {row["key"]: row for row in scenario.about["fidelity"]}
    assert rows["makespan_s"]["happened"] == pytest.approx(400.0)
    assert rows["makespan_s"]["replayed"] == pytest.approx(400.0)
