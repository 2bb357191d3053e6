"""What a restore does: the pause comes with the rows, and work that is later than the backup is not lost."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from agents.protocol.signing import AttemptWanted, DesiredState
from benchmarks.support.postgres import postgres, programs
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.engine import Engine
from scheduler.live.servers.lost import lost_after_s
from scheduler.management.later_attempts import later_attempts_record
from scheduler.models import Attempt, Cluster, Event, Job
from scheduler.notify import use_bell
from tests.integration.management.test_backup import FILL, SHOW, run
from tests.support.live.world import World

CHECKPOINT = "step-000090-0123456789abcdef.json"
LATER = "7ZZZZZZZZZZZZZZZZZZZZZZZZ"  # and one letter more
# A restore that is killed when the rows are there, before anything else.
KILLED = """
import sys
from pathlib import Path
import django; django.setup()
from scheduler.management import backup
from scheduler.ports import live_ports
def killed(*args, **named):
    raise SystemExit("killed")
backup.call_command = killed
backup.backup_restore(Path(sys.argv[1]), replace=True, at=live_ports().clock.now())
"""
BUSY = """
import django; django.setup()
from django.utils import timezone
from scheduler.models import Cluster
Cluster.objects.update(round_finished_at=timezone.now(), paused=False, epoch=9)
"""


Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def call(request: pytest.FixtureRequest, processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """Python on a database with two jobs, filled once: each test compares what it finds before and after."""
    if request.param == "postgresql" and programs() is None:
        pytest.skip("no PostgreSQL here")
    with postgres() if request.param == "postgresql" else nullcontext("") as url:
        called = partial(run, tmp_path_factory.mktemp("state"), database_url=url)
        filled = called("-c", FILL)
        assert filled.returncode == 0, filled.stderr
        yield called


def test_restored_rows_never_stand_without_their_pause_and_epoch(call: Call, tmp_path: Path) -> None:
    """Pause and epoch are in the transaction of the rows: one who reads in between reads both."""
    file = tmp_path / "all.backup"
    written = call("manage.py", "backup", str(file))
    assert written.returncode == 0, written.stderr
    call("-c", "import django; django.setup()\nfrom scheduler.models import Cluster\nCluster.objects.update(epoch=9)")
    killed = call("-c", KILLED, str(file))
    shown = call("-c", SHOW).stdout.splitlines()

    assert "killed" in killed.stderr
    assert shown[0].count("of-") == 2
    assert shown[1] == "10 True"


def test_backup_that_is_cut_short_changes_nothing(call: Call, tmp_path: Path) -> None:
    """Half of a backup is refused as a whole, and the database is as before."""
    file = tmp_path / "all.backup"
    before = call("-c", SHOW).stdout
    call("manage.py", "backup", str(file))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused = call("manage.py", "restore", str(file), "--replace")

    assert before.count("of-") == 2
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert call("-c", SHOW).stdout == before


def test_admin_who_knows_that_all_is_stopped_need_not_wait(tmp_path: Path, processes: None) -> None:
    """Three periods without a round are the rule; ``--now`` is the exception, and jobs are still not given up."""
    file = tmp_path / "all.backup"
    run(tmp_path, "-c", FILL)
    run(tmp_path, "manage.py", "backup", str(file))
    run(tmp_path, "-c", BUSY)
    waits = run(tmp_path, "manage.py", "restore", str(file), "--replace")
    careless = run(tmp_path, "manage.py", "restore", str(file), "--now")
    done = run(tmp_path, "manage.py", "restore", str(file), "--replace", "--now")

    assert "or say --now" in waits.stderr
    assert "say --replace" in careless.stderr
    assert done.returncode == 0, done.stderr
    assert run(tmp_path, "-c", SHOW).stdout.splitlines()[1] == "10 True"


def desired_of(wanted: AttemptWanted) -> dict[str, Any]:
    """Return an order as JSON."""
    order: dict[str, Any] = DesiredState(lease_ttl_s=1.0, acknowledged_sequence=0, attempts=(wanted,)).to_json()
    return dict(order["attempts"][0])


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """A cluster without servers, with one queue ``vision``."""
    made = World()
    made.queue("vision")
    yield made
    use_bell(None)


def launch_write(shared: Path, attempt_id: str, order: dict[str, Any], *, epoch: int = 1) -> Path:
    """Write what an agent leaves of an attempt: its launch, and a checkpoint of its job."""
    directory = shared / "attempts" / attempt_id
    (directory / "checkpoints").mkdir(parents=True)
    (directory / "checkpoints" / CHECKPOINT).write_text("state")
    (directory / "launch.json").write_text(json.dumps({"epoch": epoch, "order": order}))
    return directory


def test_job_resumes_from_what_it_did_after_the_backup(world: World, settings: LazySettings, tmp_path: Path) -> None:
    """The attempt that the backup does not know is recorded as given up; its checkpoint is where the job goes on."""
    settings.SHARED_DIR = tmp_path
    job = world.submit()
    agent = world.server("alpha", slots=1)
    world.until_state(job, JobState.RUNNING)
    order = desired_of(agent.attempt_of(job.pk).wanted)
    agent.end(job.pk, cause="preempted")
    world.agents.pop("alpha")  # it does not come back
    launch_write(tmp_path, LATER + "1", {**order, "attempt_id": LATER + "1"})
    launch_write(tmp_path, LATER + "2", {**order, "attempt_id": LATER + "2", "job_id": "0" * 26})
    (launch_write(tmp_path, LATER + "3", order) / "launch.json").write_text("[]")
    (tmp_path / "attempts" / (LATER + "4")).symlink_to(tmp_path / "attempts" / (LATER + "1"))

    assert later_attempts_record(at=world.clock.now()) == 1
    assert later_attempts_record(at=world.clock.now()) == 0
    later = Attempt.objects.get(pk=LATER + "1")
    waits_until = Job.objects.get(pk=job.pk).retry_after
    assert (later.number, later.end_cause, later.failure) == (2, EndCause.SERVER_LOST, "")
    assert waits_until is not None
    assert (waits_until - world.clock.now()).total_seconds() == lost_after_s()
    assert Event.objects.get(job=job, reason="restore").data["attempt"] == 2

    world.server("beta", slots=1)
    world.until(lambda: len(world.attempts(job)) == 3)

    newest = world.attempts(job)[-1]
    assert (newest.resume_attempt_id, newest.resume_name, newest.resume_step) == (later.pk, CHECKPOINT, 90)
    assert newest.created_at >= waits_until


def test_job_that_ran_through_the_restore_goes_on(world: World) -> None:
    """Its agent is told the new epoch, and keeps what the restored rows name: one attempt, from begin to end."""
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(3)
    Cluster.objects.update(epoch=5, paused=True)
    world.engine = Engine(world.ports)
    world.pass_time(5)
    agent.checkpoint(job.pk)
    world.pass_time(2)

    assert agent.stamp.epoch == 5
    assert world.state(job) == JobState.RUNNING
    assert len(world.attempts(job)) == 1
    assert Job.objects.get(pk=job.pk).checkpoint_step is not None


def test_directory_that_cannot_be_read_has_no_later_attempts(settings: LazySettings, tmp_path: Path, db: None) -> None:
    """A restore on a machine without the shared directory restores what the backup has."""
    settings.SHARED_DIR = tmp_path / "nowhere"

    assert later_attempts_record(at=World().clock.now()) == 0
    assert not os.listdir(tmp_path)
