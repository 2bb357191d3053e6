"""Why jobs wait after a round: as its plan says, because a grant is not free yet, or because scheduling is paused."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.place_in_line import Placed
from scheduler.live.rounds.job_table import plannable
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Cluster, Job
from scheduler.selectors.cluster.drained import Drained, drained_evidence, drained_now
from scheduler.services.jobs.state import Wait, job_waits_record

# Reasons that a drained server may cause; and all reasons of which the database knows more than the plan.
FOR_DRAINED = frozenset({WaitReason.NEVER_FEASIBLE, WaitReason.NO_SERVER})
MORE_IS_KNOWN = FOR_DRAINED | {WaitReason.DEPENDENCY}


def plan_waits(live: LiveSnapshot, line: Sequence[Placed], *, deferred: Mapping[int, Evidence]) -> list[Wait]:
    """Return the reasons of jobs in line; ``deferred`` are job rows with a grant that is not free yet."""
    drained = drained_now() if any(reason in FOR_DRAINED for _, _, (reason, _) in line) else []
    waits = [
        Wait(
            job_id=live.job_pks[row],
            reason=reason,
            evidence={**evidence, **_known(live, row, reason, drained)} if reason in MORE_IS_KNOWN else evidence,
            position=place,
        )
        for row, place, (reason, evidence) in line
    ]
    return waits + [
        Wait(job_id=live.job_pks[row], reason=WaitReason.RECONFIGURING, evidence=evidence, position=None)
        for row, evidence in sorted(deferred.items())
    ]


def _known(live: LiveSnapshot, row: int, reason: WaitReason, drained: Sequence[Drained]) -> Evidence:
    """Return what the plan cannot know: of which jobs a job waits, and that it would fit with the drained servers."""
    if reason is WaitReason.DEPENDENCY:
        return live.told.get(row, {})
    if not drained:
        return {}
    jobs, up = live.tables.jobs, live.tables.servers.num_gpus.tolist()
    most = int(jobs.max_servers[row]) or len(up) + len(drained)
    largest = sorted([*up, *(server.num_gpus for server in drained)], reverse=True)[:most]
    if reason is WaitReason.NEVER_FEASIBLE and sum(largest) < int(jobs.num_gpus[row]):
        return {}
    return drained_evidence(drained)


def waits_of_pause(cluster: Cluster, *, at: datetime) -> None:
    """Record why nothing starts while an admin has paused scheduling; running jobs go on."""
    waiting = Job.objects.filter(plannable(at), state="queued").order_by("number").values_list("pk", flat=True)
    waits = [Wait(job_id=pk, reason=WaitReason.POLICY_PAUSED, evidence={}, position=None) for pk in waiting]
    job_waits_record(waits=waits, round_number=cluster.round_number, at=at)
    Cluster.objects.filter(pk=1).update(round_finished_at=at)
