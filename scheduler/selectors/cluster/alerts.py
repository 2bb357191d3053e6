"""What needs an admin now: one row for each cause that still holds, by a fixed number of queries.

An alert is no event: it is read from how things are, so it leaves by itself when its cause is gone. Order: what keeps
GPUs out of use, then what hurts jobs now, then what breaks later; within that the oldest first.
"""

import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, TypedDict

from django.conf import settings
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, Subquery, Sum

from scheduler.models import Cluster, Delivery, Event, Gpu, Job, LeaseGpu, Queue, QueueBudget, QuotaRequest, Server
from scheduler.models.queue import RequestState
from scheduler.models.server import ServerState
from scheduler.models.webhook import DeliveryState
from scheduler.selectors.cluster.costs import costs_of_all
from scheduler.selectors.cluster.fairness import FAIR, UNFAIR
from scheduler.selectors.rows import Json, Moment, one_of
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, is_admin

SILENT_AFTER = timedelta(minutes=10)  # a server that was added and never reported
LATE_ROUNDS = 3
LATE_GRACE = timedelta(seconds=5)
DISK_FULL_FRAC = 0.9
FAILED_IN_A_ROW = 3  # messages of a webhook
FILES_STAY_AFTER = timedelta(days=1)  # agents remove named directories within minutes


class AlertKind(StrEnum):
    """What is wrong, in the order in which it is told."""

    SERVER_LOST = "server_lost"
    SERVER_DRAINED = "server_drained"
    SERVER_SILENT = "server_silent"
    GPU_BROKEN = "gpu_broken"
    ROUND_LATE = "round_late"
    STEP_FAILING = "step_failing"
    QUEUE_UNFAIR = "queue_unfair"
    QUOTA_ASKED = "quota_asked"
    QUOTA_OVERDUE = "quota_overdue"
    BUDGET_OVER = "budget_over"
    SIZE_JUMP = "size_jump"
    DISK_FULL = "disk_full"
    FILES_STAY = "files_stay"
    WEBHOOK_FAILING = "webhook_failing"


_HURTS_JOBS = frozenset({AlertKind.ROUND_LATE, AlertKind.STEP_FAILING, AlertKind.QUEUE_UNFAIR})


class AlertRow(TypedDict):
    """One thing that needs an admin."""

    key: Annotated[str, "The same as long as the cause holds: `<kind>:<id of the subject>`."]
    kind: Annotated[str, one_of(AlertKind)]
    subject: Annotated[str, "Name of the server, queue, webhook or part of the scheduler; empty for the cluster."]
    subject_id: Annotated[str, "Its id in paths; of a request for quota, the id of the request."]
    since: Annotated[Moment | None, "null where nothing says when it began."]
    lost_gpus: Annotated[int, "GPUs that it keeps out of use."]
    numbers: Annotated[Json, "The cause in numbers; a key carries its unit."]


def alerts(user: Actor, at: datetime) -> list[AlertRow]:
    """Return what needs an admin at this moment, most urgent first; nothing for other users."""
    if not is_admin(user):
        return []
    found = [
        *_of_servers(at),
        *_of_scheduler(at),
        *_of_queues(),
        *_of_requests(at),
        *_of_budgets(at),
        *_of_webhooks(),
        *_of_disk(),
        *_of_directories(at),
    ]
    return sorted(found, key=lambda row: (_urgency(row), row["since"] or "", row["key"]))


def _urgency(row: AlertRow) -> int:
    return 0 if row["lost_gpus"] else 1 if row["kind"] in _HURTS_JOBS else 2


def _row(
    kind: AlertKind,
    numbers: Json,
    *,
    subject: str = "",
    id_: object = "",
    since: datetime | None = None,
    lost_gpus: int = 0,
) -> AlertRow:
    return {
        "key": f"{kind}:{id_}",
        "kind": kind.value,
        "subject": subject,
        "subject_id": str(id_),
        "since": iso(since),
        "lost_gpus": lost_gpus,
        "numbers": numbers,
    }


