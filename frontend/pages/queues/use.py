"""The usage tab: GPU-hours by user, and who lent what to whom."""

from typing import Any
from urllib.parse import urlencode

from frontend.components.devices import DeviceWord
from frontend.components.formats import iso, significant
from frontend.components.times import Range
from scheduler.models import Queue
from scheduler.selectors.queues.usage import loan_ledger, usage
from scheduler.selectors.visibility import Actor

LEAST_GPU_HOURS = 1 / 3600

Context = dict[str, Any]  # of a template


def usage_context(user: Actor, queue: Queue, range_: Range, device: DeviceWord) -> Context:
    """Return what the tab shows."""
    found = usage(queue, since=range_.since, until=range_.until)
    top = max((row["allocated_gpu_hours"] for row in found["rows"]), default=0.0)
    rows = [
        {
            **row,
            "percent": 100 * row["allocated_gpu_hours"] / top if top else 0.0,
            "busy_frac": row["busy_gpu_hours"] / row["measured_gpu_hours"] if row["measured_gpu_hours"] else None,
        }
        for row in found["rows"]
    ]
    ledger = loan_ledger(user, queue, since=range_.since, until=range_.until)
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
    }


def _card(queue: Queue, rows: list[Context], device: DeviceWord, *, is_lent: bool) -> tuple[str, list[Context], str]:
    """Return the title, the rows and the side of one card of the ledger; what is less than a second is left out."""
    rows = [row for row in rows if row["gpu_hours"] >= LEAST_GPU_HOURS or row["gpus_now"] or row["recalls"]]
    hours = significant(sum(row["gpu_hours"] for row in rows))
    verb = "lent" if is_lent else "borrowed"
    said = f"{hours} {device.one}-hours" if rows else "nothing"
    return f"{queue.name} {verb} {said}", rows, verb
