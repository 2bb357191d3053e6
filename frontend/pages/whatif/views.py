"""The what-if pages: the list, the form, and one scenario with its progress and results."""

import json
from collections.abc import Mapping
from dataclasses import replace

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from frontend.components.devices import GPUS, DeviceWord, device_word
from frontend.components.errors import ForLeads, page
from frontend.components.viewer import now_utc
from frontend.pages.whatif.apply import applicable, applied
from frontend.pages.whatif.builder import body_from, fields_of, num_variants, variant_views
from frontend.pages.whatif.ready import ReadyScenario, live_variant, quota_scenario, ready_scenarios
from frontend.pages.whatif.results import figures_read, shown_so_far
from frontend.pages.whatif.words import LoadView, fidelity_view, load_view, start_words
from scheduler.core.model.errors import Conflict, FieldError, NotAllowed, SpecInvalid
from scheduler.models import Scenario
from scheduler.models.scenario import SCENARIO_OPEN, ScenarioState
from scheduler.selectors.cluster.capacity import capacity_words, servers_drained
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import is_admin, may_ask_what_if, queues_led, require_scenario, scenarios_visible
from scheduler.selectors.whatif import (
    names_of,
    scenario_changes,
    scenario_metrics,
    scenario_progress,
    scenario_row,
    scenarios_progress,
    trace_file_row,
    trace_files_visible,
)
from scheduler.services.cluster.settings import cluster_row, settings_checked, settings_of
from scheduler.services.whatif.files import trace_file_create
from scheduler.services.whatif.scenarios import scenario_cancel, scenario_create, scenario_delete
from scheduler.services.whatif.variant_checks import VARIANTS
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.study.variants import ARM_FIELDS
from scheduler.simulator.workloads import GENERATORS

ON_A_PAGE = 50


def _require_asker(request: HttpRequest) -> None:
    """Answer 404 to users who may not ask what-if questions."""
    if not may_ask_what_if(request.user):
        raise ForLeads("What-if questions are asked by leads of a queue and by admins. Ask a lead of your queue.")


@page
@require_safe
def scenarios(request: HttpRequest) -> HttpResponseBase:
    """Show scenarios, newest first; three ready ones where there are none."""
    _require_asker(request)
    at = now_utc()
    found = list(scenarios_visible(request.user).select_related("owner", "trace_file").order_by("-id")[:ON_A_PAGE])
    progress = scenarios_progress([one for one in found if one.state in SCENARIO_OPEN], at)
    rows = [
        {
            **scenario_row(one),
            "words": start_words(one.start, one.trace_file.name if one.trace_file else ""),
            "progress": progress.get(one.pk),
        }
        for one in found
    ]
    context = {
        "rows": rows,
        "ready": _ready(request),
        "open": list(progress),
        "traces": [trace_file_row(file) for file in trace_files_visible(request.user)[:ON_A_PAGE]],
        "most_mib": settings.TRACE_MOST_MIB,
    }
    return render(request, "whatif/scenarios.html", context)


def _ready(request: HttpRequest) -> list[ReadyScenario]:
    cluster, device = cluster_row(), device_word(device_kinds(request.user))
    ready = ready_scenarios(cluster, device, capacity=device.said(capacity_words()))
    if is_admin(request.user):
        return ready
    led = list(queues_led(request.user)[:1])
    return [
        *(quota_scenario(cluster, queue, device) for queue in led),
        *(one for one in ready if not one.of_cluster),
    ]


@page
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponseBase:
    """Show the form; POST asks the question, or adds or removes a variant (field ``do``)."""
    _require_asker(request)
    if request.method != "POST":
        return _form(request, _first_body(request))
    doing = request.POST.get("do", "ask")
    body = body_from(request.POST.dict())
    if doing == "add" and len(body["variants"]) < VARIANTS[1]:
        body["variants"].append(dict(body["variants"][-1]))
        return _form(request, body)
    if doing.startswith("remove-") and doing[7:].isdigit():
        return _form(request, {**body, "variants": _without(body["variants"], int(doing[7:]))})
    return _ask(request, body)


def _without(variants: list[Json], index: int) -> list[Json]:
    return [variant for at, variant in enumerate(variants) if at != index or len(variants) <= VARIANTS[0]]


def _first_body(request: HttpRequest) -> Json:
    """Return what the form begins with: a ready scenario, a copy of another, or two variants of the live settings."""
    ready = {one.key: one for one in _ready(request)}
    if (key := request.GET.get("ready", "")) in ready:
        return ready[key].body
    if copied := request.GET.get("from", ""):
        other = require_scenario(request.user, copied)
        return {"name": other.name, "start": other.start, "variants": other.variants, "seeds": other.seeds}
    live = live_variant(cluster_row())
    if edited := _edited(request.GET.get("settings", "")):
        return {"name": "", "start": {"kind": "live"}, "variants": [live, {**live, **edited}], "seeds": [1, 2]}
    start: Json = {"kind": "live" if is_admin(request.user) else "generator"}
    return {"name": "", "start": start, "variants": [live, live], "seeds": [1, 2, 3]}


