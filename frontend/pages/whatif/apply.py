"""Apply the settings of a variant to the cluster, after a look at what the next round would do under them."""

from datetime import datetime
from typing import TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from frontend.components.errors import page
from frontend.components.settings_question import reason_missing, settings_question
from frontend.components.viewer import now_utc
from frontend.pages.whatif.words import ANYWAY
from scheduler.core.model.errors import Conflict, NotFound, SpecInvalid
from scheduler.models import Cluster, Event, Scenario
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import require_scenario
from scheduler.selectors.whatif import changes_after, doubts, names_of
from scheduler.services.cluster.settings import FIELDS, settings_change, settings_of
from scheduler.services.permission import require_admin
from scheduler.simulator.study.variants import ARM_FIELDS


class ApplicableVariant(TypedDict):
    """A variant whose settings could become those of the cluster, or are."""

    index: int
    name: str
    is_in_force: bool


class AppliedVariant(TypedDict):
    """A change of the cluster's settings to those of a variant; ``event`` is its entry in the audit list."""

    event: int
    at: datetime
    by: str
    name: str
    why: str


def applied(found: Scenario, names: list[str]) -> list[AppliedVariant]:
    """Return who applied which variant, when and why, newest first."""
    return [_applied(event, names) for event in changes_after(found)]


def _applied(event: Event, names: list[str]) -> AppliedVariant:
    variant = event.data.get("variant")
    name = names[variant] if isinstance(variant, int) and variant < len(names) else "a variant"
    return {"event": event.pk, "at": event.at, "by": event.actor, "name": name, "why": event.data.get("reason", "")}


def applicable(found: Scenario, names: list[str], cluster: Cluster) -> list[ApplicableVariant]:
    """Return the variants, and of which the settings are in force."""
    now = settings_of(cluster)
    return [
        {
            "index": at,
            "name": name,
            "is_in_force": all(now[setting] == value for setting, value in _settings_of_variant(variant).items()),
        }
        for at, (name, variant) in enumerate(zip(names, found.variants, strict=True))
    ]


def _settings_of_variant(variant: Json) -> Json:
    """Return what becomes of the cluster's settings where a variant is applied."""
    return {name: variant[name] for name in ARM_FIELDS if name in variant and name in FIELDS}


@page
@require_http_methods(["GET", "HEAD", "POST"])
def apply(request: HttpRequest, scenario: str) -> HttpResponseBase:
    """Show what applying a variant would do (``?variant=1``); POST applies it from the next round on."""
    found = require_scenario(request.user, scenario)
    require_admin(request.user, "apply the settings of a variant")
    if request.method != "POST" and "variant" not in request.GET:
        return redirect("what-if-scenario", scenario=found.pk)
    sent = request.POST if request.method == "POST" else request.GET
    index = sent.get("variant", "")
    if not (index.isdigit() and len(index) < 3 and int(index) < len(found.variants)):
        raise NotFound("variant")
    try:
        if request.method == "POST":
            return _change(request, found, int(index))
        return _question(request, found, int(index))
    except SpecInvalid as error:
        if wrong := reason_missing(error):
            return _question(request, found, int(index), wrong=wrong)
        messages.error(request, f"{error} Ask again with settings of now.")
    except Conflict as error:
        messages.error(request, f"{error} Look at them again, then repeat it.")
    return redirect("what-if-scenario", scenario=found.pk)


def _question(request: HttpRequest, found: Scenario, index: int, *, wrong: str = "") -> HttpResponseBase:
    question = settings_question(request, changes=_settings_of_variant(found.variants[index]))
    if not (question.changes or wrong):
        messages.info(request, f"{question.names} decide already.")
        return redirect("what-if-scenario", scenario=found.pk)
    context = {
        "question": question,
        "wrong": wrong,
        "title": f"Apply {names_of(found)[index]}?",
        "verb": "Apply",
        "action": reverse("what-if-apply", args=[found.pk]),
        "hidden": {"variant": index},
        "anyway": ANYWAY if doubts(found.about.get("fidelity")) else "",
        "back": reverse("what-if-scenario", args=[found.pk]),
        "back_name": found.name,
    }
    return render(request, "components/settings_question.html", context, status=422 if wrong else 200)


def _change(request: HttpRequest, found: Scenario, index: int) -> HttpResponseBase:
    version = request.POST.get("version", "")
    if not version.isdigit():
        raise NotFound("variant")
    if doubts(found.about.get("fidelity")) and request.POST.get("anyway", "").strip().lower() != ANYWAY:
        messages.error(request, f"This answer is not reliable. To apply it all the same, write: {ANYWAY}.")
        return redirect(f"{reverse('what-if-apply', args=[found.pk])}?variant={index}")
    cluster = settings_change(
        actor=request.user,
        changes=_settings_of_variant(found.variants[index]),
        expected_version=int(version),
        at=now_utc(),
        reason=request.POST.get("reason", ""),
        because={"scenario": found.pk, "scenario_name": found.name, "variant": index},
    )
    settings = " · ".join((cluster.policy, cluster.locality, cluster.mechanism))
    if cluster.settings_version == int(version):
        messages.success(request, f"{settings} decide already. Nothing was changed.")
    else:
        messages.success(request, f"{settings} decide from round {cluster.round_number + 1}.")
    return redirect("what-if-scenario", scenario=found.pk)
