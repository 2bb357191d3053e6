"""The shadow policy: its settings, what it would have done in the last rounds, how it compares on ended jobs."""

from collections.abc import Callable
from typing import Literal, TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from frontend.components.charts import Chart, layout, line, time_axis, wall
from frontend.components.devices import device_word
from frontend.components.errors import page
from frontend.components.formats import clock, counted, duration, number, percent, signed
from frontend.components.times import as_time
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.admin.plain_fields import reason_field, reason_said, seconds_field, told
from frontend.pages.admin.settings_form import changes_from, labelled, sections
from frontend.pages.admin.views import require_admin, sent_version
from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.models import Cluster, Job, Shadow, ShadowRound
from scheduler.selectors.cluster.rows import ScoreRow
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.cluster.shadow import job_names, shadow_report, shadow_rounds
from scheduler.selectors.rows import Json
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.cluster.shadow import shadow_choose, shadow_end, shadow_row
from scheduler.simulator.study.variants import ARM_FIELDS

ROUNDS_SHOWN = 30
JOBS_SHOWN = 6
Figure = Literal["avg_jct_s", "avg_queueing_s", "avg_rho", "max_rho"]
Difference = Literal["only_shadow", "only_live", "other_gpus"]


class DifferingJob(TypedDict):
    """A job that differs; ``gpus`` are its GPUs under one configuration, or under the live and the shadow one."""

    number: int
    name: str
    gpus: list[int]


class DifferingJobs(TypedDict):
    """The first of the jobs that differ in one way."""

    jobs: list[DifferingJob]
    more: int
    total: int


class RoundLine(TypedDict):
    """One round that the shadow has planned."""

    row: ShadowRound
    is_same: bool
    num_running: int
    only_shadow: DifferingJobs
    only_live: DifferingJobs
    other_gpus: DifferingJobs


@page
@require_http_methods(["GET", "HEAD", "POST"])
def shadow(request: HttpRequest) -> HttpResponseBase:
    """Show the shadow; POST chooses another one."""
    require_admin(request)
    if request.method != "POST":
        return _show(request)
    changes = {name: value for name, value in changes_from(request.POST.dict()).items() if name in ARM_FIELDS}
    try:
        made = shadow_choose(
            actor=request.user,
            changes=changes,
            expected_version=sent_version(request),
            at=now_utc(),
            reason=request.POST.get("reason", ""),
        )
    except SpecInvalid as error:
        return _show(request, errors=error.errors, status=422)
    except Conflict as error:
        return _show(request, conflict=str(error), status=409)
    messages.success(request, f"{_name(made.chosen)} plans every round from the next one on, and acts on none.")
    return redirect("admin-shadow")


@page
@require_POST
def end(request: HttpRequest) -> HttpResponseBase:
    """End the shadow."""
    require_admin(request)
    try:
        shadow_end(
            actor=request.user,
            expected_version=sent_version(request),
            at=now_utc(),
            reason=request.POST.get("reason", ""),
        )
        messages.success(request, "No round is planned twice any more.")
    except SpecInvalid as error:
        messages.error(request, "Nothing was changed: " + " ".join(entry.detail for entry in error.errors))
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("admin-shadow")


def _name(chosen: Json) -> str:
    parts = [chosen["policy"], chosen["locality"], chosen["mechanism"], *chosen.get("introspection", [])]
    return " · ".join(parts)


def _show(
    request: HttpRequest, *, errors: list[FieldError] | None = None, conflict: str = "", status: int = 200
) -> HttpResponse:
    errors, row, cluster = labelled(reason_said(errors or [])), shadow_row(), cluster_row()
    document = shadow_report(row)
    rounds = list(shadow_rounds(row).filter(planned_at__isnull=False)[:ROUNDS_SHOWN])
    post = request.POST.dict() if request.method == "POST" else None
    # The form begins with the present shadow, or with what decides now.
    begin = Cluster(**(row.chosen or {name: getattr(cluster, name) for name in ARM_FIELDS}))
    context = {
        "shadow": row,
        "name": _name(row.chosen) if row.chosen else "",
        "live_name": _name({name: getattr(cluster, name) for name in ARM_FIELDS}),
        "is_live": bool(row.chosen) and row.chosen == {name: getattr(cluster, name) for name in ARM_FIELDS},
        "title": _finding(row, document["scores"], rounds),
        "document": document,
        "chart": _chart(document["scores"], request),
        "score": _score_rows(document["scores"]),
        "rounds": _round_rows(rounds),
        "sections": sections(begin, device_word(device_kinds(request.user)), post=post, errors=errors),
        "errors": told(errors, post),
        "least_run": seconds_field("min_run_s", begin, post, errors),
        "why": reason_field(post, errors),
        "conflict": conflict,
    }
    return render(request, "admin/shadow.html", context, status=status)


