"""Servers that are given up: once, whatever meets at that moment, and without doing again what was done.

What the scheduler brings about itself counts against no server and no job.
"""

from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.conf import settings as configured

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.operations.failures import MACHINE
from scheduler.live import engine as engine_module
from scheduler.live.environments.wanted import environments_step
from scheduler.live.observed.smoke import smoke_check
from scheduler.live.reports.apply_report import report_apply
from scheduler.live.servers.lost import lost_check, lost_finish, server_lost
from scheduler.live.servers.watch import UNCONFIRMED_AFTER_S
from scheduler.models import Attempt, Event, Job, Lease, LeaseGpu, Server
from scheduler.models.server import ServerState
from tests.support.live import gangs
from tests.support.live.world import World

SILENCE_S = int(configured.LEASE_TTL_S + configured.LOST_GRACE_S)
HASH = "0123456789abcdef"


def checkpoint_write(attempt: Attempt, name: str, *, content: bytes = b"state") -> Path:
    """Write a checkpoint as the job-side runtime names it, where no report has told of it."""
    directory = Path(configured.SHARED_DIR) / "attempts" / attempt.pk / "checkpoints"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)
    return directory / name


def losses() -> int:
    """Return how often a server was given up."""
    return Event.objects.filter(kind="server_state", new_state=ServerState.LOST).count()


