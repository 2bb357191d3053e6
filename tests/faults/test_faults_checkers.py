"""The checkers are tested too: deliberate defects in the product, each of which must be caught within a few runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.transaction import Atomic

from agents.core.attempt_book import AttemptBook
from agents.core.known import Known
from agents.core.records import Control
from agents.core.stopping import Stop
from agents.core.supervision import Supervision
from agents.executor import Executor
from agents.files.job_hold import Hold
from agents.protocol.signing import Stamp
from scheduler.core.model.lifecycle import EndCause
from scheduler.live import engine
from scheduler.live.attempts import close as closing
from scheduler.live.attempts import leases, start_stop, wants
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.reports import apply_report as reports
from scheduler.live.reports import progress
from scheduler.live.reports.intake import Taken
from scheduler.live.rounds import apply_plan
from scheduler.live.servers import lost
from scheduler.live.servers.inventory import inventory_update
from scheduler.models import Attempt, Cluster, Event, Gpu, Job, Server
from scheduler.models.job import AttemptState
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.state import Move
from scheduler.services.jobs.submit import job_submit
from tests.faults import workload
from tests.faults.checkers import Checkers
from tests.faults.run import STRIKE_S, FaultRun, clean_database
from tests.faults.supervising import SimSupervisor
from tests.faults.virtual import START, Trace, Violation, VirtualTime
from tests.faults.witness import Witness

SEEDS = (13, 5, 4, 2, 3)
Patch = pytest.MonkeyPatch
Anything = Any  # arguments and answers of the product's functions, passed through


def take_old_messages(patch: Patch) -> None:
    """The agent forgets to compare stamps."""
    patch.setattr(Stamp, "__le__", lambda *_: False)


def ignore_the_lease(patch: Patch) -> None:
    """The supervisor lets a job run on when its lease is over."""
    patch.setattr(Supervision, "_keep_lease", lambda *_: None)


def give_servers_up_too_soon(patch: Patch) -> None:
    """The scheduler does not wait for the agent's lease to run out."""
    patch.setattr(lost, "lost_after_s", lambda: 8.0)


def close_when_asking(patch: Patch) -> None:
    """Leases are closed when an attempt is asked to end, not when it has ended."""
    ask = start_stop.attempt_stop

    def ask_and_close(*, attempt_id: str, at: Anything, **rest: Anything) -> list[str]:
        tell = ask(attempt_id=attempt_id, at=at, **rest)
        if tell:
            ending = AttemptEnd(cause=EndCause.PREEMPTED)
            closing.attempt_close(attempt_id=attempt_id, ending=ending, at=at, actor="scheduler")
        return tell

    patch.setattr(wants, "attempt_stop", ask_and_close)
    patch.setattr(apply_plan, "attempt_stop", ask_and_close)


def leave_leases_open(patch: Patch) -> None:
    """An end is recorded without closing the leases."""

    def close(attempt: Attempt, *, end: AttemptEnd, at: Anything, lost_s: Anything) -> None:
        attempt.state, attempt.ended_at, attempt.end_cause = AttemptState.ENDED, at, end.cause
        attempt.save()

    patch.setattr(closing, "_close_rows", close)


def believe_every_signature(patch: Patch) -> None:
    """Nobody checks the MAC."""
    patch.setattr("agents.protocol.signing.hmac.compare_digest", lambda *_: True)


def move_without_event(patch: Patch) -> None:
    """A state is written behind the back of the one function that may."""

    def write(*, moves: Sequence[Move], at: Anything, **_: Anything) -> list[Job]:
        for move in moves:
            Job.objects.filter(pk=move.job.pk).update(state=move.to, state_changed_at=at, wait_reason="")
        return [move.job for move in moves]

    patch.setattr(start_stop, "jobs_transition", write)


def forget_the_job(patch: Patch) -> None:
    """A lost server's attempt is closed and its job stays where it was."""
    move = closing._move_job

    def move_some(attempt: Attempt, *, end: AttemptEnd, **rest: Anything) -> None:
        if end.cause is not EndCause.SERVER_LOST:
            move(attempt, end=end, **rest)

    patch.setattr(closing, "_move_job", move_some)


def forget_the_generation_of_reports(patch: Patch) -> None:
    """What a report lacks is taken as ended, even if its agent cannot have heard of it yet."""
    apply_attempts = reports._attempts_apply

    def apply_as_new(server: Server, taken: Taken, *others: Anything, **named: Anything) -> None:
        newest = replace(taken, stamp=replace(taken.stamp, generation=2**60))
        apply_attempts(server, newest, *others, **named)

    def close(server: Server, attempt: Attempt, applied: reports.AppliedReport, *, at: Anything) -> None:
        ending = AttemptEnd(cause=EndCause.LAUNCH_UNCONFIRMED)
        closing.attempt_close(attempt_id=attempt.pk, ending=ending, at=at, actor="scheduler")

    patch.setattr(engine, "batch_apply", lambda *_, **__: {})  # which leaves such reports alone
    patch.setattr(reports, "_attempts_apply", apply_as_new)
    patch.setattr(reports, "_attempt_is_missing", close)


