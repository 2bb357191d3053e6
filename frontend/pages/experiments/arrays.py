"""Arrays: their list on the page of experiments, and the page of one: its jobs, cancel all, retry what failed."""

from typing import TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from frontend.components.errors import page
from frontend.components.formats import counted, duration, gpu_hours, joined, number
from frontend.components.viewer import now_utc
from frontend.pages.experiments.losses import losses_words
from frontend.pages.experiments.sorting import SortHead, sorted_rows
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.ports import live_ports
from scheduler.selectors.jobs.many.arrays import (
    ArrayDetail,
    ArrayRow,
    array_detail,
    array_jobs,
    array_rows,
    arrays_visible,
)
from scheduler.services.jobs.arrays import array_cancel, array_retry

HEADS = (
    SortHead(key="index", label="Index", is_number=True),
    SortHead(key="number", label="Job"),
    SortHead(key="state", label="State"),
    SortHead(key="loss", label="Loss", is_number=True),
    SortHead(key="step", label="Step", is_number=True),
    SortHead(key="run_s", label="Ran", is_number=True),
    SortHead(key="gpu_hours", label="GPU time", is_number=True),
)
_ENDED = frozenset({"completed", "failed", "cancelled"})
_WAITS = ("queued", "suspended")
ARRAYS_SHOWN = 50


class ArrayLine(ArrayRow):
    """An array in the list, with the sums that the page shows."""

    waiting: int
    at_work: int


class ArrayList(TypedDict):
    """The newest arrays; ``more`` where there are others."""

    rows: list[ArrayLine]
    more: bool


def array_lines(request: HttpRequest) -> ArrayList:
    """Return the newest arrays of the reader's queues."""
    firsts = list(arrays_visible(request.user).order_by("-array_number")[: ARRAYS_SHOWN + 1])
    rows = array_rows(request.user, firsts[:ARRAYS_SHOWN])
    return {"rows": [{**row, **_sums(row)} for row in rows], "more": len(firsts) > ARRAYS_SHOWN}


class _Sums(TypedDict):
    waiting: int
    at_work: int


def _sums(row: ArrayRow) -> _Sums:
    """Return how many jobs wait, and how many have a server or are about to leave it."""
    waiting = sum(row["states"].get(state, 0) for state in _WAITS)
    ended = sum(row["states"].get(state, 0) for state in _ENDED)
    return {"waiting": waiting, "at_work": row["num_jobs"] - waiting - ended}


@page
@require_http_methods(["GET", "HEAD", "POST"])
def array_page(request: HttpRequest, array: str) -> HttpResponseBase:
    """Show one array; POST cancels its jobs, or tries again those that failed."""
    if request.method == "POST":
        return _act(request, array)
    found = array_jobs(request.user, array)
    row = array_detail(request.user, found)
    shown = sorted_rows(row["jobs"], HEADS, request.GET.get("sort", ""))
    context = {
        "row": row,
        "queue_id": found[0].queue_id,
        "title": _title(row),
        "jobs": [{**one, "ran": duration(one["run_s"]) if one["run_s"] else ""} for one in shown.rows],
        "heads": shown.heads,
        "tiles": _tiles(row),
        "open_jobs": sum(count for state, count in row["states"].items() if state not in _ENDED),
        "failed": row["states"].get("failed", 0),
        "losses": losses_words(row["jobs"], unread=row["unread"], is_over=_is_over(row)),
    }
    return render(request, "experiments/array.html", context)


def _title(row: ArrayDetail) -> str:
    """Return how far the array is, as a finding."""
    done, failed = row["states"].get("completed", 0), row["states"].get("failed", 0)
    if done == row["num_jobs"]:
        return f"All {number(done)} jobs of {row['name']} completed" if done > 1 else f"{row['name']} completed"
    rest = f", {number(failed)} failed" if failed else ""
    return f"{number(done)} of {counted(row['num_jobs'], 'job')} of {row['name']} completed{rest}"


def _tiles(row: ArrayDetail) -> list[dict[str, str]]:
    states, jobs = row["states"], row["jobs"]
    sums = _sums(row)
    limit = f"{number(row['most_at_work'])} at most" if row["most_at_work"] else "no limit"
    losses = [one["loss"] for one in jobs if one["loss"] is not None]
    no_loss = "none" if _is_over(row) else "none yet"
    return [
        {"label": "Completed", "value": number(states.get("completed", 0)), "unit": f"of {number(row['num_jobs'])}"},
        {"label": "At work", "value": number(sums["at_work"]), "delta": limit},
        {"label": "Waiting", "value": number(sums["waiting"])},
        {"label": "Failed", "value": number(states.get("failed", 0))},
        {"label": "Least loss", "value": f"{min(losses):.4g}" if losses else "", "missing": no_loss},
        {"label": "GPU time", "value": gpu_hours(sum(one["gpu_hours"] for one in jobs)), "unit": "GPU-h"},
    ]


def _is_over(row: ArrayDetail) -> bool:
    return all(state in _ENDED for state in row["states"])


def _act(request: HttpRequest, array: str) -> HttpResponseBase:
    before = array_detail(request.user, array_jobs(request.user, array))
    ports = live_ports()
    try:
        if request.POST.get("do") == "retry":
            array_retry(actor=request.user, key=array, at=now_utc(), ids=ports.ids)
            messages.success(
                request, f"{counted(before['states'].get('failed', 0), 'job')} of {before['key']} wait again."
            )
        else:
            array_cancel(actor=request.user, key=array, at=now_utc())
            messages.success(request, f"The jobs of {before['key']} are cancelled.")
    except Conflict as error:
        messages.error(request, str(error))
    except SpecInvalid as error:
        messages.error(request, joined([entry.detail for entry in error.errors]))
    return redirect("array", array=before["key"])