def test_two_schedulers_give_a_server_up_once(world: World) -> None:
    """Both saw the same silence; the second finds the server lost and does nothing."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    server = Server.objects.get(name="alpha")
    stamp = (server.report_epoch, server.report_sequence)
    told = [
        world.do(lambda: server_lost(server.pk, stamp=stamp, silent_s=50.0, at=world.clock.now())) for _ in range(2)
    ]

    assert told == [{server.pk}, set()]
    assert losses() == 1
    assert Server.objects.get(pk=server.pk).state_reason.startswith("silent for 50 s")


def test_lost_servers_that_hold_nothing_cost_nothing(world: World, django_assert_num_queries: Any) -> None:
    """A transaction for each of hundreds, every second, kept the scheduler from hearing the others."""
    for name in ("one", "two", "three"):
        world.server(name)
    world.pass_time(SILENCE_S + 2, silent=("one", "two", "three"))

    assert losses() == 3
    with django_assert_num_queries(2):
        lost_check(world.engine.watch, lambda _: None, at=world.clock.now(), now_s=world.clock.mono_s())


def test_a_look_each_second_costs_a_cluster_with_nothing_due_one_statement_or_two(
    world: World, django_assert_num_queries: Any
) -> None:
    """What is looked at each second asks first whether there is anything to look at."""
    world.server("alpha", slots=1)
    at, now_s = world.clock.now(), world.clock.mono_s()

    with django_assert_num_queries(1):
        lost_check(world.engine.watch, fail_if_told, at=at, now_s=now_s)
    with django_assert_num_queries(1):
        smoke_check(at=at)
    with django_assert_num_queries(2):
        environments_step(barred=tuple, at=at)


def fail_if_told(server_ids: set[str]) -> None:
    """No server is to be told anything."""
    raise AssertionError(server_ids)


def test_server_that_is_back_is_not_finished(world: World) -> None:
    """A sweep that saw it lost meets the report that set it up again."""
    world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    server = Server.objects.get(name="alpha")

    assert lost_finish(server.pk, at=world.clock.now()) == set()
    assert world.state(job) == JobState.RUNNING


@pytest.mark.parametrize("gpus", [1, 2], ids=["one process", "a gang"])
def test_grant_to_a_server_that_was_just_given_up_is_ended(world: World, gpus: int) -> None:
    """A round may read a server as up, and grant it a job after it was given up: the job waits for no report."""
    world.server("alpha", slots=2)
    job = world.submit(gpus=gpus)
    world.until_state(job, JobState.RUNNING)
    Server.objects.filter(name="alpha").update(state=ServerState.LOST, state_reason="silent")
    world.pass_time(2, silent=("alpha",))

    (first,) = world.attempts(job)
    assert world.state(job) == JobState.QUEUED
    assert first.end_cause == EndCause.SERVER_LOST
    assert not Lease.objects.filter(closed_at=None).exists()
    assert not LeaseGpu.objects.filter(released_at=None).exists()


def test_next_attempt_starts_from_a_checkpoint_that_no_report_told_of(
    world: World, settings: LazySettings, tmp_path: Path
) -> None:
    """The agent was silent while its job wrote them: the highest step counts, and only regular files do."""
    settings.SHARED_DIR = tmp_path
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(5)
    agent.checkpoint(job.pk)
    world.pass_time(2)
    (first,) = world.attempts(job)
    reported = Job.objects.get(pk=job.pk).checkpoint_step
    assert reported is not None
    assert reported < 60
    checkpoint_write(first, f"step-000060-{HASH}.json")
    newest = checkpoint_write(first, f"step-000090-{HASH}.json")
    checkpoint_write(first, f"step-000095-{HASH}.json", content=b"")
    checkpoint_write(first, "step-000099.tmp")
    newest.with_name(f"step-000097-{HASH}.json").symlink_to(newest)
    world.pass_time(SILENCE_S + 5, silent=("alpha",))
    world.server("beta", slots=1)
    world.until_state(job, JobState.RUNNING)

    second = world.attempts(job)[1]
    assert (second.resume_attempt_id, second.resume_name, second.resume_step) == (first.pk, newest.name, 90)
    assert Event.objects.filter(job=job, reason="started")[0].data["resume_step"] == 90


def test_reported_checkpoint_stays_where_the_disk_has_no_later_one(
    world: World, settings: LazySettings, tmp_path: Path
) -> None:
    """Neither an older file nor a missing directory takes a reported checkpoint back."""
    settings.SHARED_DIR = tmp_path
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(8)
    agent.checkpoint(job.pk)
    world.pass_time(2)
    reported = Job.objects.get(pk=job.pk)
    checkpoint_write(world.attempts(job)[0], f"step-000001-{HASH}.json")
    world.pass_time(SILENCE_S + 5, silent=("alpha",))
    world.server("beta", slots=1)
    world.until_state(job, JobState.RUNNING)

    second = world.attempts(job)[1]
    assert (second.resume_name, second.resume_step) == (reported.checkpoint_name, reported.checkpoint_step)


def test_job_that_completed_on_a_silent_server_does_not_run_again(world: World) -> None:
    """Its server was given up, nothing else was free, and the first report says that it is done."""
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(SILENCE_S + 5, silent=("alpha",))
    assert world.state(job) == JobState.QUEUED
    world.transport.desired.clear()  # the broker kept nothing for it
    agent.attempt_of(job.pk).step = 90
    agent.end(job.pk, cause="completed", exit_code=0)
    world.pass_time(10)

    (only,) = world.attempts(job)
    stored = Job.objects.get(pk=job.pk)
    assert (stored.state, stored.end_cause, stored.step, stored.failures) == (JobState.COMPLETED, "completed", 90, 0)
    assert (only.end_cause, only.exit_code, only.failure, only.lost_s) == (EndCause.COMPLETED, 0, "", None)
    assert Server.objects.get(name="alpha").state == ServerState.UP
    last = Event.objects.filter(job=job)[0]
    assert (last.actor, last.old_state, last.new_state) == ("agent alpha", "queued", "completed")


def test_gang_that_completed_on_silent_servers_does_not_run_again(world: World) -> None:
    """Each process says so, one server after the other; until the last one did, the job waits."""
    agents = [world.server("alpha"), world.server("beta")]
    job = world.submit(resources={"gpus": 4, "max_servers": 2})
    world.until_state(job, JobState.RUNNING)
    world.pass_time(SILENCE_S + 5, silent=("alpha", "beta"))
    assert world.state(job) == JobState.QUEUED
    world.transport.desired.clear()
    for agent in agents:
        for attempt in agent.attempts.values():
            attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
    world.do(lambda: world.engine.take([(agents[0].server_id, agents[0].report())]))
    assert world.state(job) == JobState.QUEUED
    world.do(lambda: world.engine.take([(agents[1].server_id, agents[1].report())]))

    (only,) = world.attempts(job)
    assert (world.state(job), only.end_cause, only.failure) == (JobState.COMPLETED, EndCause.COMPLETED, "")
    assert set(only.gang.members.values_list("end_cause", flat=True)) == {EndCause.COMPLETED}


def test_gang_of_which_one_process_failed_out_of_sight_runs_again(world: World) -> None:
    """Only all of them together have completed the job."""
    agents = [world.server("alpha"), world.server("beta")]
    job = world.submit(resources={"gpus": 4, "max_servers": 2})
    world.until_state(job, JobState.RUNNING)
    world.pass_time(SILENCE_S + 5, silent=("alpha", "beta"))
    world.transport.desired.clear()
    first, *others = [attempt for agent in agents for attempt in agent.attempts.values()]
    first.phase, first.cause, first.exit_code = "ended", "exit_code", 1
    for other in others:
        other.phase, other.cause, other.exit_code = "ended", "completed", 0
    world.do(lambda: world.engine.take([(agent.server_id, agent.report()) for agent in agents]))

    assert world.state(job) == JobState.QUEUED
    assert world.attempts(job)[0].end_cause == EndCause.SERVER_LOST


@pytest.mark.parametrize("says", ["completed", "exit_code"])
def test_late_end_of_an_attempt_that_has_a_successor_is_history(world: World, says: str) -> None:
    """The job was granted elsewhere meanwhile, and goes on there."""
    agent = world.server("alpha", slots=1)
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.pass_time(SILENCE_S + 5, silent=("alpha",))
    world.transport.desired.clear()
    world.agents.pop("alpha")
    world.server("beta", slots=1)
    world.until_state(job, JobState.RUNNING)
    world.agents["alpha"] = agent
    agent.end(job.pk, cause=says, exit_code=0 if says == "completed" else 1)
    world.pass_time(5)

    assert world.state(job) == JobState.RUNNING
    assert [attempt.end_cause for attempt in world.attempts(job)] == [EndCause.SERVER_LOST, ""]


def none_together(batch: Any, **named: Any) -> dict[str, Any]:
    """Leave all reports to be applied one by one."""
    return {}


def test_reports_that_we_cannot_apply_count_against_no_server_and_no_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours makes a server look silent, three times within the hour; it is not drained for it."""
    for name in ("alpha", "beta"):
        world.server(name, slots=2)
    jobs = [world.submit(name=f"job-{number}", gpus=1) for number in range(3)]
    for job in jobs:
        world.until_state(job, JobState.RUNNING)

    def broken(taken: Any, **named: Any) -> Any:
        if taken.server_id == Server.objects.get(name="alpha").pk:
            raise ZeroDivisionError
        return report_apply(taken, **named)

    for _ in range(3):
        world.until(lambda: Lease.objects.filter(server__name="alpha", closed_at=None).count() >= 1)
        with monkeypatch.context() as patched:
            patched.setattr(engine_module, "batch_apply", none_together)
            patched.setattr(engine_module, "report_apply", broken)
            world.pass_time(SILENCE_S + 10)
            assert Server.objects.get(name="alpha").state == ServerState.LOST
        world.pass_time(90)

    assert losses() == 3
    assert not Event.objects.filter(kind="server_state", new_state=ServerState.DRAINING).exists()
    assert {event.reason for event in Event.objects.filter(new_state=ServerState.LOST)} == {"unapplied"}
    assert not Attempt.objects.filter(failure__in=MACHINE).exists()
    assert set(Job.objects.values_list("failures", flat=True)) == {0}