def _of_servers(at: datetime) -> Iterator[AlertRow]:
    held = LeaseGpu.objects.filter(released_at__isnull=True).values_list("gpu__server_id")
    counts = held.annotate(jobs=Count("lease__attempt", distinct=True), gpus=Count("gpu", distinct=True)).order_by()
    running = {server_id: (jobs, gpus) for server_id, jobs, gpus in counts}
    counted = Server.objects.defer("key_hex").annotate(num_gpus=Count("gpus")).order_by("number")
    broken: dict[str, list[Gpu]] = {}
    for gpu in Gpu.objects.filter(healthy=False).order_by("server_id", "index"):
        broken.setdefault(gpu.server_id, []).append(gpu)
    for server in counted:
        since, (jobs, held_gpus) = server.state_changed_at, running.get(server.pk, (0, 0))
        numbers: Json = {}
        if server.state == ServerState.LOST:
            kind, numbers = AlertKind.SERVER_LOST, {"last_report_at": iso(server.last_report_at)}
        elif server.state == ServerState.DRAINING:
            kind, numbers = AlertKind.SERVER_DRAINED, {"reason": server.state_reason, "jobs": jobs}
        elif server.state == ServerState.JOINING and at - server.created_at > SILENT_AFTER:
            kind = AlertKind.SERVER_SILENT
        else:
            yield from _of_broken(server, broken.get(server.pk, ()))
            yield from _of_size(server)
            continue
        # What a drained server still holds works; what a lost one holds does not.
        working_gpus = held_gpus if kind is AlertKind.SERVER_DRAINED else 0
        lost_gpus = server.num_gpus - working_gpus
        yield _row(kind, numbers, subject=server.name, id_=server.pk, since=since, lost_gpus=lost_gpus)


def _of_broken(server: Server, gpus: Iterable[Gpu]) -> Iterator[AlertRow]:
    """Return the broken GPUs of one server as one alert; what told of them says not since when."""
    found = list(gpus)
    if found:
        yield _row(
            AlertKind.GPU_BROKEN,
            {"gpus": [gpu.index for gpu in found], "reason": found[0].health_reason},
            subject=server.name,
            id_=server.pk,
            lost_gpus=len(found),
        )


def _of_size(server: Server) -> Iterator[AlertRow]:
    if server.claimed_size:
        sizes = {"believed": server.trusted_size, "claimed": server.claimed_size}
        yield _row(AlertKind.SIZE_JUMP, sizes, subject=server.name, id_=server.pk)


def _of_scheduler(at: datetime) -> Iterator[AlertRow]:
    cluster = Cluster.objects.filter(pk=1).first()
    if cluster is None:
        return
    finished_at = cluster.round_finished_at
    period = timedelta(seconds=settings.ROUND_S)
    if finished_at and not cluster.paused and at - finished_at > LATE_ROUNDS * period + LATE_GRACE:
        numbers = {"round": cluster.round_number, "round_s": settings.ROUND_S}
        yield _row(AlertKind.ROUND_LATE, numbers, since=finished_at + period)
    for step, failure in sorted(cluster.failing_steps.items()):
        began = datetime.fromisoformat(failure["since"])
        yield _row(AlertKind.STEP_FAILING, {"error": failure["error"]}, subject=step, id_=step, since=began)


def _of_queues() -> Iterator[AlertRow]:
    """Return the queues of which the scheduler last said that they fare too badly."""
    last = Event.objects.filter(queue=OuterRef("pk"), kind__in=(UNFAIR, FAIR)).order_by("-id")
    told = Queue.objects.annotate(
        told_kind=Subquery(last.values("kind")[:1]),
        told_at=Subquery(last.values("at")[:1]),
        told=Subquery(last.values("data")[:1]),
    )
    for name, since, data in told.filter(told_kind=UNFAIR).order_by("name").values_list("name", "told_at", "told"):
        numbers = {"rho": data.get("rho"), "limit": data.get("limit")}
        yield _row(AlertKind.QUEUE_UNFAIR, numbers, subject=name, id_=name, since=since)


