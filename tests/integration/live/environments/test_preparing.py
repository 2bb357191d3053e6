"""From a spec with requirements to a job that runs: built once, on one server, with no GPU held meanwhile."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError

from agents.protocol.environments import FILES_OF, EnvironmentReport, files_pack, files_unpack
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.limits import ENVIRONMENT_FILE_BYTES
from scheduler.core.spec.spec import JobSpec
from scheduler.live import engine
from scheduler.live.environments.reported import environments_take
from scheduler.live.rounds.desired import _environments
from scheduler.models import Environment, Event, Job, ServerEnvironment
from scheduler.models.server import EnvironmentState
from scheduler.selectors.cluster.environments import BACK_OFF, TRIED_AGAIN_AFTER, environment_row
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import access_of
from scheduler.services.environments.files import environment_errors
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_suspend
from scheduler.services.jobs.change import job_change
from tests.support.live.environments import FakeEnvironments
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

SENTENCE = "Because nosuchthing was not found, your requirements are unsatisfiable."


def server(world: World, name: str, *, slots: int = 2) -> tuple[FakeAgent, FakeEnvironments]:
    """Return a server whose agent builds environments."""
    agent = world.server(name, slots=slots)
    agent.environments = FakeEnvironments()
    world.pass_time(2)
    return agent, agent.environments


def submit(world: World, text: str = "einops\n", **spec: object) -> Job:
    """Submit a job with requirements."""
    files = {"requirements.txt": text}
    return world.submit(files=files, python={"requirements": "requirements.txt"}, **spec)  # type: ignore[arg-type]


def reason(job: Job) -> str:
    """Return why a job waits."""
    return Job.objects.values_list("wait_reason", flat=True).get(pk=job.pk)


def test_two_jobs_of_one_environment_wait_for_one_build_and_then_run(world: World) -> None:
    _, builds = server(world, "gpu-1")
    first, second = submit(world), submit(world)
    world.pass_time(5)
    assert [world.state(job) for job in (first, second)] == [JobState.QUEUED] * 2
    assert reason(first) == reason(second) == WaitReason.PREPARING_ENVIRONMENT
    assert len(builds.started) == 1
    builds.finish()
    world.until_state(first, JobState.RUNNING)
    world.until_state(second, JobState.RUNNING)
    assert len(builds.started) == 1


def test_its_gpus_and_quota_are_free_for_others_meanwhile(world: World) -> None:
    _, builds = server(world, "gpu-1")
    preparing = submit(world, gpus=2)
    world.pass_time(3)
    others = [world.submit(), world.submit()]
    for other in others:
        world.until_state(other, JobState.RUNNING)
    assert Job.objects.get(pk=preparing.pk).attained_gpu_s == 0
    builds.finish()
    world.pass_time(5)
    assert world.state(preparing) == JobState.QUEUED
    assert reason(preparing) != WaitReason.PREPARING_ENVIRONMENT


def test_a_second_start_builds_nothing_and_goes_where_the_environment_is(world: World) -> None:
    _, builds = server(world, "gpu-1")
    first = submit(world)
    world.until(lambda: bool(builds.started))
    builds.finish()
    world.until_state(first, JobState.RUNNING)
    world.agent_of(first).end(first.pk, cause="completed", exit_code=0)
    world.until_state(first, JobState.COMPLETED)
    server(world, "gpu-2", slots=4)  # with more free GPUs
    second = submit(world)
    assert world.until_state(second, JobState.RUNNING) <= 3
    assert world.agent_of(second).name == "gpu-1"
    assert len(builds.started) == 1


def test_a_build_that_fails_ends_every_job_that_waits_for_it_with_the_words_of_uv(world: World) -> None:
    _, builds = server(world, "gpu-1")
    jobs = [submit(world, "nosuchthing\n"), submit(world, "nosuchthing\n")]
    world.until(lambda: bool(builds.started))
    builds.fail(SENTENCE)
    for job in jobs:
        world.until_state(job, JobState.FAILED)
        row = Job.objects.get(pk=job.pk)
        assert (row.end_cause, row.end_detail, row.attempts.count()) == (EndCause.ENVIRONMENT, SENTENCE, 0)
    assert Event.objects.filter(job=jobs[0], new_state="failed", reason="environment").count() == 1
    world.pass_time(3)
    assert not ServerEnvironment.objects.exists()
    again = submit(world, "nosuchthing\n")  # the index may have it by now
    world.until(lambda: len(builds.started) == 2)
    builds.finish()
    world.until_state(again, JobState.RUNNING)


def test_the_one_server_that_is_large_enough_is_asked_again_while_a_smaller_one_has_it(world: World) -> None:
    """Its index did not answer once; the small server keeps the environment for jobs of its own."""
    _, small = server(world, "gpu-1")
    first = submit(world)
    world.until(lambda: bool(small.started))
    small.finish()
    world.until_state(first, JobState.RUNNING)
    _, large = server(world, "gpu-2", slots=3)
    wide = submit(world, gpus=3)
    world.until(lambda: bool(large.started))
    large.fail("error sending request for url", is_passing=True)
    world.until(lambda: len(large.started) == 2)
    large.finish()
    world.until_state(wide, JobState.RUNNING)


def test_a_job_that_has_run_outlives_a_build_that_fails(world: World) -> None:
    """Its server is gone, and the index does not answer the next one: it waits, and a later try succeeds."""
    _, first = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(first.started))
    first.finish()
    world.until_state(job, JobState.RUNNING)
    _, second = server(world, "gpu-2")
    world.until(lambda: bool(second.started), silent=("gpu-1",))
    second.fail("error sending request for url")
    world.pass_time(30, silent=("gpu-1",))
    assert world.state(job) == JobState.QUEUED
    assert len(second.started) == 1

    after_s = int(TRIED_AGAIN_AFTER.total_seconds())
    world.until(lambda: len(second.started) == 2, within_s=after_s, silent=("gpu-1",), step_s=10)
    second.finish()
    world.pass_time(30, silent=("gpu-1",))
    assert world.state(job) == JobState.RUNNING
    assert world.agent_of(job).name == "gpu-2"


def test_a_fault_that_may_pass_ends_no_job_and_is_tried_again_after_longer_and_longer(world: World) -> None:
    """An index that is down for a while costs a job that never ran its time alone; its page says what broke."""
    _, builds = server(world, "gpu-1")
    job = submit(world)
    taken = []
    for number, after in enumerate((*BACK_OFF, BACK_OFF[-1]), start=1):
        world.until(lambda number=number: len(builds.started) == number, within_s=1_000, step_s=10)  # type: ignore[misc]
        builds.fail("error sending request for url", is_passing=True)
        world.until(lambda: ServerEnvironment.objects.filter(state=EnvironmentState.FAILED).exists())
        row = environment_row(Job.objects.get(pk=job.pk), access_of(job.owner))
        assert row is not None
        [build] = row["builds"]
        taken.append(build["again_at"])
        assert build["detail"] == "error sending request for url"
        assert world.state(job) == JobState.QUEUED
        begun = ServerEnvironment.objects.get().changed_at
        assert build["again_at"] == iso(begun + after)
    world.until(lambda: len(builds.started) == len(taken) + 1, within_s=1_000, step_s=10)
    builds.finish()
    world.until_state(job, JobState.RUNNING)
    assert Environment.objects.get().faults == 0


def test_a_failure_that_a_wrong_clock_has_dated_is_tried_again_all_the_same(world: World) -> None:
    """The clock of the scheduler was ten years ahead for a moment: no job waits for that."""
    _, builds = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(builds.started))
    builds.fail("error sending request for url", is_passing=True)
    world.until(lambda: ServerEnvironment.objects.filter(state=EnvironmentState.FAILED).exists())
    row = ServerEnvironment.objects.get()
    ServerEnvironment.objects.update(changed_at=row.changed_at + timedelta(days=3_650))
    world.until(lambda: len(builds.started) == 2)
    builds.finish()
    world.until_state(job, JobState.RUNNING)


def test_another_server_is_asked_at_once_after_a_fault_that_may_pass(world: World) -> None:
    """And where that one says that the files are to blame, the job ends by its words."""
    _, first = server(world, "gpu-1", slots=4)
    _, second = server(world, "gpu-2")
    job = submit(world, "nosuchthing\n")
    world.until(lambda: bool(first.started))
    first.fail("No space left on device", is_passing=True)
    world.until(lambda: bool(second.started))
    assert world.state(job) == JobState.QUEUED
    second.fail(SENTENCE)
    world.until_state(job, JobState.FAILED)
    assert Job.objects.get(pk=job.pk).end_detail == SENTENCE


def test_another_server_is_asked_when_those_that_have_it_are_full(world: World) -> None:
    _, first = server(world, "gpu-1")
    holders = [submit(world), submit(world)]
    world.until(lambda: bool(first.started))
    first.finish()
    for holder in holders:
        world.until_state(holder, JobState.RUNNING)
    _, second = server(world, "gpu-2")
    job = submit(world)
    world.until(lambda: bool(second.started))
    assert reason(job) == WaitReason.PREPARING_ENVIRONMENT
    second.finish()
    world.until_state(job, JobState.RUNNING)
    assert world.agent_of(job).name == "gpu-2"
    assert len(first.started) == len(second.started) == 1


def test_a_gang_waits_until_enough_servers_have_it(world: World) -> None:
    _, first = server(world, "gpu-1")
    _, second = server(world, "gpu-2")
    _, third = server(world, "gpu-3")
    job = world.submit(
        gpus=4,
        resources={"gpus": 4, "max_servers": 2},
        launch={"per": "server"},
        files={"requirements.txt": "einops\n"},
        python={"requirements": "requirements.txt"},
    )
    world.until(lambda: bool(first.started and second.started))
    first.finish()
    world.pass_time(4)
    assert reason(job) == WaitReason.PREPARING_ENVIRONMENT
    second.finish()
    world.until_state(job, JobState.RUNNING)
    assert not third.started


def test_a_server_that_is_lost_while_it_builds_is_replaced(world: World) -> None:
    _, first = server(world, "gpu-1", slots=4)
    job = submit(world)
    world.until(lambda: bool(first.started))
    _, second = server(world, "gpu-2")
    assert not second.started
    world.until(lambda: bool(second.started), silent=("gpu-1",))
    second.finish()
    world.pass_time(30, silent=("gpu-1",))
    assert world.state(job) == JobState.RUNNING
    assert world.agent_of(job).name == "gpu-2"


def test_an_agent_that_loses_the_build_is_asked_again(world: World) -> None:
    """It was killed with all that its server had."""
    agent, first = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(first.started))
    agent.environments = again = FakeEnvironments()
    world.until(lambda: bool(again.started))
    again.finish()
    world.until_state(job, JobState.RUNNING)


def test_a_build_ends_with_the_last_job_that_waits_for_it(world: World) -> None:
    agent, builds = server(world, "gpu-1")
    first, second = submit(world), submit(world)
    world.until(lambda: bool(builds.started))
    world.do(lambda: job_cancel(actor=world.admin, job=first, at=world.clock.now()))
    world.pass_time(5)
    assert builds.kept
    world.do(lambda: job_suspend(actor=world.admin, job=second, at=world.clock.now()))
    world.until(lambda: not builds.kept)
    assert not ServerEnvironment.objects.exists()
    assert agent.refused == 0


def test_an_old_agent_is_not_asked_and_the_job_waits(world: World) -> None:
    world.server("gpu-old")
    job = submit(world)
    world.pass_time(5)
    assert not ServerEnvironment.objects.exists()
    assert reason(job) == WaitReason.PREPARING_ENVIRONMENT
    _, builds = server(world, "gpu-new")
    world.until(lambda: bool(builds.started))


def test_a_failure_that_answers_an_earlier_request_ends_no_job(world: World) -> None:
    agent, builds = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(builds.started))
    (row,) = ServerEnvironment.objects.all()
    said = builds.kept[row.environment_id]
    environments_take(agent.server_id, [replace(said, ask=row.pk - 1, state="failed")], at=world.clock.now())
    row.refresh_from_db()
    assert row.state == EnvironmentState.BUILDING
    assert world.state(job) == JobState.QUEUED


def test_a_job_that_moves_to_another_queue_gets_an_environment_there(world: World) -> None:
    world.queue("language")
    _, builds = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(builds.started))
    job.refresh_from_db()
    world.do(lambda: job_change(actor=world.admin, job=job, change={"queue": "language"}, at=world.clock.now()))
    world.until(lambda: len(builds.started) == 2)
    assert len(builds.kept) == 1


@pytest.mark.parametrize("state", [EnvironmentState.READY, EnvironmentState.BUILDING])
def test_a_running_job_is_left_alone_whatever_is_said_of_its_environment(world: World, state: str) -> None:
    _, builds = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(builds.started))
    builds.finish()
    world.until_state(job, JobState.RUNNING)
    if state != EnvironmentState.READY:
        builds.kept.clear()
    world.pass_time(10)
    world.round()
    world.pass_time(5)
    assert world.state(job) == JobState.RUNNING
    assert len(world.attempts(job)) == 1


def test_what_could_not_be_written_is_taken_from_the_next_report(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock was not free at the one moment when the server first said that it is ready; it says the same again."""
    _, builds = server(world, "gpu-1")
    job = submit(world)
    world.until(lambda: bool(builds.started))
    world.pass_time(3)
    refused: list[str] = []

    def locked_once(server_id: str, reports: Sequence[EnvironmentReport], *, at: datetime) -> None:
        if not refused:
            refused.append(server_id)
            raise OperationalError("database is locked")
        environments_take(server_id, reports, at=at)

    monkeypatch.setattr(engine, "environments_take", locked_once)
    builds.finish()

    world.until_state(job, JobState.RUNNING)
    assert refused


