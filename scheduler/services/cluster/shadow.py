"""Lets admins choose and end the shadow policy; ``scheduler.whatif.shadow`` plans its rounds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.models import Shadow
from scheduler.services.cluster.settings import CHOSEN, cluster_row, settings_checked, settings_of
from scheduler.services.events import event_record
from scheduler.services.inputs import reason_given
from scheduler.services.permission import Doer, require_admin
from scheduler.simulator.study.variants import ARM_FIELDS


def shadow_row() -> Shadow:
    """Return the one row of the shadow, made on first use."""
    return Shadow.objects.get_or_create(pk=1)[0]


def shadow_choose(
    *,
    actor: Doer,
    changes: Mapping[str, Any],
    expected_version: int,
    at: datetime,
    reason: str,
) -> Shadow:
    """Let another configuration plan every round from the next one on, without acting.

    Args:
        changes: What differs from the settings in force, as ``settings_change`` takes it; the whole
            configuration is kept, so that a later change of the settings does not change the shadow.
        expected_version: ``Shadow.version`` as the actor saw it.
        reason: Why, for readers of the audit list; needed.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad name or option, the configuration in force, or no reason.
        Conflict: The shadow changed since.
    """
    require_admin(actor, "choose a shadow policy")
    reason = reason_given(reason)
    unknown = [name for name in changes if name not in ARM_FIELDS]
    if unknown:
        detail = f"{unknown[0]} is not part of a shadow policy. Parts are {', '.join(ARM_FIELDS)}."
        raise SpecInvalid([FieldError(pointer=f"/{unknown[0]}", code="unknown", detail=detail)])
    now = settings_of(cluster_row())
    after = settings_checked(now, changes)
    chosen = {name: after[name] for name in ARM_FIELDS}
    if chosen == {name: now[name] for name in ARM_FIELDS}:
        detail = "This is what decides already. Choose something else to compare it with."
        raise SpecInvalid([FieldError(pointer="/policy", code="same", detail=detail)])
    return _write(actor=actor, chosen=chosen, expected_version=expected_version, at=at, reason=reason)


def shadow_end(*, actor: Doer, expected_version: int, at: datetime, reason: str) -> Shadow:
    """End the shadow from the next round on; its results stay until another is chosen.

    Args:
        reason: Why, for readers of the audit list; needed.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: No reason.
        Conflict: The shadow changed since.
    """
    require_admin(actor, "end the shadow policy")
    return _write(actor=actor, chosen={}, expected_version=expected_version, at=at, reason=reason_given(reason))


def _write(*, actor: Doer, chosen: dict[str, Any], expected_version: int, at: datetime, reason: str) -> Shadow:
    shadow_row()
    with transaction.atomic():
        shadow = Shadow.objects.select_for_update().get(pk=1)
        if shadow.version != expected_version:
            raise Conflict("The shadow policy was not saved: somebody changed it meanwhile.")
        if shadow.chosen == chosen:
            return shadow
        before = {name: shadow.chosen[name] for name in CHOSEN if name in shadow.chosen}
        shadow.chosen, shadow.version = chosen, shadow.version + 1
        shadow.since = at if chosen else None
        shadow.chosen_by = actor if isinstance(actor, User) else None
        shadow.save()
        data = {"before": before, "after": chosen, "reason": reason}
        event_record(kind="shadow", actor=actor, at=at, reason="choose" if chosen else "end", data=data)
    return shadow
