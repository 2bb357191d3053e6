"""Processes in which what-if runs are made: one makes many, what is killed or cancelled leaves no run hanging.

A run may read a file from a stranger, so its process knows no secret, and nothing of what it sends is believed.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest
from django.contrib.auth.models import User

from clusterweb.config.env import BASE_DIR
from scheduler.models import Scenario, ScenarioRun
from scheduler.models.scenario import RunState, ScenarioState
from scheduler.services.whatif.scenarios import scenario_cancel
from scheduler.simulator.study.cluster import Cluster, ServerGroup, server_table
from scheduler.simulator.study.starting_points import columns_to_json
from scheduler.whatif.scenarios import children
from scheduler.whatif.scenarios.runner import KEEP_S, LOST_AFTER, MOST_ATTEMPTS
from tests.support.e2e.stack import wait_for
from tests.support.rows.scenarios import SMALL
from tests.support.rows.whatif_world import Worlds, ask, finished, until

pytestmark = pytest.mark.django_db(transaction=True)
CLUSTER = Cluster(groups=(ServerGroup(count=2, gpus=4, cpus=16, memory_bytes=1e11),))
PLAIN = {"locality": "consolidate", "mechanism": "proportional"}
LONG = {"kind": "generator", "text": "philly?jobs=40000&load=1.3", "cluster": SMALL}

EARLY_NAN = b'{"early": {"passed_s": 1, "come": 1, "ended": 0, "wait_s": NaN}}\n'


def test_what_others_leave_where_runs_work_is_not_loaded(
    worlds: Worlds, admin: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs work in the folder for temporary files, in which every user may write."""
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
    until(runner, "a run runs", worlds.forks)

    told = psutil.Process(worlds.forks()[0]).environ()

    assert "PYTHONPATH" in told
    assert "canary" not in told.values()
    assert not set(told) & {"VAR_DIR", "DJANGO_SETTINGS_MODULE"}


@pytest.mark.parametrize("sent", [b"[" * 10_000 + b"\n", b'{"result": 1}\n', b"{}\n", b"x" * 100_000, EARLY_NAN])
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


@pytest.mark.parametrize("of", [Worlds.pids, Worlds.forks])
def test_killed_process_of_a_run_fails_it_with_a_sentence(
    of: Callable[[Worlds], list[int]], worlds: Worlds, admin: User
) -> None:
    """A run that is killed by the machine does not hang, and no process of it goes on."""
    ask(admin, start=LONG)
    runner = worlds.runner(slots=1)
    until(runner, "a run runs", worlds.forks)
    forks = worlds.forks()

    os.kill(of(worlds)[0], signal.SIGKILL)
    scenario = Scenario.objects.get()
    until(runner, "it failed", Scenario.objects.filter(state="failed").exists)

    scenario.refresh_from_db()
    assert "was killed" in scenario.error
    wait_for("its fork has ended", lambda: all(map(_is_over, forks)), within_s=30)


def test_runs_follow_each_other_in_one_process(worlds: Worlds, admin: User) -> None:
    """Loading the code takes longer than many a run; a process that is lost between two runs costs none of them."""
    runner = worlds.runner(slots=1)
    used: list[set[int]] = []
    for _ in range(2):
        scenario = ask(admin, seeds=[1, 2])
        seen: set[int] = set()

        def ended(scenario: Scenario = scenario, seen: set[int] = seen) -> bool:
            seen.update(worlds.pids())
            scenario.refresh_from_db()
            return scenario.ended_at is not None

        until(runner, "it has ended", ended)
        assert scenario.state == ScenarioState.COMPLETED, scenario.error
        used.append(seen)
        (pid,) = worlds.pids()
        os.kill(pid, signal.SIGKILL)
        wait_for("it is lost", partial(_is_over, pid), within_s=30)

    assert [len(pids) for pids in used] == [1, 1]
    assert used[0] != used[1]


def test_process_that_is_being_waited_for_takes_no_run(processes: None) -> None:
    """In that moment ``Popen.poll`` tells of a process that has ended that it goes on."""
    child = children.Child()
    with child._process._waitpid_lock:  # type: ignore[attr-defined]  # as held by the reader
        os.kill(child.pid, signal.SIGKILL)
        wait_for("its end is read", lambda: not child.is_alive, within_s=30)
    child.end()


def test_processes_that_wait_for_runs_end_after_a_while(worlds: Worlds, admin: User) -> None:
    """They keep their memory for the next question only as long as one may follow soon."""
    runner = worlds.runner(slots=1)
    scenario = ask(admin)
    until(runner, "it has ended", lambda: Scenario.objects.filter(pk=scenario.pk, ended_at__isnull=False).exists())
    assert worlds.pids()

    worlds.clock_ahead(timedelta(seconds=KEEP_S))
    runner.tick()

    assert not worlds.pids()


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
    """The processes of a cancelled scenario end."""
    scenario = ask(admin, start=LONG)
    runner = worlds.runner()
    until(runner, "a run runs", worlds.forks)
    pids = [*worlds.pids(), *worlds.forks()]

    scenario_cancel(actor=admin, scenario=scenario, at=datetime.now(UTC))
    until(runner, "processes ended", lambda: all(map(_is_over, pids)))

    assert set(scenario.runs.values_list("state", flat=True)) == {"cancelled"}
    assert runner.is_idle


def test_worker_that_stops_gives_its_runs_back_at_once(worlds: Worlds, admin: User) -> None:
    """A restart costs the time of the run, not the wait for a heartbeat."""
    ask(admin, start=LONG)
    runner = worlds.runner()
    until(runner, "a run runs", worlds.forks)
    pids = [*worlds.pids(), *worlds.forks()]

    runner.stop()

    wait_for("processes and forks ended", lambda: all(map(_is_over, pids)), within_s=30)
    assert set(ScenarioRun.objects.values_list("state", "attempts")) == {("queued", 0)}


@pytest.mark.usefixtures("processes")
def test_process_of_a_run_ends_with_its_worker(tmp_path: Path) -> None:
    """A child whose worker has died ends by itself, however that died."""
    base = {"servers": columns_to_json(server_table(CLUSTER)), "queues": None, "round_s": 60.0, "least_gpus": 8}
    base["source"] = {"kind": "generator", "text": f"generate:{LONG['text']}"}
    (tmp_path / "base.json").write_text(json.dumps(base))
    task = {"base": str(tmp_path / "base.json"), "variant": {"policy": "las", **PLAIN}, "seed": 1}
    text = (
        "import time; from scheduler.whatif.scenarios.children import Child; "
        f"child = Child(); child.begin({task!r}); print(child.pid, flush=True); time.sleep(99)"
    )
    worker = subprocess.Popen([sys.executable, "-c", text], cwd=BASE_DIR, stdout=subprocess.PIPE)
    assert worker.stdout
    child = psutil.Process(int(worker.stdout.readline()))
    wait_for("the run has begun", child.children, within_s=60)
    pids = [child.pid, *(fork.pid for fork in child.children())]

    worker.kill()
    worker.communicate()

    wait_for("child and fork ended", lambda: all(map(_is_over, pids)), within_s=30)


def _is_over(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
