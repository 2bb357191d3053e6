"""The processes of a gang in the database: one per GPU or per server, and what each is told of the others.

A gang is opened with its attempt. ``ends.py`` decides how gangs end, ``shares.py`` how their size changes.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain

from django.db import transaction
from django.db.models import F, Q, Sum

from agents.protocol.gangs import GangHost, GangOrder
from agents.protocol.ports import Ids
from scheduler.core.spec.launch import LaunchPer, stored_per
from scheduler.models import Attempt, Gang, GangMember, Gpu, Job, LeaseGpu

# Ports for leaders: below the ephemeral ports of Linux, and below those that torch takes when none is named (29400,
# 29500): scripts that name none meet each other there.
PORTS = range(20_000, 29_000)
LOOPBACK = "127.0.0.1"


def launches_read(job_ids: Sequence[str]) -> dict[str, LaunchPer]:
    """Return for what one process of each job's command is started."""
    rows = Job.objects.filter(pk__in=job_ids).values_list("pk", "spec__launch", "spec__resources") if job_ids else ()
    return {pk: stored_per({"launch": launch, "resources": resources}) for pk, launch, resources in rows}


@transaction.atomic
def gangs_open(starts: Sequence[tuple[Attempt, LaunchPer]], *, ids: Ids, at: datetime) -> None:
    """Create the processes of new attempts; a leader is on the server with the most GPUs, which goes last."""
    attempts = [attempt for attempt, _ in starts]
    if not attempts:
        return
    held = LeaseGpu.objects.filter(lease__attempt__in=attempts, released_at=None).select_related("gpu__server")
    gpus: dict[str, list[Gpu]] = defaultdict(list)
    rows = held.annotate(attempt_id=F("lease__attempt_id")).order_by("lease__server__number", "gpu__index")
    for row in rows:
        gpus[row.attempt_id].append(row.gpu)
    ports = _free_ports(attempts)
    gangs: list[Gang] = []
    members: list[GangMember] = []
    for (attempt, per), port in zip(starts, ports, strict=True):
        own = _widest_first(gpus[attempt.pk])
        gang = Gang(attempt=attempt, address=_address(own[0]), port=port, held_port=port, secret=secrets.token_hex(16))
        if per is LaunchPer.SERVER:
            slots = Counter(gpu.server_id for gpu in own)
            first: dict[str, Gpu] = {}
            for gpu in own:
                first.setdefault(gpu.server_id, gpu)
            own = list(first.values())
            gang.hosts = [[_address(gpu), slots[gpu.server_id]] for gpu in own]
        gangs.append(gang)
        members += [
            GangMember(id=attempt.pk if number == 0 else ids.ulid(at), gang=gang, number=number, gpu=gpu)
            for number, gpu in enumerate(own)
        ]
    Gang.objects.bulk_create(gangs)
    GangMember.objects.bulk_create(members)


def _address(gpu: Gpu) -> str:
    return gpu.server.address or LOOPBACK


def _widest_first(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs, those of the server with the most of them first."""
    count = Counter(gpu.server_id for gpu in gpus)
    return sorted(gpus, key=lambda gpu: -count[gpu.server_id])


def _free_ports(attempts: Sequence[Attempt]) -> list[int]:
    """Return a port for each attempt that no other gang uses; a job that starts again gets another one.

    Ports differ over all servers: a gang may have its leader on any. The database refuses one in two open gangs.
    """
    Gang.objects.filter(attempt__ended_at__isnull=False, held_port__isnull=False).update(held_port=None)
    taken = set(Gang.objects.filter(attempt__ended_at=None).values_list("port", flat=True))
    chosen: list[int] = []
    for attempt in attempts:
        first = (attempt.job.number * 31 + attempt.number) % len(PORTS)
        port: int = next(port for port in chain(PORTS[first:], PORTS[:first]) if port not in taken)
        taken.add(port)
        chosen.append(port)
    return chosen


def members_on(server_id: str) -> dict[str, list[GangMember]]:
    """Return the processes that a server is to run, by attempt, in the order of joining."""
    return members_by_server([server_id]).get(server_id, {})


def members_by_server(server_ids: Iterable[str]) -> dict[str, dict[str, list[GangMember]]]:
    """Return what ``members_on`` returns, by server."""
    members = GangMember.objects.filter(gpu__server__in=server_ids, ended_at=None, gang__attempt__ended_at=None)
    found: dict[str, dict[str, list[GangMember]]] = {}
    for member in members.select_related("gang", "gpu").order_by("gang_id", "number"):
        found.setdefault(member.gpu.server_id, {}).setdefault(member.gang_id, []).append(member)
    return found


def memberships_of(gang_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the ids of the processes that belong to each gang, the leader first."""
    members = GangMember.objects.filter(gang__in=gang_ids, leaving=False).order_by("number")
    found: dict[str, tuple[str, ...]] = dict.fromkeys(gang_ids, ())
    for gang_id, pk in members.values_list("gang_id", "pk"):
        found[gang_id] += (pk,)
    return found


def gang_order(member: GangMember, membership: Sequence[str]) -> GangOrder:
    """Return the order for one process; only the leader's names the other members."""
    gang = member.gang
    is_leader = member.pk == gang.attempt_id
    return GangOrder(
        rank=membership.index(member.pk) if member.pk in membership else len(membership),
        size=max(1, len(membership)),
        version=gang.version if is_leader else member.version,
        members=tuple(membership) if is_leader else (),
        address=gang.address,
        port=gang.port,
        secret=gang.secret,
        hosts=tuple(GangHost(address=address, slots=slots) for address, slots in gang.hosts),
    )


def peak_of(gang_id: str, *, server_id: str = "") -> int | None:
    """Return the sum of the peak memory of its processes, on one server or on all, bytes; None for unknown."""
    members = GangMember.objects.filter(gang_id=gang_id, ended_at=None)
    if server_id:
        members = members.filter(gpu__server_id=server_id)
    total: int | None = members.aggregate(total=Sum("peak_memory_bytes"))["total"]
    return total


def is_settled(attempt: Attempt) -> bool:
    """Return whether a gang has switched to its newest membership and no leaving process is left."""
    gang = Gang.objects.get(pk=attempt.pk)
    return gang.done_version == gang.version and not gang.members.filter(leaving=True, ended_at=None).exists()


def gangs_forming(attempt_pks: Iterable[str]) -> set[str]:
    """Return the attempts whose gang has not formed yet, or not since its share changed."""
    unsettled = Q(done_version=None) | Q(done_version__lt=F("version"))
    return set(Gang.objects.filter(unsettled, pk__in=list(attempt_pks)).values_list("pk", flat=True))


def gang_seat(attempt: Attempt, gpu_pks: Mapping[str, Sequence[int]]) -> None:
    """Assign the processes of a parked gang the GPUs, by server, on which they continue."""
    for server_id, pks in gpu_pks.items():
        members = GangMember.objects.filter(gang_id=attempt.pk, gpu__server_id=server_id, ended_at=None)
        members = members.order_by("gpu__index", "number")
        for member, gpu_pk in zip(members, pks, strict=True):
            GangMember.objects.filter(pk=member.pk).update(gpu_id=gpu_pk)


def is_whole(gang: Gang) -> bool:
    """Return whether every process of the first membership was seen running."""
    return not gang.members.filter(version=0, started_at=None).exists()


def attempts_of(member_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the attempt of each process id; an id that is no gang member is an attempt itself."""
    ids = list(member_ids)
    found = dict(GangMember.objects.filter(pk__in=ids).values_list("pk", "gang_id"))
    return {one: found.get(one, one) for one in ids}
