"""The processes of a gang in the database: one per GPU, and what each is told of the others.

A gang is opened with its attempt. ``ends.py`` decides how gangs end, ``shares.py`` how their size changes.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q, Sum

from agents.protocol.gangs import GangOrder
from agents.protocol.ports import Ids
from scheduler.models import Attempt, Gang, GangMember, LeaseGpu

# Ports for leaders: below the ephemeral ports of Linux.
PORTS = range(20_000, 32_000)
LOOPBACK = "127.0.0.1"


@transaction.atomic
def gang_open(attempt: Attempt, *, ids: Ids, at: datetime) -> None:
    """Create one process per GPU of a new attempt; the leader is on the server with the most GPUs, which goes last."""
    held = LeaseGpu.objects.filter(lease__attempt=attempt, released_at=None).select_related("gpu__server")
    gpus = [row.gpu for row in held.order_by("lease__server__number", "gpu__index")]
    count = Counter(gpu.server_id for gpu in gpus)
    gpus.sort(key=lambda gpu: -count[gpu.server_id])
    gang = Gang.objects.create(
        attempt=attempt,
        address=gpus[0].server.address or LOOPBACK,
        port=_free_port(attempt),
        secret=secrets.token_hex(16),
    )
    GangMember.objects.bulk_create(
        GangMember(id=attempt.pk if number == 0 else ids.ulid(at), gang=gang, number=number, gpu=gpu)
        for number, gpu in enumerate(gpus)
    )


def _free_port(attempt: Attempt) -> int:
    """Return a port that no other gang uses; a job that starts again gets another one."""
    taken = set(Gang.objects.filter(attempt__ended_at=None).values_list("port", flat=True))
    first = (attempt.job.number * 31 + attempt.number) % len(PORTS)
    port: int = next(port for port in (*PORTS[first:], *PORTS[:first]) if port not in taken)
    return port


def members_on(server_id: str) -> dict[str, list[GangMember]]:
    """Return the processes that a server is to run, by attempt, in the order of joining."""
    members = GangMember.objects.filter(gpu__server_id=server_id, ended_at=None, gang__attempt__ended_at=None)
    found: dict[str, list[GangMember]] = {}
    for member in members.select_related("gang", "gpu").order_by("gang_id", "number"):
        found.setdefault(member.gang_id, []).append(member)
    return found


def membership_of(gang: Gang) -> tuple[str, ...]:
    """Return the ids of the processes that belong to the gang, the leader first."""
    return tuple(gang.members.filter(leaving=False).order_by("number").values_list("pk", flat=True))


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
