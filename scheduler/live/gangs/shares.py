"""Elastic jobs: changes the share of GPUs of a running gang without restarting it.

A new share is a new version of the membership, see ``agents/runtime/gangs/rendezvous.py``: new processes start at once,
leaving ones end at a mini-batch boundary, and a GPU is free when the agent reports its process ended. With every change
of the number of GPUs the open leases are closed and new ones opened, so that leases are the record of use over time.
Source: Hwang et al., "AFS", NSDI 2021, section 5 (CoDDL).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from agents.protocol.ports import Ids
from scheduler.live.attempts.free_capacity import ServerRoom
from scheduler.live.attempts.leases import NewLease, generations_raise, leases_open, service_of
from scheduler.models import Attempt, Gang, GangMember, Lease, LeaseGpu
from scheduler.models.job import AttemptState
from scheduler.notify import request_round
from scheduler.services.jobs.state import job_event


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerShare:
    """What a plan gives a running gang on one server."""

    num_gpus: int
    cpus: float
    memory_bytes: int


def keeps_leader(attempt_id: str, server_ids: Sequence[str]) -> bool:
    """Return whether the gang's leader stays on one of the servers; without it the gang must restart."""
    return GangMember.objects.filter(pk=attempt_id, gpu__server_id__in=server_ids).exists()


class GangShare:
    """The change of one running gang to the share that a round gives it.

    Attributes:
        attempt: None when it no longer runs.
        going: Processes to stop: the newest ones of each server that has too many.
        coming: GPUs for new processes, by server; empty until all of them are free.
    """

    def __init__(self, attempt_id: str, targets: Mapping[str, ServerShare], rooms: Mapping[str, ServerRoom]) -> None:
        self._targets, self._rooms = targets, rooms
        running = Attempt.objects.filter(pk=attempt_id, wanted="run", state=AttemptState.RUNNING)
        self.attempt = running.select_related("job").first()
        own: dict[str, list[GangMember]] = defaultdict(list)
        staying = GangMember.objects.filter(gang_id=attempt_id, ended_at=None, leaving=False)
        for member in staying.select_related("gpu").order_by("number"):
            own[member.gpu.server_id].append(member)
        kept = {server_id: target.num_gpus for server_id, target in targets.items()}
        self.going = [member for server_id, members in own.items() for member in members[kept.get(server_id, 0) :]]
        self.coming = self._free({server_id: count - len(own[server_id]) for server_id, count in kept.items()})
        self._held = _held(self.attempt) if self.attempt is not None else {}

    @property
    def is_change(self) -> bool:
        """Return whether there is something to do now."""
        return self.attempt is not None and bool(self.going or self.coming)

    @property
    def server_ids(self) -> list[str]:
        """Return the servers to tell."""
        return sorted({*self._held, *self.coming})

    def _free(self, missing: Mapping[str, int]) -> dict[str, list[int]]:
        coming: dict[str, list[int]] = {}
        for server_id, count in missing.items():
            if count <= 0:
                continue
            room, target = self._rooms.get(server_id), self._targets[server_id]
            frac = count / target.num_gpus
            if room is None or len(room.free_gpus) < count:
                return {}
            if not room.has(cpus=target.cpus * frac, memory_bytes=target.memory_bytes * frac):
                return {}
            coming[server_id] = [room.gpus[index] for index in sorted(room.free_gpus)[:count]]
        return coming

    def new_leases(self) -> list[NewLease]:
        """Return the leases that the gang holds with its new GPUs, and take these from the free capacity."""
        new_leases = []
        for server_id in self.server_ids:
            before = self._held.get(server_id) or NewLease(
                server_id=server_id, gpu_pks=(), cpus=0.0, cpu_ids=(), memory_bytes=0
            )
            gpu_pks = tuple(self.coming.get(server_id, ()))
            if not gpu_pks:
                new_leases.append(before)
                continue
            target, room = self._targets[server_id], self._rooms[server_id]
            frac = len(gpu_pks) / target.num_gpus
            cpus, memory_bytes = target.cpus * frac, int(target.memory_bytes * frac)
            cpu_ids = room.take(cpus=cpus, memory_bytes=memory_bytes)
            room.free_gpus -= {index for index, pk in room.gpus.items() if pk in gpu_pks}
            new_leases.append(
                NewLease(
                    server_id=server_id,
                    gpu_pks=before.gpu_pks + gpu_pks,
                    cpus=before.cpus + cpus,
                    cpu_ids=tuple(sorted({*before.cpu_ids, *cpu_ids})),
                    memory_bytes=before.memory_bytes + memory_bytes,
                )
            )
        return new_leases