def launch_twice(patch: Patch) -> None:
    """The agent starts two supervisors, and making the state file is not exclusive."""
    spawn = Executor._spawn

    def spawn_two(self: Executor, command: Anything) -> Anything:
        spawn(self, command)
        return spawn(self, command)

    patch.setattr(Executor, "_spawn", spawn_two)
    main = SimSupervisor.main

    def main_without_claim(self: SimSupervisor) -> None:
        self._machine.shared.pop((self.attempt_id, "state.json"), None)
        main(self)

    patch.setattr(SimSupervisor, "main", main_without_claim)


def answer_before_the_commit(patch: Patch) -> None:
    """A submission is answered while its transaction may still be undone."""
    submit = job_submit

    def submit_some(**named: Anything) -> Job:
        with transaction.atomic():
            job = submit(**named)
            transaction.set_rollback(job.number % 4 == 0)
        return job

    patch.setattr(workload, "job_submit", submit_some)


def forget_transactions(patch: Patch) -> None:
    """What belongs together is written bit by bit."""
    patch.setattr(Atomic, "__enter__", lambda _: None)
    patch.setattr(Atomic, "__exit__", lambda *_: None)


def believe_twice_the_size(patch: Patch) -> None:
    """A server counts for twice its cores and memory."""
    write = inventory_update

    def write_twice(server: Server, report: Anything, *, at: Anything) -> None:
        twice = replace(report, num_cpus=2 * report.num_cpus, memory_bytes=2 * report.memory_bytes)
        write(server, twice, at=at)

    patch.setattr(reports, "inventory_update", write_twice)


def lease_a_gpu_twice(patch: Patch) -> None:
    """The constraint is gone, and a lease takes the first GPUs of its server, free or not."""
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX gpu_leased_once")
    take = leases.leases_create

    def take_first(given: Sequence[tuple[Attempt, leases.NewLease, int, int]], **named: Anything) -> None:
        firsts = []
        for attempt, lease, epoch, generation in given:
            gpus = Gpu.objects.filter(server=lease.server_id).order_by("index").values_list("pk", flat=True)
            first = replace(lease, gpu_pks=tuple(gpus[: len(lease.gpu_pks)]))
            firsts.append((attempt, first, epoch, generation))
        take(firsts, **named)

    patch.setattr(start_stop, "leases_create", take_first)


def keep_leases_of_the_lost(patch: Patch) -> None:
    """A server is given up, its leases are not."""
    patch.setattr(lost, "attempt_close", lambda **_: [])


def hide_the_end(patch: Patch) -> None:
    """A supervisor does not notice that its job has ended."""
    patch.setattr(Supervision, "_on_exited", lambda *_: None)


def forget_checkpoints(patch: Patch) -> None:
    """No report moves the checkpoint that a job goes on from."""
    patch.setattr(progress, "_is_newer_checkpoint", lambda *_: False)


def fail_in_a_step(patch: Patch) -> None:
    """A step of the engine meets a defect each time."""

    def fail(**_: Anything) -> None:
        raise ZeroDivisionError

    patch.setattr(engine, "searches_step", fail)


def lock_what_a_step_writes(patch: Patch) -> None:
    """A step of the engine is refused by the database for ever, which looks like a deadlock each time."""

    def wait(**_: Anything) -> None:
        raise OperationalError("database is locked")

    patch.setattr(engine, "searches_step", wait)


DEFECTS: dict[Callable[[Patch], None], set[str]] = {
    take_old_messages: {"G1"},
    ignore_the_lease: {"P1", "P2", "L1"},
    give_servers_up_too_soon: {"P1", "P2", "L1"},
    close_when_asking: {"P1", "P2", "L1"},
    leave_leases_open: {"L3", "L4"},
    believe_every_signature: {"P1", "P2", "G1"},
    move_without_event: {"S1"},
    forget_the_job: {"L3"},
    forget_the_generation_of_reports: {"P1", "P2", "L1"},
    launch_twice: {"P2"},
    answer_before_the_commit: {"J1"},
    forget_transactions: {"S1", "L3", "L4"},
    believe_twice_the_size: {"L2"},
    lease_a_gpu_twice: {"L1"},
    keep_leases_of_the_lost: {"L4"},
    hide_the_end: {"P1"},
    forget_checkpoints: {"C1"},
    fail_in_a_step: {"T1"},
    lock_what_a_step_writes: {"T1"},
}


# What is looked at when a run is over is found by one that is over soon.
SHORT: dict[Callable[[Patch], None], float] = dict.fromkeys(
    (move_without_event, answer_before_the_commit, hide_the_end, forget_checkpoints), 40.0
)
# The first run is long and never shows these, the second one soon does.
NOT_IN_FIRST = {
    ignore_the_lease,
    give_servers_up_too_soon,
    forget_the_job,
    keep_leases_of_the_lost,
}


