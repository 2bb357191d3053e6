"""The inbox of the overview: what needs an admin, each with its cause and the one thing to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from frontend.components.devices import DeviceWord
from frontend.components.times import as_time_or_none
from frontend.pages.overview.alert_words import cause_of, finding_of, inbox_cost, inbox_title
from scheduler.selectors.cluster.alerts import AlertKind, AlertRow

SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLine:
    """One alert.

    Attributes:
        href: Where the finding leads.
        verb: What the button says; it leads to ``to``, or is sent there.
        is_danger: Whether what it does takes GPUs from jobs, and looks so.
    """

    key: str
    tone: str
    icon: str
    finding: str
    cause: str
    href: str
    since: datetime | None
    is_new: bool
    verb: str
    to: str
    is_sent: bool = False
    is_danger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """The card."""

    title: str
    cost: str
    first: Sequence[AlertLine]
    more: Sequence[AlertLine]


# Icon and colour of each kind.
_LOOKS = {
    AlertKind.SERVER_LOST: ("server", "bad"),
    AlertKind.SERVER_DRAINED: ("server", "drained"),
    AlertKind.SERVER_SILENT: ("server", "warn"),
    AlertKind.GPU_BROKEN: ("triangle-alert", "bad"),
    AlertKind.ROUND_LATE: ("history", "warn"),
    AlertKind.STEP_FAILING: ("triangle-alert", "bad"),
    AlertKind.QUEUE_UNFAIR: ("hourglass", "warn"),
    AlertKind.QUOTA_ASKED: ("arrow-left-right", "info"),
    AlertKind.QUOTA_OVERDUE: ("hourglass", "warn"),
    AlertKind.BUDGET_OVER: ("gauge", "warn"),
    AlertKind.SIZE_JUMP: ("server", "warn"),
    AlertKind.DISK_FULL: ("hard-drive", "warn"),
    AlertKind.FILES_STAY: ("hard-drive", "warn"),
    AlertKind.WEBHOOK_FAILING: ("unplug", "bad"),
}


def inbox_of(rows: Sequence[AlertRow], *, looked_at: datetime | None, device: DeviceWord) -> Inbox:
    """Return the inbox; what began after the reader last looked is new."""
    lines = [_line(row, looked_at, device) for row in rows]
    return Inbox(
        title=inbox_title(len(lines), sum(line.is_new for line in lines)),
        cost=inbox_cost(rows, device),
        first=lines[:SHOWN],
        more=lines[SHOWN:],
    )


def _line(row: AlertRow, looked_at: datetime | None, device: DeviceWord) -> AlertLine:
    icon, tone = _LOOKS[AlertKind(row["kind"])]
    since = as_time_or_none(row["since"])
    verb, to, is_sent = _action(row)
    return AlertLine(
        key=row["key"],
        tone=tone,
        icon=icon,
        finding=finding_of(row, device),
        cause=cause_of(row, device),
        href=_details(row),
        since=since,
        is_new=looked_at is not None and since is not None and since > looked_at,
        verb=verb,
        to=to,
        is_sent=is_sent,
        is_danger=row["kind"] == AlertKind.GPU_BROKEN,
    )


def _details(row: AlertRow) -> str:
    kind, id_ = AlertKind(row["kind"]), row["subject_id"]
    if kind is AlertKind.QUEUE_UNFAIR:
        return reverse("queue", args=[id_])
    if kind is AlertKind.WEBHOOK_FAILING:
        return reverse("webhook", args=[int(id_)])
    if kind is AlertKind.DISK_FULL:
        return reverse("admin-kept")
    if kind is AlertKind.FILES_STAY:
        return reverse("job", args=[f"J-{row['numbers']['oldest_job']}"])
    if kind is AlertKind.BUDGET_OVER:
        return reverse("admin-costs")
    if kind is AlertKind.QUOTA_ASKED:
        return f"{reverse('queue', args=[row['subject']])}?tab=quota&request={id_}"
    if kind is AlertKind.QUOTA_OVERDUE:
        return f"{reverse('queue', args=[row['subject']])}?tab=quota&gpus={row['numbers']['before_gpus']}"
    if kind in (AlertKind.ROUND_LATE, AlertKind.STEP_FAILING):
        return reverse("rounds")
    return reverse("server", args=[id_])


def _action(row: AlertRow) -> tuple[str, str, bool]:
    """Return what the button says, where it leads, and whether it is sent."""
    kind, id_, name = AlertKind(row["kind"]), row["subject_id"], row["subject"]
    if kind is AlertKind.SERVER_DRAINED:
        return f"Undrain {name}\u2026", reverse("server-undrain", args=[id_]), False
    if kind is AlertKind.GPU_BROKEN:
        return f"Drain {name}\u2026", reverse("server-drain", args=[id_]), False
    if kind is AlertKind.QUEUE_UNFAIR:
        return "Compare policies", reverse("what-if-new"), False
    if kind is AlertKind.WEBHOOK_FAILING:
        return "Send a test", reverse("webhook-test", args=[int(id_)]), True
    verbs = {
        AlertKind.BUDGET_OVER: "Show costs",
        AlertKind.QUOTA_ASKED: "Preview and answer",
        AlertKind.QUOTA_OVERDUE: "Preview the return",
        AlertKind.DISK_FULL: "Show what is kept",
        AlertKind.FILES_STAY: f"Open J-{row['numbers'].get('oldest_job')}",
        AlertKind.ROUND_LATE: "Show rounds",
        AlertKind.STEP_FAILING: "Show rounds",
        AlertKind.SIZE_JUMP: "Check the size",
    }
    return verbs.get(kind, f"Open {name}"), _details(row), False
