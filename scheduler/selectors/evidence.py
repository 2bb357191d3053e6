"""Why a job waits, in words that its reader may see.

The core knows queues by number alone (``queue_id``, ``other_queue_id``). Here they become names; a queue that the
reader may not see is "another queue", or "a queue above vision". Times become texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import QuerySet

from scheduler.core.model.lifecycle import WAITING
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.reasons import sentence
from scheduler.models import Job, Queue
from scheduler.selectors.rows import Json, ShownJob
from scheduler.selectors.visibility import Access

ANOTHER_JOB = "another job"
ANOTHER_QUEUE = "another queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names that one reader may see: of queues, by row, and whether of the jobs that others wait for."""

    queues: Mapping[int, str]
    jobs: bool = True

    def named(self, evidence: Json, *, own_queue: Queue) -> Json:
        """Return the evidence of a job of ``own_queue`` with names in place of ids."""
        known = {own_queue.pk: own_queue.name, **self.queues}
        named = {key: value for key, value in evidence.items() if not key.endswith("_id")}
        if "queue_id" in evidence:
            named["queue"] = known.get(evidence["queue_id"], f"A queue above {own_queue.name}")
        if "other_queue_id" in evidence:
            named["other_queue"] = known.get(evidence["other_queue_id"], ANOTHER_QUEUE)
        is_known = evidence.get("job_queue_id", own_queue.pk) in known
        if not is_known:  # what it waits for is none of the reader's business
            named.pop("job_state", None)
        if evidence.get("stuck_queue_id", own_queue.pk) not in known:
            named.pop("stuck_job", None)
            named.pop("stuck_state", None)
        if "job" in named and not (is_known and self.jobs):
            named["job"] = str(named["job"]).partition(" ")[0]
        if isinstance(evidence.get("drained_since"), str):
            named["drained_since"] = day_text(datetime.fromisoformat(evidence["drained_since"]))
        if isinstance(evidence.get("cause"), str):
            named["cause"] = evidence["cause"].replace("_", " ")
        return named


# For frames that many readers get: none of them is assumed to see more than the job's own queue.
ANY_READER = Names(queues={})


def names_of(access: Access) -> Names:
    """Return the names that one reader may know, by one query."""
    queues = Queue.objects.order_by().values_list("pk", "name")
    return Names(queues={pk: name for pk, name in queues if access.sees(pk)})


def job_shown(job: Job | None, access: Access) -> ShownJob:
    """Return a job, its queue joined, as far as the reader may see it."""
    if job is None or not access.sees(job.queue_id):
        return {"id": None, "number": None, "name": ANOTHER_JOB, "queue": ANOTHER_QUEUE, "color_slot": 0}
    return {
        "id": job.pk,
        "number": job.number,
        "name": job.name,
        "queue": job.queue.name,
        "color_slot": job.queue.color_slot,
    }


def jobs_ahead(job: Job) -> QuerySet[Job]:
    """Return the jobs that go first now, of all queues; none where ``job`` has no place in line."""
    return Job.objects.filter(state__in=sorted(WAITING), wait_position__lt=job.wait_position or 0)


def wait_evidence(job: Job, names: Names, *, ahead: int | None = None) -> Json:
    """Return the numbers of why ``job`` waits; empty when it does not.

    ``ahead``: how many go first now; None to say how many did after the last round.
    """
    evidence = names.named(job.wait_evidence, own_queue=job.queue)
    if job.wait_reason == WaitReason.BEHIND_POLICY_ORDER and job.wait_position:
        evidence["ahead_jobs"] = job.wait_position - 1 if ahead is None else ahead
    if job.wait_reason and job.retry_after is not None:
        evidence["retry_at"] = clock_text(job.retry_after)
    return evidence


def wait_sentence(job: Job, names: Names) -> str:
    """Return why ``job`` waits as a sentence; empty when it does not."""
    return sentence(job.wait_reason, wait_evidence(job, names)) if job.wait_reason else ""


def clock_text(at: datetime) -> str:
    """Return a time of day for a sentence; readers have many zones, so it says which one it means."""
    return f"{at.astimezone(UTC):%H:%M} UTC"


def day_text(at: datetime) -> str:
    """Return the same with its day, for what may have lasted for days."""
    return f"{at.astimezone(UTC):%a %-d %b %H:%M} UTC"
