"""A server without a machine keeps the promises of an agent: it obeys, reports, remembers, and says what it is."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents.config import AgentConfig
from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.environments import EnvironmentWanted
from agents.protocol.server_report import AttemptReport
from agents.protocol.signing import Stamp, seal
from agents.simulated.run import message_of
from agents.simulated.server import SimulatedServer, log_line
from scheduler.broker import celery_message
from scheduler.management.virtual_ports import VirtualClock
from tests.support.agents.server import KEY, SERVER_ID, MailBox, wanted


class Simulated:
    """A simulated server, the clock that it lives on, and what the scheduler would send."""

    def __init__(self, path: Path) -> None:
        self.clock, self.mail = VirtualClock(datetime.now(UTC)), MailBox()
        config = AgentConfig(
            server_id=SERVER_ID, server_name="sim-01", key=KEY, redis_url="redis://127.0.0.1:1/0",
            shared_dir=path, state_dir=path, cpu_slots=8, cpu_ids=tuple(range(64)), memory_bytes=2**39,
        )  # fmt: skip
        self.server = SimulatedServer(config, self.mail, self.clock, says=log_line(path))
        self.generation = 0

    def send(self, *orders: AttemptWanted, environments: tuple[EnvironmentWanted, ...] = ()) -> bool:
        """Make these the wanted attempts."""
        self.generation += 1
        desired = DesiredState(lease_ttl_s=60.0, acknowledged_sequence=0, attempts=orders, environments=environments)
        stamp = Stamp(epoch=1, generation=self.generation, sequence=self.generation)
        now_s = self.clock.now().timestamp()
        message = seal(key=KEY, direction="desired", server=SERVER_ID, stamp=stamp, now_s=now_s, body=desired.to_json())
        return self.server.receive(message)

    def report(self, order: AttemptWanted, *, after_s: float) -> AttemptReport:
        """Let time pass; return the report of an attempt."""
        self.clock.advance(after_s)
        self.server.work(after_s)
        self.server.send()
        return next(one for one in self.mail.newest[1].attempts if one.attempt_id == order.attempt_id)


@pytest.fixture
def simulated(tmp_path: Path) -> Simulated:
    """Return a server that has heard nothing yet."""
    return Simulated(tmp_path)


def order(**env: str) -> AttemptWanted:
    """Return an order for two devices."""
    return wanted(("python", "train.py"), gpu_indexes=(0, 1), gpu_uuids=("a", "b"), env=env)


def test_loss_depends_on_the_learning_rate(simulated: Simulated) -> None:
    """Nearer to the best rate a training comes to a lower loss, so that a search has something to find."""
    losses: list[float] = []
    for rate in ("0.003", "0.01", "0.1"):
        one = order(SIMULATED_STEPS="1000", SIMULATED_LEARNING_RATE=rate)
        simulated.send(one)
        simulated.report(one, after_s=1)
        loss = simulated.report(one, after_s=900).loss
        assert loss is not None
        losses.append(loss)

    assert losses == sorted(losses)
    assert losses[-1] - losses[0] > 0.5


def test_job_runs_for_its_steps_and_completes(simulated: Simulated) -> None:
    """Step, loss and rate rise as told in its environment; then it completes, and the devices are free."""
    job = order(SIMULATED_STEPS="1000", SIMULATED_STEPS_PER_S="2", SIMULATED_GPU_FRAC="0.5")
    simulated.send(job)

    assert simulated.report(job, after_s=1.0).phase == "running"
    running = simulated.report(job, after_s=400.0)
    used = [device.utilization_frac for device in simulated.mail.newest[1].devices]
    ended = simulated.report(job, after_s=400.0)

    assert (running.step, running.total_steps, running.steps_per_s, running.gpu_frac) == (800, 1000, 2.0, 0.5)
    assert used == [0.5, 0.5, 0, 0, 0, 0, 0, 0]
    assert (ended.phase, ended.end_cause, ended.exit_code, ended.step, ended.run_s) == (
        "ended",
        "completed",
        0,
        1000,
        500,
    )
    assert ended.loss is not None
    assert running.loss is not None
    assert ended.loss < running.loss


def test_preempted_job_goes_on_from_its_step(simulated: Simulated) -> None:
    """Whoever makes room keeps what it has done; its next attempt begins there."""
    job = order(SIMULATED_STEPS="1000")
    simulated.send(job)
    simulated.report(job, after_s=1.0)
    simulated.report(job, after_s=300.0)
    simulated.send(replace(job, wanted="preempt"))
    left = simulated.report(job, after_s=1.0)
    again = replace(job, attempt_id=wanted(()).attempt_id, resume_name=left.checkpoint_name)
    simulated.send(again)

    assert (left.phase, left.end_cause, left.checkpoint_step) == ("ended", "preempted", 300)
    assert simulated.report(again, after_s=1.0).step == 300


def test_failure_of_the_job_comes_where_it_was_told(simulated: Simulated) -> None:
    """Its class and its line are those of the environment."""
    job = order(
        SIMULATED_STEPS="1000",
        SIMULATED_FAILS_AT_STEP="40",
        SIMULATED_FAILURE="import",
        SIMULATED_FAILURE_LINE="No apex",
    )
    simulated.send(job)
    simulated.report(job, after_s=1.0)
    ended = simulated.report(job, after_s=100.0)

    assert (ended.end_cause, ended.exit_code, ended.failure, ended.failure_line) == (
        "exit_code",
        1,
        "import",
        "No apex",
    )
    assert ended.step == 40


def test_it_says_that_it_is_simulated(simulated: Simulated, tmp_path: Path) -> None:
    """In its version, on its devices and in the log of every job."""
    job = order()
    simulated.send(job)
    simulated.report(job, after_s=1.0)
    report = simulated.mail.newest[1]

    assert report.agent_version.startswith("simulated")
    assert {device.model for device in report.devices} == {"Simulated GPU"}
    assert "nothing is computed" in next((tmp_path / "attempts" / job.attempt_id).glob("log.*")).read_text()


def test_restart_goes_on_where_it_was(simulated: Simulated, tmp_path: Path) -> None:
    """What it kept names its attempts; they are no new ones to the scheduler."""
    job = order(SIMULATED_STEPS="1000")
    simulated.send(job)
    simulated.report(job, after_s=1.0)
    simulated.report(job, after_s=300.0)
    kept = json.dumps(simulated.server.kept())

    restarted = Simulated(tmp_path)
    restarted.server.go_on(kept)
    restarted.send(job)

    assert restarted.report(job, after_s=10.0).step == 310


def test_message_of_a_stranger_changes_nothing(simulated: Simulated) -> None:
    """A forged, an old and an unreadable message are passed over."""
    job = order()
    simulated.send(job)
    simulated.generation -= 1

    assert not simulated.send()  # as old as the one before
    assert not simulated.server.receive("{}")
    assert simulated.report(job, after_s=1.0).phase == "running"


def test_desired_state_is_found_in_an_item_of_its_queue() -> None:
    """As the scheduler lays it there; what is no such item is empty."""
    item = celery_message(task="agents.apply_desired_state", args=["sealed"], queue="server.s", expires_s=60.0)

    assert message_of(item.encode()) == "sealed"
    assert message_of(b"nonsense") == ""


def test_an_environment_is_there_at_once(simulated: Simulated) -> None:
    """Nothing is built where nothing is computed, so that no job waits for it."""
    wants = EnvironmentWanted(digest="a" * 64, ask=3, queue_id=1, kind="requirements", packed="")
    assert simulated.send(environments=(wants,))
    simulated.server.send()
    report = simulated.mail.newest[1]
    assert report.python
    assert [(one.digest, one.ask, one.state) for one in report.environments or ()] == [("a" * 64, 3, "ready")]
