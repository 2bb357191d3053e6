"""Pages of experiments: the list, the form, and one search with its curves, parameters and verdicts."""

from collections import Counter
from collections.abc import Collection, Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from frontend.components.errors import page
from frontend.components.formats import counted, duration, gpu_hours, number, significant
from frontend.components.viewer import now_utc
from frontend.pages.experiments.arrays import array_lines
from frontend.pages.experiments.charts import curves_chart, parallel_chart
from frontend.pages.experiments.forms import NUMBERS, body_from, field_errors, first_fields
from frontend.pages.experiments.losses import losses_words
from frontend.pages.experiments.sorting import SortHead, sorted_rows
from frontend.pages.experiments.words import (
    SearchVerdict,
    best_of,
    finding,
    goal,
    is_given_up,
    may_report,
    value_text,
    values_words,
    verdict_of,
)
from scheduler.core.model.errors import Conflict, FieldError, NotFound, SpecInvalid
from scheduler.models import Experiment
from scheduler.models.experiment import ExperimentState
from scheduler.ports import live_ports
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow, ExperimentDetail
from scheduler.selectors.jobs.many.experiments import (
    experiment_detail,
    experiment_row,
    experiments_visible,
    may_end,
    require_experiment,
)
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import queues_submittable
from scheduler.services.code.git import git_fetch
from scheduler.services.jobs.experiments import experiment_cancel, experiment_submit
from scheduler.services.jobs.suggestions import SAMPLERS

ON_A_PAGE = 50
MOST_COLUMNS = 6  # parameters in the table; the charts show more


class ConfigurationLine(ConfigurationRow):
    """A configuration with its words on the page."""

    verdict: SearchVerdict
    words: str


