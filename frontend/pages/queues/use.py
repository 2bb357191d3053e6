"""The usage tab: GPU-hours by user, and loans between queues."""

from typing import TypedDict
from urllib.parse import urlencode

from frontend.components.costs import CostLine, cost_line
from frontend.components.devices import DeviceWord
from frontend.components.formats import counted, gpu_hours, iso
from frontend.components.times import Range
from frontend.components.viewer import now_utc
from scheduler.models import Queue
from scheduler.selectors.cluster.costs import costs
from scheduler.selectors.queues.rows import LoanRow, UsageReport, UsageRow
from scheduler.selectors.queues.taken import TakenReport, TakerRow, taken
from scheduler.selectors.queues.usage import loan_ledger, usage
from scheduler.selectors.visibility import Actor

LEAST_GPU_HOURS = 1 / 3600


class UsageBar(UsageRow):
    """One user's GPU-hours; ``percent`` of the largest, ``busy_frac`` of the measured ones."""

    percent: float
    busy_frac: float | None


class UsageTab(TypedDict):
    """The context of the tab; a loan card is a title, its rows and ``lent`` or ``borrowed``."""

    usage: UsageReport
    usage_rows: list[UsageBar]
    several_queues: bool
    range_words: str
    csv_href: str
    loan_cards: list[tuple[str, list[LoanRow], str]]
    cost: CostLine | None
    cost_month: str
    cost_goes_on: bool
    taken: TakenReport
    taken_title: str
    taken_tables: list[tuple[str, list[TakerRow]]]


def usage_context(user: Actor, queue: Queue, range_: Range, device: DeviceWord) -> UsageTab:
    """Return what the tab shows."""
    found = usage(queue, since=range_.since, until=range_.until)
    top = max((row["allocated_gpu_hours"] for row in found["rows"]), default=0.0)
    rows: list[UsageBar] = [
        {
            **row,
            "percent": 100 * row["allocated_gpu_hours"] / top if top else 0.0,
            "busy_frac": _busy_frac(row),
        }
        for row in found["rows"]
    ]
    ledger = loan_ledger(user, queue, since=range_.since, until=range_.until)
    took = taken(user, queue, since=range_.since, until=range_.until)
    now = now_utc()
    month = (range_.since.date() if range_.words.startswith("in ") else now.date()).replace(day=1)
    report = costs(user, month, now)
    of_queue = [row for row in report["rows"] if row["queue"] == queue.name]
    asked = urlencode({"since": iso(range_.since), "until": iso(range_.until)})
    return {
        "usage": found,
        "usage_rows": rows,
        "several_queues": len({row["queue"] for row in rows}) > 1,
        "range_words": range_.words,
        "csv_href": f"/api/v1/queues/{queue.name}/usage?format=csv&{asked}",
        "loan_cards": [
            _card(queue, [row for row in ledger["rows"] if row["is_lent"] == is_lent], device, is_lent=is_lent)
            for is_lent in (True, False)
        ],
        "cost": cost_line(of_queue[0], report) if of_queue else None,
        "cost_month": f"{month:%B %Y}",
        "cost_goes_on": report["elapsed_frac"] < 1.0,
        "taken": took,
        "taken_title": _taken_title(took, device),
        "taken_tables": [
            ("Taken by queue", took["queues"]),
            ("Taken by person", took["people"]),
            ("Taken by job", took["jobs"]),
            ("Job that lost", took["losers"]),
        ],
    }


def _taken_title(took: TakenReport, device: DeviceWord) -> str:
    """Return what cost the queue most: the queue behind most of the lost work, and how much that is."""
    total = took["total"]
    if not total["preemptions"]:
        return f"No job of {took['queue']} was preempted"
    times = counted(total["preemptions"], "preemption")
    lost = f"{gpu_hours(total['lost_gpu_hours'])} {device.one}-hours of work"
    return (
        f"{times} cost {took['queue']} {lost}" if total["lost_gpu_hours"] else f"{times} cost {took['queue']} no work"
    )


def _busy_frac(row: UsageRow) -> float | None:
    busy, measured = row["busy_gpu_hours"], row["measured_gpu_hours"]
    return busy / measured if measured and busy is not None else None


def _card(queue: Queue, rows: list[LoanRow], device: DeviceWord, *, is_lent: bool) -> tuple[str, list[LoanRow], str]:
    """Return one card of the ledger; loans of less than a GPU-second are left out."""
    rows = [row for row in rows if row["gpu_hours"] >= LEAST_GPU_HOURS or row["gpus_now"] or row["recalls"]]
    hours = gpu_hours(sum(row["gpu_hours"] for row in rows))
    verb = "lent" if is_lent else "borrowed"
    said = f"{hours} {device.one}-hours" if rows else "nothing"
    return f"{queue.name} {verb} {said}", rows, verb
