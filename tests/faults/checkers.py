"""What must hold: J1, S1 and C1 at the end, L1 to L4, P1, G1 and T1 always. ``witness.py``: P2, F1, L1 of processes."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

from django.db import connection

from agents.core.records import EXIT_STOPPED, Durable
from scheduler.core.model.lifecycle import TERMINAL, TRANSITIONS, JobState
from scheduler.models import Attempt, Event, Job, Lease
from scheduler.models.job import AttemptState
from tests.faults.machine import Machine
from tests.faults.training import CHECKPOINT_EVERY
from tests.faults.virtual import Violation
from tests.faults.witness import Witness

# Plain SQL: these run after every step, and are read as the proof that they are.
SERVERS = "SELECT id, generation, acked_generation, report_epoch, report_sequence FROM scheduler_server"
LEASED = """
    SELECT server_id, SUM(cpus), SUM(memory_bytes), SUM(num_gpus) FROM scheduler_lease
    WHERE closed_at IS NULL GROUP BY server_id"""
OPEN_LEASES = """
    SELECT l.attempt_id, s.name FROM scheduler_lease l JOIN scheduler_server s ON s.id = l.server_id
    WHERE l.closed_at IS NULL"""
# (checker, what was found, query that finds nothing)
QUERIES = (
    (
        "T1",
        "a step of the engine fails",
        "SELECT failing_steps FROM scheduler_cluster WHERE failing_steps <> '{}'",
    ),
    (
        "L1",
        "GPUs leased twice",
        "SELECT gpu_id FROM scheduler_leasegpu WHERE released_at IS NULL GROUP BY gpu_id HAVING COUNT(*) > 1",
    ),
    (
        "L3",
        "an open attempt without exactly the GPUs of its gang on open leases",
        """
        SELECT a.id FROM scheduler_attempt a JOIN scheduler_job j ON j.id = a.job_id
        WHERE a.state NOT IN ('ended', 'parked')
        AND NOT (a.state = 'stopping' AND a.id IN (  -- parked before: its lease is for memory alone
            SELECT l.attempt_id FROM scheduler_lease l
            WHERE l.closed_at IS NULL GROUP BY l.attempt_id HAVING MAX(l.num_gpus) = 0))
        AND (
            a.num_gpus <> j.num_gpus
            OR a.num_gpus <> (
                SELECT COALESCE(SUM(l.num_gpus), 0) FROM scheduler_lease l
                WHERE l.attempt_id = a.id AND l.closed_at IS NULL)
            OR a.num_gpus <> (
                SELECT COUNT(*) FROM scheduler_leasegpu g JOIN scheduler_lease l ON l.id = g.lease_id
                WHERE l.attempt_id = a.id AND g.released_at IS NULL))""",
    ),
    (
        "L3",
        "a parked attempt with a GPU, or without a lease for its memory",
        """
        SELECT a.id FROM scheduler_attempt a
        LEFT JOIN scheduler_lease l ON l.attempt_id = a.id AND l.closed_at IS NULL
        WHERE a.state = 'parked' AND (l.id IS NULL OR l.num_gpus > 0)""",
    ),
    (
        "L3",
        "an attempt has ended and keeps a lease or a GPU",
        """
        SELECT a.id FROM scheduler_attempt a JOIN scheduler_lease l ON l.attempt_id = a.id
        LEFT JOIN scheduler_leasegpu g ON g.lease_id = l.id
        WHERE a.state = 'ended' AND (l.closed_at IS NULL OR (g.id IS NOT NULL AND g.released_at IS NULL))""",
    ),
    (
        "L3",
        "a job holds GPUs or memory by its state and has no open attempt, or the other way round",
        """
        SELECT j.id, j.state FROM scheduler_job j
        WHERE (j.state IN ('launching', 'running', 'parked', 'preempting', 'suspending'))
            <> EXISTS (SELECT 1 FROM scheduler_attempt a WHERE a.job_id = j.id AND a.state <> 'ended')""",
    ),
    (
        "L4",
        "an open lease of a dead epoch or generation, or on a lost server",
        """
        SELECT l.id FROM scheduler_lease l JOIN scheduler_server s ON s.id = l.server_id, scheduler_cluster c
        WHERE l.closed_at IS NULL AND (l.generation > s.generation OR l.epoch <> c.epoch OR s.state = 'lost')""",
    ),
)


def _rows(query: str) -> list[tuple[Any, ...]]:  # columns of many types
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


class Checkers:
    """Look at the database, the disks and the processes of one run."""

    def __init__(self, *, machines: list[Machine], witness: Witness) -> None:
        self._machines = {machine.server_id: machine for machine in machines}
        self._witness = witness
        self._newest: dict[str, tuple[int, int, tuple[int, int]]] = {}
        self._own: dict[str, bytes] = {}
        self._missing: set[str] = set()
        self._newest_kept: dict[str, tuple[int, int, int]] = {}

    def always(self) -> None:
        """Check what holds after every step of a scheduler or a user."""
        self._generations()
        self._leases()
        self._processes()

    def _generations(self) -> None:
        """G1: generation, acknowledged generation and newest report only rise, in the database and on the disks."""
        for pk, *numbers in _rows(SERVERS):
            now = (numbers[0], numbers[1], (numbers[2], numbers[3]))
            before = self._newest.get(pk, now)
            if now[0] < before[0] or now[1] < before[1] or now[2] < before[2]:
                raise Violation("G1", f"{pk}: {before} -> {now}")
            self._newest[pk] = now
        for pk, machine in self._machines.items():
            if machine.own is None or machine.own is self._own.get(pk):
                continue
            self._own[pk] = machine.own
            kept = Durable.parse(machine.own)
            stamp = (kept.epoch, kept.generation, kept.sequence)
            if stamp < self._newest_kept.get(pk, stamp):
                raise Violation("G1", f"{machine.name} kept {self._newest_kept[pk]}, then {stamp}")
            self._newest_kept[pk] = stamp

    def _leases(self) -> None:
        """L1 to L4 in the database."""
        for checker, what, query in QUERIES:
            if found := _rows(query):
                raise Violation(checker, f"{what}: {found}")
        for server_id, *held in _rows(LEASED):
            machine = self._machines[server_id]
            room = (2 * machine.slots, 8 * machine.slots * 2**30, machine.slots)
            if any(holds > most + 1e-6 for holds, most in zip(held, room, strict=True)):
                raise Violation("L2", f"{machine.name} has {room}, leased are {held}")

    def _processes(self) -> None:
        """P1, one way, at all times: a process that trains has an open lease on that very server."""
        leased = {(attempt_id, name) for attempt_id, name in _rows(OPEN_LEASES)}
        for attempt_id, name in self._witness.attempts.items():
            if (attempt_id, name) not in leased:
                raise Violation("P1", f"attempt {attempt_id} trains on {name} without a lease")

    def settled(self) -> None:
        """P1, the other way, once all is healed: what runs in the database has a process.

        An end may be on its way; at two looks in a row it is none.
        """
        running = set(Attempt.objects.filter(state=AttemptState.RUNNING).values_list("pk", flat=True))
        missing = running - set(self._witness.attempts)
        if lost := missing & self._missing:
            raise Violation("P1", f"running in the database, but no process: {sorted(lost)}")
        self._missing = missing

    def finished(self, acknowledged: list[str]) -> None:
        """J1, S1, C1 and T1, and that nothing is left over."""
        jobs = {job.pk: job for job in Job.objects.all()}
        if missing := set(acknowledged) - set(jobs):
            raise Violation("J1", f"acknowledged and gone: {sorted(missing)}")
        if waiting := [job.pk for job in jobs.values() if JobState(job.state) not in TERMINAL]:
            raise Violation("J1", f"never came to an end: {waiting}")
        events: dict[str, list[Event]] = defaultdict(list)
        for event in Event.objects.filter(job__isnull=False).order_by("number"):
            events[event.job_id or ""].append(event)
        for pk, job in jobs.items():
            _fold(job, events[pk])
        _work_kept()
        _words_taken()
        if self._witness.attempts or Lease.objects.filter(closed_at=None).exists():
            raise Violation("P1", f"left over after the end: {self._witness.attempts}")


def _words_taken() -> None:
    """T1: nothing that a job or a stranger said met a defect of ours."""
    defects = Event.objects.filter(kind="report_unusable", reason="defect") | Event.objects.filter(
        kind="report_rejected", data__has_key="inconsistent"
    )
    if found := [event.data for event in defects]:
        raise Violation("T1", f"a report met a defect: {found}")


def _work_kept() -> None:
    """C1: a job that stopped when asked goes on at that step; one that was killed, at its last checkpoint.

    Liars only lose work of their own.
    """
    by_job: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.exclude(job__spec__command__5="liar").order_by("number"):
        by_job[attempt.job_id].append(attempt)
    for attempts in by_job.values():
        for before, after in pairwise(attempts):
            may_lose = 0 if before.exit_code == EXIT_STOPPED else CHECKPOINT_EVERY
            lost = (before.last_step or 0) - (after.resume_step or 0)
            if lost > may_lose:
                raise Violation("C1", f"attempt {before.pk} ({before.end_cause}) loses {lost} steps")


def _fold(job: Job, events: list[Event]) -> None:
    """S1: the state of a job is what its events make of it, over allowed moves, numbered without gaps."""
    if [event.number for event in events] != list(range(1, len(events) + 1)):
        raise Violation("S1", f"events of {job.number}: {[event.number for event in events]}")
    moves = [event for event in events if event.kind == "job_state"]
    if not moves:
        raise Violation("S1", f"job {job.number} has no event")
    state = JobState(moves[0].new_state)
    for event in moves[1:]:
        if event.old_state != state or JobState(event.new_state) not in TRANSITIONS[state]:
            raise Violation("S1", f"job {job.number}: {state}, then {event.old_state} -> {event.new_state}")
        state = JobState(event.new_state)
    if state != job.state:
        raise Violation("S1", f"job {job.number} is {job.state}, its events make it {state}")