def _finding(shadow: Shadow, scores: list[ScoreRow], rounds: list[ShadowRound]) -> tuple[str, str]:
    if not shadow.chosen:
        return "No shadow policy", "plans beside the live one"
    if scores:
        live, other = scores[-1]["live"]["avg_jct_s"], scores[-1]["shadow"]["avg_jct_s"]
        jobs = counted(scores[-1]["num_jobs"], "job")
        if abs(other - live) < 0.01 * live:
            return shadow.chosen["policy"], f"completes jobs as fast as the live policy, replayed over {jobs}"
        word = "sooner" if other < live else "later"
        return shadow.chosen["policy"], f"completes jobs {percent(abs(other / live - 1))} {word}, replayed over {jobs}"
    if rounds:
        differ = sum(bool(row.num_only_shadow or row.num_only_live or row.num_other_gpus) for row in rounds)
        of_them = f"{differ} of the last {counted(len(rounds), 'round')}"
        return shadow.chosen["policy"], f"would have decided otherwise in {of_them}"
    return shadow.chosen["policy"], "has planned no round yet"


def _score_rows(scores: list[ScoreRow]) -> list[tuple[str, str, str, str]]:
    """Return the figures of the newest comparison: what, live, shadow, difference."""
    if not scores:
        return []
    live, other = scores[-1]["live"], scores[-1]["shadow"]
    figures: tuple[tuple[Figure, str, Callable[[float], str]], ...] = (
        ("avg_jct_s", "Mean completion time", duration),
        ("avg_queueing_s", "Mean wait", duration),
        ("avg_rho", "Mean \u03c1", lambda value: number(value, 2)),
        ("max_rho", "Largest \u03c1", lambda value: number(value, 2)),
    )
    rows = []
    for key, label, write in figures:
        change = signed((other[key] / live[key] - 1) * 100) + " %" if live[key] else ""
        rows.append((label, write(live[key]), write(other[key]), change))
    return rows


def _chart(scores: list[ScoreRow], request: HttpRequest) -> Chart:
    """Return the difference of the mean completion time and of rho at each replay."""
    charted: tuple[Figure, ...] = ("avg_jct_s", "avg_rho")
    zone, until = viewer_zone(request), now_utc()
    times = [as_time(score["at"]) for score in scores]
    gains = [
        [(score["shadow"][key] / score["live"][key] - 1) * 100 if score["live"][key] else None for score in scores]
        for key in charted
    ]
    figure = None
    if len(scores) >= 2:
        x = [wall(at, zone) for at in times]
        figure = {
            "data": [
                line("Mean completion time", x, gains[0], color="accent", width=2.5),
                line("Mean \u03c1", x, gains[1], color="text-3", width=1.5),
            ],
            "layout": layout(left=44, x=time_axis(times[0], until, zone), y={"ticksuffix": " %", "zeroline": True}),
        }
    return Chart(
        id="course",
        title="Difference of the shadow to the live policy, over all that has ended since",
        sub="Mean completion time and mean \u03c1, both replayed; below 0 the shadow is better",
        figure=figure,
        empty="It appears with the second replay. One is made every 15 minutes once five jobs have ended.",
        table_head=("Replayed", "Jobs", "Completion time", "Rho"),
        table_rows=[
            (
                clock(times[place], until, zone),
                number(score["num_jobs"]),
                *("" if (gain := part[place]) is None else f"{signed(gain)} %" for part in gains),
            )
            for place, score in enumerate(scores)
        ][-24:],
    )


def _round_rows(rounds: list[ShadowRound]) -> list[RoundLine]:
    """Return the last rounds with the names of the jobs that differ."""
    kinds: tuple[Difference, ...] = ("only_shadow", "only_live", "other_gpus")
    numbers = {entry[0] for row in rounds for kind in kinds for entry in row.differences.get(kind, [])[:JOBS_SHOWN]}
    jobs = job_names(numbers)
    return [
        {
            "row": row,
            "is_same": not (row.num_only_shadow or row.num_only_live or row.num_other_gpus or row.error),
            "num_running": (row.num_same or 0) + (row.num_only_live or 0) + (row.num_other_gpus or 0),
            "only_shadow": _named(row, "only_shadow", jobs),
            "only_live": _named(row, "only_live", jobs),
            "other_gpus": _named(row, "other_gpus", jobs),
        }
        for row in rounds
    ]


def _named(row: ShadowRound, kind: Difference, jobs: dict[int, Job]) -> DifferingJobs:
    entries = row.differences.get(kind, [])
    total = getattr(row, f"num_{kind}") or 0
    shown: list[DifferingJob] = [
        {"number": entry[0], "name": jobs[entry[0]].name if entry[0] in jobs else "", "gpus": entry[1:]}
        for entry in entries[:JOBS_SHOWN]
    ]
    return {"jobs": shown, "more": max(0, total - len(shown)), "total": total}