def _edited(text: str) -> Json:
    """Return the settings that the admin page hands over; nothing for what could not be saved there either."""
    try:
        sent = json.loads(text) if text else {}
        changes = {name: value for name, value in sent.items() if name in ARM_FIELDS}
        return {name: settings_checked(settings_of(cluster_row()), changes)[name] for name in changes}
    except (ValueError, AttributeError, SpecInvalid):
        return {}


def _ask(request: HttpRequest, body: Json) -> HttpResponseBase:
    at = now_utc()
    try:
        upload = request.FILES.get("upload")
        if body["start"]["kind"] == "trace" and upload is not None and upload.file is not None:
            file = trace_file_create(actor=request.user, name=upload.name or "trace", content=upload.file, at=at)
            body["start"]["file"] = file.pk
        scenario = scenario_create(actor=request.user, body=body, at=at)
    except SpecInvalid as error:
        return _form(request, body, errors=error.errors, status=422)
    except (Conflict, NotAllowed) as error:
        refused = [FieldError(pointer="", code="refused", detail=str(error))]
        return _form(request, body, errors=refused, status=409)
    return redirect("what-if-scenario", scenario=scenario.pk)


def _form(
    request: HttpRequest, body: Json, *, errors: list[FieldError] | None = None, status: int = 200
) -> HttpResponse:
    sent = request.POST.dict() if request.method == "POST" else {}
    found, device = errors or [], device_word(device_kinds(request.user))
    context = {
        "fields": {**fields_of(body), **{key: value for key, value in sent.items() if "." not in key}},
        "variants": variant_views(body["variants"], found),
        "num_variants": num_variants({"variants": str(len(body["variants"]))}),
        "may_add": len(body["variants"]) < VARIANTS[1],
        "may_remove": len(body["variants"]) > VARIANTS[0],
        "errors": found,
        "wrong": {entry.pointer.strip("/").rpartition("/")[2]: entry.detail for entry in found},
        "is_admin": is_admin(request.user),
        "led": list(queues_led(request.user)[:20]),
        "files": [trace_file_row(file) for file in trace_files_visible(request.user)[:50]],
        "generators": list(GENERATORS),
        "capacity": device.said(capacity_words()),
        "with_drained": device.said(capacity_words(drained=True)) if servers_drained() else "",
        "most_mib": settings.TRACE_MOST_MIB,
    }
    return render(request, "whatif/new.html", context, status=status)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def scenario_page(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Show one scenario; POST cancels or deletes it (field ``do``)."""
    found = require_scenario(request.user, scenario)
    if request.method == "POST":
        return _act(request, found)
    at, names, about = now_utc(), names_of(found), found.about.get("text", "")
    progress, metrics = scenario_progress(found, at), scenario_metrics(found)
    figures = figures_read(found, names) if found.state != ScenarioState.QUEUED else {}
    cluster, device = cluster_row(), _device(request, found)
    listed, news = applied(found, names, at)
    context = {
        "scenario": found,
        "address": request.build_absolute_uri(request.path),
        "row": scenario_row(found),
        "names": names,
        "progress": progress,
        "bars": [{**run, "name": dict(enumerate(names)).get(run["variant"], "as it was")} for run in progress["runs"]],
        "has_early": any(run["early"] for run in progress["runs"]),
        "is_open": found.state in SCENARIO_OPEN,
        "may_end": found.owner_id == request.user.pk or is_admin(request.user),
        "words": start_words(found.start, about),
        "about": device.said(about, names=names),
        "warnings": [device.said(text, names=names) for text in found.about.get("warnings", [])],
        "fidelity": fidelity_view(found.about.get("fidelity")),
        "load": _load(found, figures, names, device),
        "shown": shown_so_far(found, figures, metrics, names, changes=scenario_changes(found), device=device),
        "is_answered": found.state == ScenarioState.COMPLETED and len(figures) == len(names),
        "may_apply": is_admin(request.user) and found.state == ScenarioState.COMPLETED,
        "applicable": applicable(found, names, cluster),
        "applied": listed,
        "news": news,
        "is_admin": is_admin(request.user),
    }
    return render(request, "whatif/scenario.html", context)


def _load(found: Scenario, figures: Mapping[int, Figures], names: list[str], device: DeviceWord) -> LoadView | None:
    """Return what is asked of the cluster; nothing for the live cluster, whose jobs are there when it begins."""
    if found.start.get("kind") == "live" or not figures:
        return None
    known = [names[at] for at in figures]
    view = load_view(list(figures.values()), known)
    if view is None:
        return None
    return replace(view, text=device.said(view.text), doubt=device.said(view.doubt, names=known))


def _device(request: HttpRequest, found: Scenario) -> DeviceWord:
    """Return the word for devices: that of this cluster; the servers of a trace had GPUs."""
    return GPUS if found.start.get("kind") == "trace" else device_word(device_kinds(request.user))


def _act(request: HttpRequest, found: Scenario) -> HttpResponseBase:
    doing = request.POST.get("do", "")
    try:
        if doing == "cancel":
            scenario_cancel(actor=request.user, scenario=found, at=now_utc())
            messages.success(request, f"{found.name} is cancelled.")
        elif doing == "delete":
            scenario_delete(actor=request.user, scenario=found, at=now_utc())
            messages.success(request, f"{found.name} is deleted.")
            return redirect("what-if")
    except (Conflict, NotAllowed) as error:
        messages.error(request, str(error))
    return redirect("what-if-scenario", scenario=found.pk)