def test_launch_is_not_unconfirmed_for_time_in_which_the_scheduler_stood_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent was slow by a second, then we were by a minute; its confirmation lies on the list unread."""
    agent = world.server("alpha", slots=1)
    agent.launches = False
    job = world.submit()
    world.rounds()
    world.pass_time(2)
    assert world.engine.watch.missing
    agent.launches = True
    receive = world.transport.receive_reports

    def standing_still(*arguments: Any, **named: Any) -> Any:
        found = receive(*arguments, **named)
        world.clock.advance(2 * UNCONFIRMED_AFTER_S)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(world.transport, "receive_reports", standing_still)
        agent.send()
        world.do(lambda: world.engine.turn(world.engine.server_ids(), timeout_s=0))
    world.pass_time(5)

    assert world.state(job) == JobState.RUNNING
    assert len(world.attempts(job)) == 1


def test_gang_of_a_server_whose_reports_we_cannot_apply_is_not_charged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of several processes goes back to its queue without a failure of its own."""
    world.server("alpha", slots=2)
    job = world.submit(gpus=2)
    gangs.running(world, job)
    with monkeypatch.context() as patched:

        def broken(taken: Any, **named: Any) -> Any:
            raise ZeroDivisionError

        patched.setattr(engine_module, "batch_apply", none_together)
        patched.setattr(engine_module, "report_apply", broken)
        world.pass_time(SILENCE_S + 5)

    assert world.state(job) == JobState.QUEUED
    assert Job.objects.get(pk=job.pk).failures == 0
    assert Attempt.objects.get(job=job).failure == ""
