"""Why jobs wait after a round: as its plan says, because a grant is not free yet, or because scheduling is paused."""

from collections.abc import Mapping
from datetime import datetime

from scheduler.core.model.plan import Evidence, Plan, WaitReason
from scheduler.live.rounds.job_table import plannable
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Cluster, Job
from scheduler.services.jobs.state import Wait, job_waits_record

# Jobs that no policy puts in order; a plan names them after all others.
HELD_BACK = frozenset({WaitReason.ARRAY_LIMIT, WaitReason.DEPENDENCY})


def plan_waits(live: LiveSnapshot, plan: Plan, *, deferred: Mapping[int, Evidence]) -> list[Wait]:
    """Return the wait reasons of a plan; ``deferred`` are job rows with a grant that is not free yet."""
    waiting = zip(plan.waiting.job.tolist(), plan.waiting.causes, strict=True)
    waits = [
        Wait(
            job_id=live.job_pks[row],
            reason=reason,
            evidence={**evidence, **live.told.get(row, {})} if reason is WaitReason.DEPENDENCY else evidence,
            position=None if reason in HELD_BACK else position,
        )
        for position, (row, (reason, evidence)) in enumerate(waiting, start=1)
    ]
    return waits + [
        Wait(job_id=live.job_pks[row], reason=WaitReason.RECONFIGURING, evidence=evidence, position=None)
        for row, evidence in sorted(deferred.items())
    ]


def waits_of_pause(cluster: Cluster, *, at: datetime) -> None:
    """Record why nothing starts while an admin has paused scheduling; running jobs go on."""
    waiting = Job.objects.filter(plannable(at), state="queued").order_by("number").values_list("pk", flat=True)
    waits = [Wait(job_id=pk, reason=WaitReason.POLICY_PAUSED, evidence={}, position=None) for pk in waiting]
    job_waits_record(waits=waits, round_number=cluster.round_number, at=at)
    Cluster.objects.filter(pk=1).update(round_finished_at=at)
