"""Apply the settings of a variant to the cluster, after a look at what the next round would do under them."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from frontend.components.errors import page
from frontend.components.settings_history import SettingsVersion, settings_history
from frontend.components.settings_question import reason_missing, settings_question
from frontend.components.viewer import now_utc
from frontend.pages.whatif.words import ANYWAY
from scheduler.core.model.errors import Conflict, NotFound, SpecInvalid
from scheduler.models import Cluster, Scenario
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import require_scenario
from scheduler.selectors.whatif import doubts, names_of
from scheduler.services.cluster.settings import FIELDS, settings_change, settings_of
from scheduler.services.permission import require_admin
from scheduler.simulator.study.variants import ARM_FIELDS

LOOKED_BACK = 100  # changes of settings


class ApplicableVariant(TypedDict):
    """A variant whose settings could become those of the cluster, or are."""

    index: int
    name: str
    is_in_force: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedVariant:
    """A variant that was applied, and what came after it.

    Attributes:
        change: The change of the settings.
        name: Of the variant.
        after: The next change of how rounds decide, and what it did; None where the variant decides now.
        after_words: As ``restored version 7 (las)``.
    """

    change: SettingsVersion
    name: str
    after: SettingsVersion | None
    after_words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The newest change of how rounds decide, while it is young.

    Attributes:
        words: What it did, as ``applied srtf``.
        gone: The newest variant of this what-if, where it no longer decides.
    """

    change: SettingsVersion
    words: str
    gone: AppliedVariant | None


def applied(found: Scenario, names: list[str], now: datetime) -> tuple[list[AppliedVariant], News | None]:
    """Return the variants that were applied, newest first, and the news of what decides now; None where it is old."""
    deciding = [one for one in settings_history(LOOKED_BACK) if one.decides]
    listed = [
        AppliedVariant(
            change=one,
            name=_name(one, names),
            after=deciding[place - 1] if place else None,
            after_words=_words(deciding[place - 1], found, names) if place else "",
        )
        for place, one in enumerate(deciding)
        if one.scenario == found.pk
    ]
    if not listed or not deciding[0].is_told(now):
        return listed, None
    gone = listed[0] if listed[0].after else None
    return listed, News(change=deciding[0], words=_words(deciding[0], found, names), gone=gone)


def _name(change: SettingsVersion, names: list[str]) -> str:
    at = change.variant
    return names[at] if at is not None and at < len(names) else "a variant"


def _words(change: SettingsVersion, found: Scenario, names: list[str]) -> str:
    """Return what a change did, from the side of this what-if."""
    if change.scenario == found.pk:
        return f"applied {_name(change, names)}"
    policy = change.after["policy"]
    if change.restored is not None:
        return f"restored version {change.restored} ({policy})"
    return f"applied {policy} of another what-if" if change.scenario else f"changed the settings ({policy})"


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
    if not (index.isdecimal() and len(index) < 3 and int(index) < len(found.variants)):
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


def _question(
    request: HttpRequest, found: Scenario, index: int, *, wrong: str = "", wrong_anyway: bool = False
) -> HttpResponseBase:
    question = settings_question(request, changes=_settings_of_variant(found.variants[index]))
    if not (question.changes or wrong or wrong_anyway):
        messages.info(request, f"{question.names} decide already.")
        return redirect("what-if-scenario", scenario=found.pk)
    context = {
        "question": question,
        "wrong": wrong,
        "wrong_anyway": wrong_anyway,
        "title": f"Apply {names_of(found)[index]}?",
        "verb": "Apply",
        "action": reverse("what-if-apply", args=[found.pk]),
        "hidden": {"variant": index},
        "anyway": ANYWAY if doubts(found.about.get("fidelity")) else "",
        "back": reverse("what-if-scenario", args=[found.pk]),
        "back_name": found.name,
    }
    return render(request, "components/settings_question.html", context, status=422 if wrong or wrong_anyway else 200)


def _change(request: HttpRequest, found: Scenario, index: int) -> HttpResponseBase:
    version = request.POST.get("version", "")
    if not (version.isdecimal() and len(version) < 19):
        raise NotFound("variant")
    if doubts(found.about.get("fidelity")) and request.POST.get("anyway", "").strip().lower() != ANYWAY:
        return _question(request, found, index, wrong_anyway=True)
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
