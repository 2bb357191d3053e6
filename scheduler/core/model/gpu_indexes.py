"""Turn the GPU counts of a plan into GPU indexes on each server, and name the jobs that must wait for theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.core.model.plan import Plan

# (row in JobTable, row in ServerTable)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAssignment:
    """GPU indexes of a plan.

    Attributes:
        gpus: Indexes by (job row, server row), ascending, for every kept job and every job that can start now.
        deferred: Jobs with a grant whose GPUs another job still holds, with the number of GPUs they wait for.
    """

    gpus: dict[Place, tuple[int, ...]]
    deferred: dict[int, int]


def assign_gpu_ids(
    plan: Plan,
    *,
    held: Mapping[Place, Sequence[int]],
    free: Mapping[int, Sequence[int]],
    before: Mapping[Place, Sequence[int]] | None = None,
) -> GpuAssignment:
    """Return the GPU indexes of every grant, in the order of the policy: first those held before, then the lowest free.

    Jobs that share GPUs get the same indexes: those that one of them has already, else those of the host.

    Args:
        plan: What the round decided.
        held: Indexes that running jobs of the snapshot hold now, by (job row, server row).
        free: Healthy indexes that no job holds now, by server row; GPUs of jobs that are leaving are not among them.
        before: Indexes that waiting jobs held last and get again if free, by (job row, server row).
    """
    places: dict[int, list[tuple[int, int]]] = {}
    for job, server, count in zip(
        plan.grants.job.tolist(), plan.grants.server.tolist(), plan.grants.num_gpus.tolist(), strict=True
    ):
        places.setdefault(job, []).append((server, count))
    leaving = {preemption.job for preemption in plan.preemptions}
    left = {server: sorted(indexes) for server, indexes in free.items()}
    gpus: dict[Place, tuple[int, ...]] = {}
    deferred: dict[int, int] = {}
    for job in plan.kept:
        gpus.update({(job, server): tuple(sorted(held[job, server])) for server, _ in places[job]})
    partner = {**plan.riding, **{host: guest for guest, host in plan.riding.items() if guest in plan.kept}}
    # A guest comes after its host, whose GPUs it shares.
    for job in sorted(plan.order, key=lambda job: job in partner):
        seats = places.get(job, [])
        if job in plan.kept:
            continue
        if job in partner and job not in leaving:
            if partner[job] in deferred:
                deferred[job] = deferred[partner[job]]
            else:
                gpus.update({(job, server): gpus[partner[job], server] for server, _ in seats})
            continue
        missing = sum(max(0, count - len(left.get(server, ()))) for server, count in seats)
        if missing or (seats and job in leaving):
            deferred[job] = missing
            continue
        for server, count in seats:
            liked = (before or {}).get((job, server), ())
            chosen = sorted(left[server], key=lambda index: (index not in liked, index))[:count]
            gpus[job, server] = tuple(sorted(chosen))
            left[server] = [index for index in left[server] if index not in chosen]
    return GpuAssignment(gpus=gpus, deferred=deferred)