def test_files_that_no_message_holds_are_refused_at_the_door_and_all_others_arrive() -> None:
    """Else their job would wait for a build that nothing asks for, and those that were submitted later with it."""
    spec = JobSpec.parse(
        {"apiVersion": "v1", "name": "a", "queue": "q", "command": ["true"], "python": {"lock": "uv.lock"}}
    )
    hashes = "\n".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(16_000))
    for text, codes in ((hashes, ["length"]), ("\u00e9" * (ENVIRONMENT_FILE_BYTES // 2), []), ("x" * 2_000, [])):
        files = dict.fromkeys(FILES_OF["lock"], text)
        assert [error.code for error in environment_errors(replace(spec, files=files))] == codes
        assert codes or files_unpack(files_pack(files), "lock") == files


def test_what_is_ready_stays_wanted_while_the_files_of_others_do_not_fit() -> None:
    """Else the server would take it for one that no job needs."""
    text = "\n".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(12_000))
    rows = [
        ServerEnvironment(
            pk=ask,
            state=state,
            environment=Environment(
                pk=f"{ask}" * 64, queue_id=1, kind="requirements", files={"requirements.txt": text}
            ),
        )
        for ask, state in enumerate((EnvironmentState.ASKED, EnvironmentState.ASKED, EnvironmentState.READY), start=1)
    ]
    assert [one.ask for one in _environments(rows)] == [1, 3]