@pytest.mark.django_db
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_defect_is_caught(defect: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """A harness that finds nothing in a broken product would find nothing in ours."""
    defect(monkeypatch)
    with pytest.raises(Violation) as caught:
        _run_all(SEEDS[1:] if defect in NOT_IN_FIRST else SEEDS, strike_s=SHORT.get(defect, STRIKE_S))

    assert caught.value.checker in DEFECTS[defect]


def test_each_checker_catches_a_defect() -> None:
    """One that has never been seen to catch anything may be blind."""
    assert set.union(*DEFECTS.values()) == {"J1", "S1", "L1", "L2", "L3", "L4", "P1", "P2", "G1", "C1", "T1"}


@pytest.mark.django_db
def test_failing_step_is_caught() -> None:
    """T1: what the engine notes of its own steps ends a run."""
    cluster_row()
    checkers = Checkers(machines=[], witness=Witness(Trace(VirtualTime(Random(1)))))
    checkers.always()
    Cluster.objects.update(failing_steps={"searches": {"error": "ZeroDivisionError"}})
    with pytest.raises(Violation, match="T1"):
        checkers.always()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "reason", "data"),
    [("report_unusable", "defect", {"error": "x"}), ("report_rejected", "forged", {"forged": 1, "inconsistent": 1})],
)
def test_report_that_met_a_defect_is_caught(kind: str, reason: str, data: dict[str, Any]) -> None:
    """T1: so does what the engine could not apply."""
    Event.objects.create(at=START, kind=kind, reason=reason, actor="scheduler", data=data)
    with pytest.raises(Violation, match="T1"):
        Checkers(machines=[], witness=Witness(Trace(VirtualTime(Random(1))))).finished([])


def _run_all(seeds: Sequence[int], *, strike_s: float) -> None:
    for seed in seeds:
        with clean_database():
            FaultRun(seed, strike_s=strike_s).run()


# F1: a server is given up, its job begins again elsewhere, and the server is heard again.
CUT_S, HEARD_S = 100.0, 30.0


class LostServer(FaultRun):
    """A run in which nothing happens but that: ``attempts`` is how often the job began."""

    attempts = 0

    def _run(self) -> None:
        self._begin()
        self.users.submit_long()
        self.time.run_until(25.0)
        [(attempt_id, name)] = self.witness.attempts.items()
        lost = next(machine for machine in self.machines if machine.name == name)
        self.network.cut |= {(lost.server_id, way) for way in ("up", "down")}
        self.time.run_until(25.0 + CUT_S)
        self.network.cut.clear()
        self.time.run_until(25.0 + CUT_S + HEARD_S)
        self.attempts = Attempt.objects.filter(job__attempts=attempt_id).count()
        self.checkers.always()


def lost_server() -> int:
    """Lose a server with its job and let it be heard again; return how often the job began."""
    with clean_database():
        run = LostServer(7, strike_s=0.0)
        run.run()
        return run.attempts


def renew_the_lease_of_the_fenced(patch: Patch) -> None:
    """What a server that is heard again has to end gets a renewed lease for it, and so is continued first."""
    control = AttemptBook._control

    def renewed(self: AttemptBook, known: Known) -> Control:
        return replace(control(self, known), lease_until_s=self._lease.until_s)

    patch.setattr(AttemptBook, "_control", renewed)


def continue_before_the_kill(patch: Patch) -> None:
    """A frozen job gets TERM and CONT before KILL, as if it had its lease still."""
    press = Supervision._press

    def press_awake(self: Supervision, stop: Stop, now_s: float) -> None:
        if not stop.is_signalled:
            stop.signal_at_s, stop.kill_at_s = now_s, now_s + 5.0
        press(self, stop, now_s)

    patch.setattr(Supervision, "_press", press_awake)


def look_at_no_marks(patch: Patch) -> None:
    """No supervisor sees that a later attempt has begun."""
    patch.setattr(Hold, "is_over", lambda *_: False)


@pytest.mark.django_db
def test_job_goes_on_elsewhere_and_the_lost_attempt_writes_nothing() -> None:
    """The product, with leases and marks."""
    assert lost_server() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("defect", [renew_the_lease_of_the_fenced, continue_before_the_kill])
def test_write_after_the_next_attempt_began_is_caught(defect: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """Either defect wakes the frozen job; without the marks it then writes into the directory of the next attempt."""
    defect(monkeypatch)
    assert lost_server() == 2  # the mark has ended it before it could be woken
    look_at_no_marks(monkeypatch)
    with pytest.raises(Violation) as caught:
        lost_server()

    assert caught.value.checker == "F1"


@pytest.mark.django_db
def test_leases_alone_keep_the_lost_attempt_out(monkeypatch: Patch) -> None:
    """Where a file system shows marks late, as NFS may."""
    look_at_no_marks(monkeypatch)

    assert lost_server() == 2
