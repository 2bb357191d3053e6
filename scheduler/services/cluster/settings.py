"""Settings of the scheduler: policy, locality, mechanism, introspection, pause. A round reads them at its start."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from scheduler.choices import build_config
from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.core.round.config import SchedulerConfig
from scheduler.models import Cluster, Event
from scheduler.notify import request_round, touch_cluster
from scheduler.services.events import event_record
from scheduler.services.inputs import reason_given
from scheduler.services.permission import Doer, require_admin

# What is chosen by name, each with its options.
CHOSEN = ("policy", "locality", "mechanism")
VOLUME = {
    "user_most_queued": (1, 1_000_000),
    "spec_most_bytes": (1_024, 2 * 2**20),
    "experiment_most_jobs": (1, 10_000),
    "code_most_bytes": (1_024, 2**40),
    "code_most_files": (1, 100_000),
}
# Numbers of seconds from 0 on, and the most.
SECONDS = {"smoke_run_s": 3_600.0, "min_run_s": 86_400.0}
PLAIN = ("paused", "smoke_run_s", *VOLUME)
# Introspections are a list of names; their options are given by name.
FIELDS = (
    *CHOSEN,
    *(f"{name}_options" for name in CHOSEN),
    "introspection",
    "introspection_options",
    "min_run_s",
    *PLAIN,
)


def cluster_row() -> Cluster:
    """Return the one row of the cluster, made on first use."""
    return Cluster.objects.get_or_create(pk=1)[0]


def config_of(cluster: Cluster) -> SchedulerConfig:
    """Return the configuration that the settings choose."""
    return config_with(settings_of(cluster))


def config_with(chosen: Mapping[str, Any]) -> SchedulerConfig:
    """Return the configuration that checked settings choose (``settings_checked``)."""
    return build_config(**{name: chosen[name] for name in FIELDS if name not in PLAIN})


def settings_change(
    *,
    actor: Doer,
    changes: Mapping[str, Any],
    expected_version: int,
    at: datetime,
    reason: str,
    because: Mapping[str, object] | None = None,
) -> Cluster:
    """Change settings from the next round on.

    Args:
        changes: New values of some of FIELDS, as plain JSON data; a newly chosen policy, locality or mechanism begins
            with its default options unless options are given with it, and an introspection that is no longer chosen
            takes its options along.
        expected_version: ``Cluster.settings_version`` as the actor saw it.
        reason: Why, for readers of the audit list; needed.
        because: What else the entry keeps, such as the what-if that spoke for the change.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: An unknown field or name, or a bad option; one entry each. A reason that is missing.
        Conflict: The settings changed since.
    """
    require_admin(actor, "change the settings of the scheduler")
    reason = reason_given(reason)
    cluster_row()
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=1)
        if cluster.settings_version != expected_version:
            raise Conflict(_changed_by(at))
        before = settings_of(cluster)
        after = settings_checked(before, changes)
        if after == before:
            return cluster
        found = Cluster.objects.filter(pk=1, settings_version=expected_version)
        if found.update(settings_version=F("settings_version") + 1, **after) != 1:
            raise Conflict(_changed_by(at))
        cluster.refresh_from_db()
        names = [field for field in FIELDS if before[field] != after[field]]
        data: dict[str, Any] = {
            "before": {name: before[name] for name in names},
            "after": {name: after[name] for name in names},
        }
        data |= {"reason": reason} | dict(because or {})
        event_record(kind="settings", actor=actor, at=at, reason="change", data=data)
        touch_cluster()
        request_round("settings")
    return cluster


def settings_restore(*, actor: Doer, event: Event, expected_version: int, at: datetime, reason: str) -> Cluster:
    """Choose again what was chosen before an earlier change; whether scheduling is paused stays.

    Args:
        event: The change, of kind "settings".
        reason: Why; needed.

    Raises:
        NotAllowed, SpecInvalid, Conflict: As ``settings_change``.
    """
    require_admin(actor, "change the settings of the scheduler")
    return settings_change(
        actor=actor,
        changes=settings_restored(event),
        expected_version=expected_version,
        at=at,
        reason=reason,
        because={"restored": event.at.isoformat()},
    )


def settings_restored(event: Event) -> dict[str, Any]:  # JSON
    """Return what ``settings_restore`` chooses again."""
    return {name: value for name, value in settings_before(event).items() if name != "paused"}


def settings_before(event: Event) -> dict[str, Any]:  # JSON
    """Return all settings as they were before a change of them, by undoing it and every one since."""
    found = settings_of(cluster_row())
    for newer in Event.objects.filter(kind="settings", pk__gte=event.pk).order_by("-pk"):
        found |= {name: value for name, value in newer.data.get("before", {}).items() if name in FIELDS}
    return found


def settings_checked(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings after the changes. Raises SpecInvalid."""
    errors = [
        FieldError(
            pointer=f"/{name}", code="unknown", detail=f"{name} is not a setting. Settings are {', '.join(FIELDS)}."
        )
        for name in changes
        if name not in FIELDS
    ]
    after = {**before, **{name: value for name, value in changes.items() if name in FIELDS}}
    for name in CHOSEN:
        if after[name] != before[name] and f"{name}_options" not in changes:
            after[f"{name}_options"] = {}
    if "introspection_options" not in changes and isinstance(after["introspection"], list):
        kept = before["introspection_options"]
        after["introspection_options"] = {name: kept[name] for name in kept if name in after["introspection"]}
    if not isinstance(after["paused"], bool):
        errors.append(FieldError(pointer="/paused", code="type", detail="paused must be true or false."))
    for name, longest_s in SECONDS.items():
        value = after[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and 0 <= value <= longest_s):
            detail = f"{name} must be a number of seconds from 0, for none, to {longest_s:.0f}."
            errors.append(FieldError(pointer=f"/{name}", code="range", detail=detail))
    for name, (least, most) in VOLUME.items():
        value = after[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            detail = f"{name} must be a whole number from {least:,} to {most:,}."
            errors.append(FieldError(pointer=f"/{name}", code="range", detail=detail))
    errors += _choice_errors(after, errors)
    if errors:
        raise SpecInvalid(errors)
    return after


def _choice_errors(after: Mapping[str, Any], others: Sequence[FieldError]) -> list[FieldError]:
    """Return the errors of the chosen names and options."""
    errors = [
        FieldError(pointer=f"/{name}", code="type", detail=f"{name} must be {what}.")
        for names, kind, what in (
            (CHOSEN, str, "a name"),
            ([f"{name}_options" for name in CHOSEN], Mapping, "a mapping of options to values"),
        )
        for name in names
        if not isinstance(after[name], kind)
    ]
    names, options = after["introspection"], after["introspection_options"]
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        errors.append(
            FieldError(pointer="/introspection", code="type", detail="introspection must be a list of names.")
        )
    if not (isinstance(options, Mapping) and all(isinstance(chosen, Mapping) for chosen in options.values())):
        detail = "introspection_options must be a mapping of names to mappings of options to values."
        errors.append(FieldError(pointer="/introspection_options", code="type", detail=detail))
    if errors or any(error.pointer == "/min_run_s" for error in others):
        return errors
    try:
        config_with(after)
    except SpecInvalid as error:
        return error.errors
    return []


def settings_of(cluster: Cluster) -> dict[str, Any]:  # JSON
    """Return the settings as plain JSON data."""
    return {field: getattr(cluster, field) for field in FIELDS}


def _changed_by(at: datetime) -> str:
    last = Event.objects.filter(kind="settings").order_by("-id").first()
    who = f"{last.actor} changed them {max(0, round((at - last.at).total_seconds()))} s ago" if last else "they changed"
    return f"The settings were not saved: {who}."
