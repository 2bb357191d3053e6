"""Applies a plan in one transaction: preemptions, leases, attempts.

The snapshot may be a moment old, so every write is guarded: a job that changed since is skipped, and a grant whose
place is not free yet waits (reason ``reconfiguring``). Held right by ``tests/integration/live`` and ``tests/faults``.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction

from agents.protocol.ports import Ids
from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.core.model.gpu_indexes import GpuAssignment, assign_gpu_ids
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import Plan, Preemption, PreemptRule
from scheduler.core.model.tables import NO_ROW
from scheduler.core.spec.launch import LaunchPer
from scheduler.live.attempts.free_capacity import ServerRoom, room_read
from scheduler.live.attempts.leases import NewLease, generations_raise
from scheduler.live.attempts.start_stop import NewAttempt, StopReceipt, attempt_stop, attempts_open
from scheduler.live.gangs.membership import gangs_open, is_settled, launches_read
from scheduler.live.gangs.shares import GangShare, ServerShare, gang_reshare, keeps_leader
from scheduler.live.observed.smoke import GPUS as SMOKE_GPUS
from scheduler.live.rounds.parking import attempt_continue, attempt_park, has_room_to_park, parked_read, parked_stop
from scheduler.live.rounds.seats import (
    GrantedSeat,
    KeptGpus,
    changed_leases,
    granted_seats,
    is_changed,
    kept_gpus,
)
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Attempt, Job, Lease
from scheduler.notify import touch_cluster
from scheduler.services.jobs.state import job_transition

log = logging.getLogger(__name__)

# Rules that stop a job until its next turn on the same GPUs; only these park it.
PARKED_BY = frozenset({PreemptRule.POLICY_ORDER, PreemptRule.UNPACKED})


@dataclass(slots=True)
class AppliedPlan:
    """What a plan changed.

    Attributes:
        tell: Servers whose desired state changed.
        launched, continued, preempted, parked: Job rows; the last two are asked to.
        deferred: Job rows with a grant that waits, with the evidence.
    """

    tell: set[str] = field(default_factory=set)
    launched: list[int] = field(default_factory=list)
    continued: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    parked: list[int] = field(default_factory=list)
    deferred: dict[int, dict[str, float | int | str]] = field(default_factory=dict)


def plan_apply(
    live: LiveSnapshot, plan: Plan, *, round_number: int, ids: Ids, at: datetime, parks: bool = False
) -> AppliedPlan:
    """Write what the plan decided; call it in the transaction that takes the round number.

    Args:
        parks: Whether jobs that end their turn stay in memory.
    """
    applying = _Applying(live=live, plan=plan, round_number=round_number, ids=ids, at=at, parks=parks)
    return applying.run()


class _Applying:
    """One plan while it is applied."""

    def __init__(
        self, *, live: LiveSnapshot, plan: Plan, round_number: int, ids: Ids, at: datetime, parks: bool
    ) -> None:
        self.live, self.plan, self.round_number, self.ids, self.at = live, plan, round_number, ids, at
        self.parks, self.parked = parks, parked_read(live)
        self.applied = AppliedPlan()
        self.launches: dict[int, NewAttempt] = {}  # by row, in the order of the plan
        self.rooms: dict[str, ServerRoom] = {}
        self.generations: dict[str, int] = {}
        self.seats = granted_seats(live, plan)
        self.partners = {**plan.riding, **{host: guest for guest, host in plan.riding.items()}}
        self.kept_gpus = KeptGpus(indexes={}, slots={})  # read by ``_move``, after the stops
        moving = {preemption.job for preemption in plan.preemptions}
        wanted = {*moving, *live.parked_on, *(row for row in self.seats if row not in plan.kept)}
        wanted |= {p.by_job for p in plan.preemptions if p.by_job != NO_ROW}
        # Without their specs: those may be large, and nothing here reads them.
        self.jobs = Job.objects.defer("spec").in_bulk([live.job_pks[row] for row in sorted(wanted)])

    def run(self) -> AppliedPlan:
        """Stop first, so that every leaving job is asked in any case; then grant in the order of the policy."""
        for preemption in self.plan.preemptions:
            self._stop(preemption)
        for row in sorted(self.plan.resized):
            self._stop_without_leader(row)
        changed = changed_leases(self.live, self.plan, self.seats)
        staying = self.plan.kept | self.plan.resized
        has_starts = not staying.issuperset(self.seats)
        # In most rounds nothing moves; what is free, and which jobs hold it, need not be read then.
        if changed or has_starts or self.plan.resized or self.live.parked_on:
            self._move(changed, staying)
        if self.applied.launched or self.applied.continued or self.applied.preempted:
            touch_cluster()
        return self.applied

    def _move(self, changed: dict[tuple[int, str], Lease], staying: frozenset[int]) -> None:
        """Carry out grants that are not held already: kept jobs first give back what others need."""
        self.rooms = room_read()
        self._resize_kept(changed, only_shrink=True)
        for row in self.plan.order:
            if row in self.plan.resized:
                self._reshare(row)
        self.kept_gpus = kept_gpus(self.live, self.plan)
        assignment = assign_gpu_ids(
            self._without_resized(), held=self.kept_gpus.indexes, free=self._free_indexes(), before=self.parked.indexes
        )
        for row in self.plan.order:
            if row in self.seats and row not in staying:
                self._launch(row, assignment)
            elif row in self.live.parked_on and not self.rooms.keys() >= set(self.live.parked_on[row]):
                self._send_away(row, rule=PreemptRule.SERVER_GONE)
        self._open()
        self._resize_kept(changed, only_shrink=False)

    def _stop(self, preemption: Preemption) -> None:
        """Ask a running job to stop, with a receipt: for which job and by which rule."""
        if preemption.job not in self.live.attempt_pks:
            return  # its attempt ended while the snapshot was read; the round that its report asked for comes next
        job = self.jobs[self.live.job_pks[preemption.job]]
        by = self.jobs.get(self.live.job_pks[preemption.by_job]) if preemption.by_job != NO_ROW else None
        receipt: StopReceipt = {"preempt_rule": preemption.rule, "preempted_by": by}
        data = {**preemption.evidence, "by_job": by.number if by else None}
        if self._park(preemption, receipt):
            return
        try:
            with transaction.atomic():
                job_transition(
                    job=job, to=JobState.PREEMPTING, at=self.at, actor="scheduler", reason=preemption.rule, data=data
                )
                attempt_pk = self.live.attempt_pks[preemption.job]
                tell = attempt_stop(attempt_id=attempt_pk, wanted="preempt", at=self.at, receipt=receipt)
                if not tell:
                    raise JobChanged(f"job {job.number}: its attempt is over or stopping")
        except (JobChanged, InvalidTransition) as error:
            log.debug("preemption_skipped", extra={"job": job.pk, "error": str(error)})
            return
        self.applied.tell |= set(tell)
        self.applied.preempted.append(preemption.job)

    def _park(self, preemption: Preemption, receipt: StopReceipt) -> bool:
        """Park a job until its next turn, if its servers have the memory for it; return whether it was asked."""
        attempt = Attempt.objects.get(pk=self.live.attempt_pks[preemption.job])
        is_forming = hasattr(attempt, "gang") and not is_settled(attempt)
        if not self.parks or is_forming or preemption.rule not in PARKED_BY or not has_room_to_park(attempt):
            return False
        tell = attempt_park(attempt_id=attempt.pk, at=self.at, receipt=receipt)
        self.applied.tell |= set(tell)
        self.applied.parked += [preemption.job] if tell else []
        return bool(tell)

    def _free_indexes(self) -> dict[int, list[int]]:
        return {
            row: sorted(self.rooms[pk].free_gpus) for row, pk in enumerate(self.live.server_pks) if pk in self.rooms
        }

    def _raise_generations(self, server_pks: Iterable[str]) -> None:
        """Raise the generation of each server once in the round."""
        raised = generations_raise(set(server_pks) - self.generations.keys())
        self.generations |= raised
        self.applied.tell |= raised.keys()

    def _generation(self, server_pk: str) -> int:
        self._raise_generations([server_pk])
        return self.generations[server_pk]

    def _resize_kept(self, changed: dict[tuple[int, str], Lease], *, only_shrink: bool) -> None:
        """Give running jobs the cores and memory of the plan: less at once, more as far as free."""
        rows = {row for row, _ in changed}
        for row in (row for row in self.plan.order if row in rows):
            for seat in self.seats[row]:
                lease, room = changed.get((row, seat.server_pk)), self.rooms.get(seat.server_pk)
                if lease is None or room is None:
                    continue
                if only_shrink:
                    seat = seat._replace(
                        cpus=min(seat.cpus, lease.cpus), memory_bytes=min(seat.memory_bytes, lease.memory_bytes)
                    )
                if is_changed(seat, cpus=lease.cpus, memory_bytes=lease.memory_bytes):
                    self._resize(lease, room, cpus=seat.cpus, memory_bytes=seat.memory_bytes)

    def _resize(self, lease: Lease, room: ServerRoom, *, cpus: float, memory_bytes: int) -> None:
        if not room.has(cpus=cpus - lease.cpus, memory_bytes=memory_bytes - lease.memory_bytes):
            return  # still held by a leaving job; the next round grants it
        room.give_back(cpus=lease.cpus, memory_bytes=lease.memory_bytes, cpu_ids=tuple(lease.cpu_ids))
        cpu_ids = room.take(cpus=cpus, memory_bytes=memory_bytes, keep=tuple(lease.cpu_ids))
        lease.cpus, lease.memory_bytes, lease.cpu_ids = cpus, memory_bytes, list(cpu_ids)
        lease.generation = self._generation(lease.server_id)
        lease.save(update_fields=["cpus", "memory_bytes", "cpu_ids", "generation"])

    def _without_resized(self) -> Plan:
        """Return the plan without resized elastic jobs, which take their GPUs one by one."""
        return replace(self.plan, order=[row for row in self.plan.order if row not in self.plan.resized])

    def _stop_without_leader(self, row: int) -> None:
        """Stop an elastic job whose leader has no place in its new share; it resumes from a checkpoint."""
        if not keeps_leader(self.live.attempt_pks[row], [seat.server_pk for seat in self.seats[row]]):
            evidence: dict[str, float | int | str] = {"num_gpus": sum(seat.num_gpus for seat in self.seats[row])}
            self._stop(Preemption(job=row, rule=PreemptRule.MOVED, by_job=NO_ROW, evidence=evidence))

    def _reshare(self, row: int) -> None:
        """Start the change of a running elastic job to its new share."""
        targets = {
            seat.server_pk: ServerShare(num_gpus=seat.num_gpus, cpus=seat.cpus, memory_bytes=seat.memory_bytes)
            for seat in self.seats[row]
        }
        share = GangShare(self.live.attempt_pks[row], targets, self.rooms)
        if not share.is_change:
            return
        generations = {server_pk: self._generation(server_pk) for server_pk in share.server_ids}
        try:
            gang_reshare(share, ids=self.ids, generations=generations, round_number=self.round_number, at=self.at)
        except JobChanged as error:
            log.debug("resize_skipped", extra={"job": self.live.job_pks[row], "error": str(error)})

    def _launch(self, row: int, assignment: GpuAssignment) -> None:
        """Choose the places of a granted job for ``_open``, or record what its grant waits for."""
        seats = self.seats[row]
        evidence: dict[str, float | int | str] = {"granted_gpus": sum(seat.num_gpus for seat in seats)}
        if row in assignment.deferred:
            self.applied.deferred[row] = {**evidence, "missing_gpus": assignment.deferred[row]}
            return
        kept = {seat.server_pk: self.parked.kept_bytes.get((row, seat.server_pk), 0) for seat in seats}
        if row in self.live.parked_on and not self._can_go_on(row, assignment):
            self._send_away(row, rule=PreemptRule.MOVED)
            self.applied.deferred[row] = {**evidence, "missing_gpus": 0}
            return
        if not all(
            seat.server_pk in self.rooms
            and self.rooms[seat.server_pk].has(cpus=seat.cpus, memory_bytes=seat.memory_bytes - kept[seat.server_pk])
            for seat in seats
        ):
            self.applied.deferred[row] = {**evidence, "missing_gpus": 0}
            return
        job = self.jobs[self.live.job_pks[row]]
        if job.wanted != "run":
            return  # suspended or cancelled meanwhile
        if not self._asks_as_planned(row, job):
            return  # changed since the snapshot; the next round knows
        for server_pk, kept_bytes in kept.items():
            self.rooms[server_pk].give_back(cpus=0.0, memory_bytes=kept_bytes, cpu_ids=())
        new_leases = tuple(self._new_lease(row, seat, assignment.gpus[row, seat.server]) for seat in seats)
        if row in self.live.parked_on:
            self._continue(row, job, new_leases)
            return
        self.launches[row] = NewAttempt(
            attempt_id=self.ids.ulid(self.at),
            job=job,
            leases=new_leases,
            epoch=self.live.epoch,
            round_number=self.round_number,
            reason_data={"round": self.round_number, "gpus": evidence["granted_gpus"]},
        )

    def _open(self) -> None:
        """Open the attempts of all jobs that start, in a few statements."""
        self._raise_generations(lease.server_id for new in self.launches.values() for lease in new.leases)
        opened = attempts_open(list(self.launches.values()), generations=self.generations, at=self.at)
        row_of = {new.attempt_id: row for row, new in self.launches.items()}
        self.applied.launched += [row_of[attempt.pk] for attempt in opened]
        per = launches_read([attempt.job_id for attempt in opened])
        gangs = [(attempt, per[attempt.job_id]) for attempt in opened if per[attempt.job_id] is not LaunchPer.JOB]
        gangs_open(gangs, ids=self.ids, at=self.at)

    def _asks_as_planned(self, row: int, job: Job) -> bool:
        """Return whether a job still waits in the queue and for the GPUs that the plan was made for."""
        tables = self.live.tables
        asked = SMOKE_GPUS if job.smoke_due else job.num_gpus
        queue_id = int(tables.queues.queue_id[tables.jobs.queue[row]])
        return job.queue_id == queue_id and int(tables.jobs.num_gpus[row]) == asked

    def _can_go_on(self, row: int, assignment: GpuAssignment) -> bool:
        """Return whether a parked job may continue in place: on its servers, on GPUs its processes can reach."""
        home = set(self.live.parked_on[row])
        if {seat.server_pk for seat in self.seats[row]} != home or not home <= self.rooms.keys():
            return False
        for seat in self.seats[row]:
            before, given = self.parked.indexes.get((row, seat.server), []), assignment.gpus[row, seat.server]
            is_slot = self.rooms[seat.server_pk].device_kind == "cpu_slot"  # any slot will do
            if len(before) != len(given) or not (is_slot or before == list(given)):
                return False
        return True

    def _continue(self, row: int, job: Job, new_leases: tuple[NewLease, ...]) -> None:
        """Continue a parked job in place."""
        # Raised before the savepoint of the attempt: a rollback to it must not undo the generation.
        generations = {lease.server_id: self._generation(lease.server_id) for lease in new_leases}
        data = {"round": self.round_number, "gpus": sum(len(lease.gpu_pks) for lease in new_leases)}
        try:
            if attempt_continue(
                job=job, new_leases=new_leases, epoch=self.live.epoch, generations=generations, at=self.at, data=data
            ):
                self.applied.continued.append(row)
        except (JobChanged, InvalidTransition) as error:
            log.debug("continue_skipped", extra={"job": job.pk, "error": str(error)})

    def _send_away(self, row: int, *, rule: PreemptRule) -> None:
        """Let a parked job checkpoint and end, to resume elsewhere."""
        job = self.jobs[self.live.job_pks[row]]
        try:
            tell = parked_stop(job=job, rule=rule, at=self.at, data={"round": self.round_number})
        except (JobChanged, InvalidTransition) as error:
            log.debug("move_skipped", extra={"job": job.pk, "error": str(error)})
            return
        self.applied.tell |= set(tell)
        self.applied.preempted += [row] if tell else []

    def _new_lease(self, row: int, seat: GrantedSeat, indexes: tuple[int, ...]) -> NewLease:
        room, partner = self.rooms[seat.server_pk], self.partners.get(row)
        # Beside a job that has run there alone it gets the other slot.
        slots = self.kept_gpus.slots
        slot = 1 - slots[partner] if partner in slots else int(row in self.plan.riding)
        return NewLease(
            server_id=seat.server_pk,
            gpu_pks=tuple(room.gpus[index] for index in indexes),
            cpus=seat.cpus,
            cpu_ids=room.take(cpus=seat.cpus, memory_bytes=seat.memory_bytes),
            memory_bytes=seat.memory_bytes,
            slot=slot,
        )