def _of_requests(at: datetime) -> Iterator[AlertRow]:
    """Return the open requests for quota, and the quotas that were given until a day that is over and are as given."""
    asked = QuotaRequest.objects.filter(state=RequestState.OPEN).select_related("queue", "asked_by").order_by("pk")
    changed_since = Event.objects.filter(queue=OuterRef("queue"), kind="quota", at__gt=OuterRef("answered_at"))
    granted = QuotaRequest.objects.filter(state=RequestState.GRANTED, until__lt=at.astimezone(UTC).date())
    as_given = Q(queue__quota_gpus=F("given_gpus"))  # the event of a change is not kept for ever
    overdue = granted.filter(as_given, ~Exists(changed_since)).select_related("queue", "asked_by").order_by("pk")
    for kind, found in ((AlertKind.QUOTA_ASKED, asked), (AlertKind.QUOTA_OVERDUE, overdue)):
        for one in found:
            until = one.until
            numbers = {
                "user": one.asked_by.username,
                "quota_gpus": one.quota_gpus if kind is AlertKind.QUOTA_ASKED else one.given_gpus,
                "before_gpus": one.before_gpus,
                "until": until.isoformat() if until else None,
                "reason": one.reason,
            }
            ended = datetime.combine(until, time(), tzinfo=UTC) + timedelta(days=1) if until else None
            since = one.asked_at if kind is AlertKind.QUOTA_ASKED else ended
            yield _row(kind, numbers, subject=one.queue.name, id_=one.pk, since=since)


def _of_budgets(at: datetime) -> Iterator[AlertRow]:
    """Return the queues that have spent, or at the pace so far are going to spend, more than this month's budget."""
    if not QueueBudget.objects.filter(amount__isnull=False).exists():
        return
    report = costs_of_all(at.astimezone(UTC).date().replace(day=1), at)
    for row in report["rows"]:
        budget, most = row["budget"], max(row["spent"], row["forecast"] or 0.0)
        if budget is not None and most > budget:
            numbers = {
                "spent": row["spent"],
                "budget": budget,
                "forecast": row["forecast"],
                "currency": report["currency"],
            }
            yield _row(AlertKind.BUDGET_OVER, numbers, subject=row["queue"], id_=row["queue"])


def _of_webhooks() -> Iterator[AlertRow]:
    """Return the webhooks whose newest messages were all refused or not answered."""
    of_same = Delivery.objects.filter(webhook=OuterRef("webhook"))
    delivered = of_same.filter(state=DeliveryState.DELIVERED).order_by().values("webhook")
    newest = of_same.filter(tries__gt=0).exclude(state=DeliveryState.DELIVERED).order_by("-id")
    tried = Delivery.objects.filter(webhook__revoked_at__isnull=True, tries__gt=0).exclude(
        state=DeliveryState.DELIVERED
    )
    tried = tried.annotate(well=Subquery(delivered.annotate(last=Max("pk")).values("last")))
    rows = tried.filter(Q(well__isnull=True) | Q(pk__gt=F("well"))).order_by().values("webhook_id", "webhook__name")
    found = rows.annotate(
        failed=Count("pk"),
        first_at=Min("created_at"),
        problem=Subquery(newest.values("problem")[:1]),
    )
    for row in found.filter(failed__gte=FAILED_IN_A_ROW).order_by("webhook_id"):
        yield _row(
            AlertKind.WEBHOOK_FAILING,
            {"failed": row["failed"], "problem": row["problem"]},
            subject=row["webhook__name"],
            id_=row["webhook_id"],
            since=row["first_at"],
        )


def _of_disk() -> Iterator[AlertRow]:
    """Return the shared directory where it is nearly full; nothing where it is not mounted here."""
    try:
        usage = shutil.disk_usage(settings.SHARED_DIR)
    except OSError:
        return
    used = 1 - usage.free / usage.total if usage.total else 0.0
    if used >= DISK_FULL_FRAC:
        numbers = {"used_frac": round(used, 3), "free_bytes": usage.free}
        yield _row(AlertKind.DISK_FULL, numbers, subject=str(settings.SHARED_DIR))


def _of_directories(at: datetime) -> Iterator[AlertRow]:
    """Return the directories that were to be removed a day ago and are there, as one alert with the oldest."""
    there = Job.objects.filter(directory_bytes__isnull=False, directory_removed_at__isnull=True)
    late = there.filter(directory_removal_at__lt=at - FILES_STAY_AFTER)
    found = late.aggregate(jobs=Count("pk"), size_bytes=Sum("directory_bytes"), first_at=Min("directory_removal_at"))
    if found["jobs"]:
        oldest = late.order_by("directory_removal_at", "pk").values_list("number", flat=True)[0]
        numbers = {"jobs": found["jobs"], "size_bytes": found["size_bytes"], "oldest_job": oldest}
        yield _row(AlertKind.FILES_STAY, numbers, since=found["first_at"])
