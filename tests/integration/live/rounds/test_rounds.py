"""Rounds: fenced, debounced, explained; what they tell the servers; what a missing broker or an admin does to them."""

from itertools import pairwise

import pytest
from django.db import transaction

from agents.protocol.signing import DesiredState, unseal
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.live.rounds import run_round
from scheduler.live.rounds.run_round import RoundOvertaken, round_claim
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Cluster, Job, Lease, Round, Server
from scheduler.selectors.evidence import ANY_READER, wait_sentence
from scheduler.services.cluster.servers import server_drain
from scheduler.services.cluster.settings import cluster_row, settings_change
from tests.support.live.ports import GIB
from tests.support.live.world import World


def test_round_on_top_of_an_old_snapshot_is_abandoned(world: World) -> None:
    """Two schedulers read the same state; the one that comes second changes nothing."""
    world.server("alpha")
    world.submit()
    stale = snapshot_read(cluster_row(), at=world.clock.now())
    world.rounds()
    before = Lease.objects.count()

    with pytest.raises(RoundOvertaken), transaction.atomic():
        round_claim(stale, at=world.clock.now())

    assert Lease.objects.count() == before == 1
    assert Cluster.objects.get(pk=1).round_number == Round.objects.count()


def test_servers_are_told_although_reasons_cannot_be_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that got its GPUs starts; why others wait comes with a later round."""
    world.server("alpha")
    job = world.submit()

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no reasons")

    with monkeypatch.context() as patched:
        patched.setattr(run_round, "plan_waits", fails)
        with pytest.raises(RuntimeError, match="no reasons"):
            world.round("beat")

    world.until_state(job, JobState.RUNNING, within_s=5)


def test_many_changes_ask_for_one_round(world: World) -> None:
    """The wish is remembered once until a round begins."""
    world.server("alpha")
    for _ in range(5):
        world.submit()
    before = Round.objects.count()
    world.rounds()

    assert Round.objects.count() == before + 1


def test_job_submitted_without_a_broker_is_planned_by_the_next_beat(world: World) -> None:
    """What is committed stays committed; the beat catches up, and the server is told when it is behind."""
    world.server("alpha")
    world.transport.is_down = True
    job = world.submit()
    world.bell.round_begins()
    world.round("beat")
    assert world.state(job) == JobState.LAUNCHING
    world.transport.is_down = False

    world.until_state(job, JobState.RUNNING, within_s=5)


def test_desired_state_holds_what_the_agent_needs(world: World) -> None:
    """The whole order of an attempt, signed, with the newest report acknowledged."""
    agent = world.server("alpha", slots=2)
    job = world.submit(
        gpus=2,
        command=["python", "train.py"],
        env={"LR": "0.1"},
        files={"train.py": "print()"},
        checkpoint={"grace": "7s"},
        schedule={"max_duration": "2h"},
        resources={"gpus": 2, "disk": "1GiB"},
    )
    world.rounds()
    message = world.transport.desired[agent.server_id][-1]
    server = Server.objects.get(pk=agent.server_id)
    envelope = unseal(
        key=bytes.fromhex(server.key_hex),
        direction="desired",
        server=server.pk,
        message=message,
        now_s=world.clock.now().timestamp(),
    )
    desired = DesiredState.parse(envelope.body)
    (wanted,) = desired.attempts

    assert envelope.stamp.generation == server.generation
    assert desired.acknowledged_sequence == agent.sequence
    assert (wanted.job_id, wanted.wanted) == (job.pk, "run")
    assert wanted.command == ("python", "train.py")
    assert (wanted.env, wanted.files) == ({"LR": "0.1"}, {"train.py": "print()"})
    assert (wanted.gpu_indexes, wanted.gpu_uuids) == ((0, 1), ("cpu-slot-0", "cpu-slot-1"))
    assert wanted.cpu_ids == (0, 1, 2, 3)
    assert wanted.memory_bytes == 16 * GIB
    assert (wanted.disk_bytes, wanted.grace_s, wanted.max_duration_s) == (GIB, 7.0, 7200.0)
    assert wanted.resume_attempt_id == ""


def test_servers_are_told_again_before_their_lease_ends(world: World) -> None:
    """A renewal is the desired state again, with a higher sequence and a newer acknowledgement."""
    agent = world.server("alpha")
    world.pass_time(20)
    before = agent.stamp
    world.pass_time(8)

    assert agent.stamp.generation == before.generation
    assert agent.stamp.sequence > before.sequence


def test_large_files_go_out_one_launch_after_another(world: World) -> None:
    """A message stays below its limit, and a launch once named is never left out again."""
    agent = world.server("alpha", slots=6)
    jobs = [world.submit(files={"data.txt": "x" * 900_000}) for _ in range(6)]
    named: list[set[str]] = []
    for _ in range(12):
        world.pass_time(1)
        named.append(set(agent.attempts))

    assert all(before <= after for before, after in pairwise(named))
    assert all(world.state(job) == JobState.RUNNING for job in jobs)


def test_settings_count_from_the_next_round_on(world: World) -> None:
    """A round reads them once, at its start; the change asks for one."""
    world.server("alpha")
    world.submit()
    world.rounds()
    first = Round.objects.order_by("-number").first()
    cluster = cluster_row()
    world.do(
        lambda: settings_change(
            actor=world.admin,
            changes={"policy": "fifo", "mechanism": "proportional"},
            expected_version=cluster.settings_version,
            at=world.clock.now(),
            reason="to try it",
        )
    )
    world.rounds()
    second = Round.objects.order_by("-number").first()

    assert first is not None
    assert second is not None
    assert (first.policy, first.mechanism) == ("las", "tune")
    assert (second.policy, second.mechanism, second.trigger) == ("fifo", "proportional", "settings")


def test_paused_scheduler_starts_nothing_and_says_so(world: World) -> None:
    """What runs goes on, what waits knows why, and the scheduler is not called stale."""
    agent = world.server("alpha")
    running = world.submit()
    world.until_state(running, JobState.RUNNING)
    Cluster.objects.update(paused=True)
    waiting = world.submit()
    world.pass_time(3)

    assert world.state(running) == JobState.RUNNING
    row = Job.objects.get(pk=waiting.pk)
    assert (row.state, row.wait_reason) == (JobState.QUEUED, WaitReason.POLICY_PAUSED)
    assert (world.clock.now() - Cluster.objects.get(pk=1).round_finished_at).total_seconds() < 5  # type: ignore[operator]

    agent.end(running.pk, cause="completed")
    world.until_state(running, JobState.COMPLETED)
    Cluster.objects.update(paused=False)
    world.round()
    world.until_state(waiting, JobState.RUNNING)


def test_every_waiting_job_has_a_reason_with_numbers(world: World) -> None:
    """Whoever does not run after a round knows why, and which place it has."""
    world.server("alpha", slots=1)
    jobs = [world.submit() for _ in range(3)]
    world.pass_time(3)
    waiting = [Job.objects.get(pk=job.pk) for job in jobs if world.state(job) == JobState.QUEUED]

    assert len(waiting) == 2
    assert sorted(job.wait_position or 0 for job in waiting) == [1, 2]
    assert all(job.wait_reason not in ("", WaitReason.NEW) for job in waiting)
    assert all(job.wait_round == Cluster.objects.get(pk=1).round_number for job in waiting)


def test_job_beside_drained_servers_waits_for_them(world: World) -> None:
    """Servers that report are not said to be away."""
    for name in ("alpha", "beta"):
        world.server(name)
        server_drain(actor=world.admin, server=Server.objects.get(name=name), reason="cooling", at=world.clock.now())
    job = world.submit()
    world.rounds()
    waiting = Job.objects.get(pk=job.pk)

    assert waiting.wait_reason == WaitReason.NO_SERVER
    sentence = wait_sentence(waiting, ANY_READER)
    assert sentence.startswith("No server takes jobs. It waits for alpha and 1 more, drained since ")


def test_job_without_any_server_waits_for_one(world: World) -> None:
    """The reason names it, and the first server that comes up takes the job."""
    job = world.submit()
    world.rounds()
    assert Job.objects.get(pk=job.pk).wait_reason == WaitReason.NO_SERVER
    world.server("alpha")

    world.until_state(job, JobState.RUNNING, within_s=5)


def test_decisions_are_kept_and_equal_ones_once(world: World) -> None:
    """A round says what it gave to whom and why others wait; one like the round before only points to it."""
    world.server("alpha", slots=1)
    first, second = world.submit(), world.submit()
    world.until_state(first, JobState.RUNNING)
    for _ in range(3):
        world.round()
    rounds = list(Round.objects.order_by("number"))
    launched = next(r for r in rounds if r.num_launched)

    assert launched.decisions["grants"][0]["job"] == first.number
    assert launched.decisions["grants"][0]["state"] == "launched"
    assert launched.decisions["waiting"][0]["job"] == second.number
    assert "same_as" in rounds[-1].decisions
    assert rounds[-1].decisions["same_as"] < rounds[-2].number


def test_refused_rounds_are_asked_for_by_the_beat_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry and introspection ask once; the same plan would be refused again each moment, and recorded each time."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.end(job.pk, cause="exit_code", exit_code=1)
    world.pass_time(2)
    retry_after = Job.objects.get(pk=job.pk).retry_after
    assert retry_after is not None

    def refuses(*_: object) -> None:
        raise PlanInvariantError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(run_round, "plan_round", refuses)
        Cluster.objects.filter(pk=1).update(again_at=retry_after)
        before = Round.objects.count()
        world.pass_time(30)
        asked = list(Round.objects.order_by("number").values_list("trigger", "error")[before:])
        world.round("beat")

    assert asked == [("introspection", "broken")]
    world.round("beat")
    world.until_state(job, JobState.RUNNING, within_s=5)


def test_round_keeps_the_keys_that_made_its_order(world: World) -> None:
    """Those of a share policy count the GPUs that jobs get; where jobs take turns no key of the policy ruled."""
    world.settings(policy="afs-l")
    world.server("alpha", slots=4)
    job = world.submit(resources={"gpus": 1, "min_gpus": 1, "max_gpus": 4})
    round_ = world.round()
    assert round_ is not None

    assert round_.num_gpus_granted > 1
    assert round_.decisions["keys"] == [[job.number, -float(round_.num_gpus_granted)]]
    world.settings(policy="fifo", introspection=["slicing"])
    turns = world.round()
    assert turns is not None
    assert turns.decisions.get("keys") == []


def test_job_cancelled_between_snapshot_and_apply_is_skipped(world: World) -> None:
    """Guards meet what changed since the snapshot; the rest of the round is applied."""
    from scheduler.choices import build_config
    from scheduler.core.round.plan_round import plan_round
    from scheduler.live.rounds.apply_plan import plan_apply
    from scheduler.services.jobs.cancel_suspend_resume import job_cancel

    world.server("alpha", slots=2)
    gone, stays = world.submit(), world.submit()
    at = world.clock.now()
    live = snapshot_read(cluster_row(), at=at)
    plan = plan_round(live.tables, build_config(policy="las"))
    world.do(lambda: job_cancel(actor=world.admin, job=gone, at=at))
    with transaction.atomic():
        number = round_claim(live, at=at)
        applied = plan_apply(live, plan, round_number=number, ids=world.ports.ids, at=at)

    assert len(applied.launched) == 1
    assert world.state(gone) == JobState.CANCELLED
    assert world.state(stays) == JobState.LAUNCHING
    server = Server.objects.get()
    assert all(lease.generation <= server.generation for lease in Lease.objects.all())


def test_job_that_fits_with_a_drained_server_waits_for_it(world: World) -> None:
    """It names the server and since when, not that it never fits; one that would not fit even then says its size."""
    world.server("alpha", slots=2)
    beta = world.server("beta", slots=4)
    world.rounds()
    server = Server.objects.get(pk=beta.server_id)
    server_drain(actor=world.admin, server=server, reason="new fans", at=world.clock.now())
    fits = world.submit(gpus=4)
    world.rounds()
    job = Job.objects.select_related("queue").get(pk=fits.pk)

    assert job.wait_reason == "never_feasible"
    assert job.wait_evidence["drained"] == "beta"
    said = wait_sentence(job, ANY_READER)
    assert said.startswith("It waits for beta, drained since ")
    assert said.endswith(" UTC: no other server could hold it even when empty.")