@transaction.atomic
def gang_reshare(
    share: GangShare, *, ids: Ids, generations: Mapping[str, int], round_number: int, at: datetime
) -> None:
    """Start the change of a running gang to its share. Raises JobChanged; then nothing is written."""
    attempt = share.attempt
    assert attempt is not None
    gang = Gang.objects.get(pk=attempt.pk)
    version, before = gang.version + 1, attempt.num_gpus
    changes = leases_rewrite(attempt, share.new_leases(), generations=generations, at=at) if share.coming else {}
    number = gang.members.order_by("-number").values_list("number", flat=True)[0]
    new = [pk for server_id in sorted(share.coming) for pk in share.coming[server_id]]
    GangMember.objects.bulk_create(
        GangMember(id=ids.ulid(at), gang=gang, number=number + place, gpu_id=pk, version=version)
        for place, pk in enumerate(new, start=1)
    )
    GangMember.objects.filter(pk__in=[member.pk for member in share.going]).update(leaving=True)
    Gang.objects.filter(pk=gang.pk).update(version=version)
    for server_id, generation in generations.items():
        Lease.objects.filter(attempt=attempt, server_id=server_id, closed_at=None).update(generation=generation)
    data = {
        "round": round_number,
        "version": version,
        "gpus_before": before,
        "gpus": gang.members.filter(leaving=False, ended_at=None).count(),
    }
    job_event(job=attempt.job, kind="job_resized", at=at, actor="scheduler", reason="share", data=data, changes=changes)


def member_leaves(member: GangMember) -> None:
    """Remove a process that ended before it trained from the membership."""
    GangMember.objects.filter(pk=member.pk).update(leaving=True)
    Gang.objects.filter(pk=member.gang_id).update(version=F("version") + 1)


def gpu_give_back(attempt: Attempt, member: GangMember, *, at: datetime) -> list[str]:
    """Free the GPU of an ended process while its gang continues; return the servers to tell."""
    held = _held(attempt)
    server_id = member.gpu.server_id
    whole = held[server_id]
    left = tuple(pk for pk in whole.gpu_pks if pk != member.gpu_id)
    frac = len(left) / len(whole.gpu_pks)
    shrunk = NewLease(
        server_id=server_id,
        gpu_pks=left,
        cpus=whole.cpus * frac,
        cpu_ids=whole.cpu_ids[: max(1, round(len(whole.cpu_ids) * frac))],
        memory_bytes=int(whole.memory_bytes * frac),
    )
    new_leases = [lease for lease in (held | {server_id: shrunk}).values() if lease.gpu_pks]
    told = generations_raise(held)
    before = attempt.num_gpus
    changes = leases_rewrite(attempt, new_leases, generations=told, at=at)
    data = {"gpus_before": before, "gpus": attempt.num_gpus}
    job_event(job=attempt.job, kind="job_resized", at=at, actor="scheduler", reason="left", data=data, changes=changes)
    request_round("resized")
    return sorted(told)


def _held(attempt: Attempt) -> dict[str, NewLease]:
    """Return what the attempt holds now, by server."""
    held = {}
    for lease in Lease.objects.filter(attempt=attempt, closed_at=None).order_by("server_id"):
        gpus = LeaseGpu.objects.filter(lease=lease, released_at=None).order_by("gpu__index")
        held[lease.server_id] = NewLease(
            server_id=lease.server_id,
            gpu_pks=tuple(gpus.values_list("gpu_id", flat=True)),
            cpus=lease.cpus,
            cpu_ids=tuple(lease.cpu_ids),
            memory_bytes=lease.memory_bytes,
        )
    return held


def leases_rewrite(
    attempt: Attempt, new_leases: Sequence[NewLease], *, generations: Mapping[str, int], at: datetime
) -> dict[str, float]:
    """Replace the open leases of a running attempt; return the job's service columns with the closed ones counted."""
    leases = Lease.objects.filter(attempt=attempt, closed_at=None)
    held_s, used_s = service_of(attempt, at=at)
    LeaseGpu.objects.filter(lease__in=leases, released_at=None).update(released_at=at)
    leases.update(closed_at=at)
    leases_open(attempt, new_leases, epoch=attempt.epoch, generations=generations, at=at)
    num_gpus = sum(len(lease.gpu_pks) for lease in new_leases)
    service = {
        "attained_gpu_s": attempt.job.attained_gpu_s + held_s * attempt.num_gpus,
        "executed_s": attempt.job.executed_s + used_s,
    }
    Attempt.objects.filter(pk=attempt.pk).update(num_gpus=num_gpus)
    attempt.num_gpus = num_gpus
    return service