@require_safe
def experiments(request: HttpRequest) -> HttpResponse:
    """Show the experiments of the reader's queues, newest first."""
    rows = [experiment_row(one) for one in experiments_visible(request.user).order_by("-id")[:ON_A_PAGE]]
    running = sum(row["state"] == ExperimentState.RUNNING for row in rows)
    context = {
        "rows": rows,
        "running": running,
        "arrays": array_lines(request),
        "may_begin": queues_submittable(request.user).exists(),
        "command": f"curl {request.build_absolute_uri('/api/v1/experiments')} "
        "-H \"Authorization: Bearer $CLUSTERWEB_TOKEN\" -H 'Content-Type: application/json' -d @search.json",
    }
    return render(request, "experiments/experiments.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponseBase:
    """Show the form; POST begins an experiment."""
    queues = list(queues_submittable(request.user).order_by("name")[:200])
    if not queues:
        raise NotFound("experiments")
    if request.method != "POST":
        return _form(request, first_fields(queues[0].name))
    fields, ports = request.POST.dict(), live_ports()
    try:
        data = body_from(fields)
        git_fetch(actor=request.user, specs=[("/job", data["job"])], at=now_utc())
        made = experiment_submit(actor=request.user, data=data, at=now_utc(), ids=ports.ids)
    except SpecInvalid as error:
        return _form(request, fields, errors=error.errors, status=422)
    messages.success(request, f"{made.name} is begun.")
    return redirect("experiment", experiment=made.pk)


def _form(
    request: HttpRequest, fields: dict[str, str], *, errors: list[FieldError] | None = None, status: int = 200
) -> HttpResponse:
    wrong = field_errors(errors or [])
    context = {
        "fields": fields,
        "wrong": wrong,
        "errors": list(wrong.items()),
        "numbers": [
            {"name": name, "label": label, "help": text, "value": fields.get(name, ""), "wrong": wrong.get(name, "")}
            for name, (label, text) in NUMBERS.items()
        ],
        "samplers": SAMPLERS,
    }
    return render(request, "experiments/new.html", context, status=status)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def experiment_page(request: HttpRequest, experiment: str) -> HttpResponseBase:
    """Show one experiment; POST cancels it."""
    found = require_experiment(request.user, experiment)
    if request.method == "POST":
        return _cancel(request, found)
    row = experiment_detail(found)
    members: list[ConfigurationLine] = [
        {**one, "verdict": verdict_of(one, row), "words": values_words(one["values"])} for one in row["members"]
    ]
    names = list(row["space"])[:MOST_COLUMNS]
    numeric = {name for name in names if not any(isinstance(one["values"].get(name), str) for one in members)}
    flat: list[Json] = [{**one, **{f"value:{name}": one["values"].get(name) for name in names}} for one in members]
    shown = sorted_rows(
        flat, _heads(names, numeric, is_search=row["target_loss"] is not None), request.GET.get("sort", "loss")
    )
    context = {
        "experiment": found,
        "row": row,
        "title": finding(row),
        "goal": goal(row),
        "tiles": _tiles(row),
        "members": [
            {
                **one,
                "ran": duration(one["run_s"]),
                "cells": [{"text": value_text(one[f"value:{name}"]), "is_number": name in numeric} for name in names],
            }
            for one in shown.rows
        ],
        "heads": shown.heads,
        "losses": losses_words(row["members"], unread=row["unread"], is_over=not may_report(row)),
        "is_search": row["target_loss"] is not None,
        "charts": [curves_chart(row), parallel_chart(row)],
        "is_running": found.state == ExperimentState.RUNNING,
        "may_cancel": found.state == ExperimentState.RUNNING and may_end(request.user, found),
        "open_jobs": sum(one["state"] not in ("completed", "failed", "cancelled") for one in members),
    }
    return render(request, "experiments/experiment.html", context)


def _heads(names: Sequence[str], numeric: Collection[str], *, is_search: bool) -> list[SortHead]:
    verdict = [SortHead(key="promise", label="Verdict")] if is_search else []
    return [
        SortHead(key="number", label="Configuration"),
        *(SortHead(key=f"value:{name}", label=name, is_number=name in numeric) for name in names),
        *verdict,
        SortHead(key="loss", label="Loss", is_number=True),
        SortHead(key="step", label="Step", is_number=True),
        SortHead(key="run_s", label="Ran", is_number=True),
        SortHead(key="gpu_hours", label="GPU time", is_number=True),
        SortHead(key="state", label="Job"),
    ]


def _tiles(row: ExperimentDetail) -> list[dict[str, str]]:
    members = row["members"]
    best, no_loss = best_of(members), "none yet" if may_report(row) else "none"
    ended = sum(is_given_up(one) for one in members)
    promising = sum(one["promise"] == "promising" for one in members)
    total_steps, target = row["total_steps"], row["target_loss"]
    if total_steps is None or target is None:
        return _tiles_of_all(row, best, no_loss)
    saved = sum(total_steps - (one["step"] or 0) for one in members if is_given_up(one))
    return [
        {
            "label": "Best loss",
            "value": significant(best["loss"]) if best else "",
            "missing": no_loss,
            "delta": f"target {significant(target)}",
        },
        {"label": "Submitted", "value": number(len(members)), "unit": f"of {number(row['configurations'])}"},
        {"label": "Promising", "value": number(promising), "delta": "a GPU of their own"},
        {"label": "Given up", "value": number(ended), "delta": f"{counted(saved, 'step')} not run" if saved else ""},
        {"label": "GPU time", "value": gpu_hours(row["gpu_hours"]), "unit": "GPU-h", "delta": "of all its jobs"},
    ]


def _tiles_of_all(row: ExperimentDetail, best: ConfigurationRow | None, no_loss: str) -> list[dict[str, str]]:
    """Return the tiles of an experiment whose configurations all run to their end."""
    states = Counter(one["state"] for one in row["members"])
    return [
        {"label": "Best loss", "value": significant(best["loss"]) if best else "", "missing": no_loss},
        {"label": "Submitted", "value": number(len(row["members"])), "unit": f"of {number(row['configurations'])}"},
        {"label": "Completed", "value": number(states["completed"])},
        {"label": "Failed", "value": number(states["failed"])},
        {"label": "GPU time", "value": gpu_hours(row["gpu_hours"]), "unit": "GPU-h", "delta": "of all its jobs"},
    ]


def _cancel(request: HttpRequest, found: Experiment) -> HttpResponseBase:
    try:
        experiment_cancel(actor=request.user, experiment=found, at=now_utc())
        messages.success(request, f"{found.name} is cancelled.")
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("experiment", experiment=found.pk)
