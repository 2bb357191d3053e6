"""Creates, cancels and deletes what-if scenarios; decides who may ask what, and how much.

Admins may ask about the cluster, now and in the past. Leads may ask about a trace file or a generated workload on a
cluster of any size, and about other quotas of a queue they lead on the live cluster; no answer shows single jobs of
others. An admin's scenario about the cluster is for admins alone, even if its owner no longer is one. The simulations
worker looks for runs and makes them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.models import Scenario, ScenarioRun
from scheduler.models.scenario import RUN_OPEN, SCENARIO_OPEN, RunState, ScenarioState
from scheduler.ports import live_ports
from scheduler.selectors.visibility import Actor, is_admin, may_ask_what_if, require_scenario
from scheduler.services.events import event_record
from scheduler.services.whatif.checks import Asked, refuse_without_history, scenario_checked
from scheduler.services.whatif.lead_checks import led_queue
from scheduler.services.whatif.variant_checks import OF_CLUSTER

MOST_OPEN_OF_USER = 2
MOST_OPEN = 8
MOST_KEPT_OF_USER = 200


def scenario_create(*, actor: Actor, body: Mapping[str, Any], at: datetime) -> Scenario:  # JSON, checked here
    """Create a scenario and its runs; a worker starts them within a second.

    Args:
        body: ``name``, ``start``, ``variants``, ``seeds``, see ``checks.py``.

    Raises:
        NotAllowed: ``actor`` is neither an admin nor a lead, or a lead asks about the cluster.
        SpecInvalid: One entry per bad field.
        Conflict: Too many scenarios run already.
    """
    user = _asker(actor)
    asked = scenario_checked(body, actor=user)
    is_of_cluster = asked.start["kind"] in OF_CLUSTER
    for_queue = None if is_admin(user) or not is_of_cluster else led_queue(asked, actor=user)
    if asked.start["kind"] == "live":
        refuse_without_history()
    with transaction.atomic():
        _refuse_too_many(user)
        scenario = Scenario.objects.create(
            id=live_ports().ids.ulid(at),
            name=asked.name,
            owner=user,
            created_at=at,
            start=asked.start,
            of_cluster=is_of_cluster,
            for_queue=for_queue,
            variants=asked.variants,
            seeds=asked.seeds,
            trace_file=asked.trace_file,
        )
        ScenarioRun.objects.bulk_create(
            ScenarioRun(scenario=scenario, variant=variant, seed=seed)
            for seed in asked.seeds
            for variant in range(len(asked.variants))
        )
        _record(scenario, actor=user, at=at, reason="create", more=_told(asked))
    return scenario


def scenario_cancel(*, actor: Actor, scenario: Scenario, at: datetime) -> Scenario:
    """Cancel a scenario; its results so far stay.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` sees it and did not ask it.
        Conflict: It has ended.
    """
    user = _asker(actor)
    _require_own(user, require_scenario(user, scenario.pk))
    with transaction.atomic():
        found = Scenario.objects.filter(pk=scenario.pk, state__in=SCENARIO_OPEN)
        if found.update(state=ScenarioState.CANCELLED, ended_at=at) != 1:
            raise Conflict(f"{scenario.name} has ended already.")
        ScenarioRun.objects.filter(scenario=scenario, state__in=RUN_OPEN).update(state=RunState.CANCELLED, ended_at=at)
        _record(scenario, actor=user, at=at, reason="cancel", more={})
    scenario.refresh_from_db(fields=["state", "ended_at"])
    return scenario


def scenario_delete(*, actor: Actor, scenario: Scenario, at: datetime) -> None:
    """Delete a scenario and its results.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` sees it and did not ask it.
        Conflict: It still runs.
    """
    user = _asker(actor)
    _require_own(user, require_scenario(user, scenario.pk))
    with transaction.atomic():
        if scenario.state in SCENARIO_OPEN:
            raise Conflict(f"{scenario.name} still runs. Cancel it first.")
        _record(scenario, actor=user, at=at, reason="delete", more={})
        scenario.delete()


def _require_own(user: User, scenario: Scenario) -> None:
    """Refuse to end or delete what another lead asked."""
    if scenario.owner_id != user.pk and not is_admin(user):
        raise NotAllowed(f"Only {scenario.owner.username}, who asked it, and admins may do that.")


def _asker(actor: Actor) -> User:
    if not (isinstance(actor, User) and may_ask_what_if(actor)):
        raise NotAllowed("Only admins and leads of a queue may ask what-if questions.")
    return actor


def _refuse_too_many(user: User) -> None:
    is_open = Scenario.objects.filter(state__in=SCENARIO_OPEN)
    if is_open.filter(owner=user).count() >= MOST_OPEN_OF_USER:
        raise Conflict(f"{MOST_OPEN_OF_USER} of your scenarios still run. Wait for one, or cancel it.")
    if is_open.count() >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} scenarios wait already. Try again when one has ended.")
    if Scenario.objects.filter(owner=user).count() >= MOST_KEPT_OF_USER:
        raise Conflict(f"You keep {MOST_KEPT_OF_USER} scenarios. Delete one first.")


def _told(asked: Asked) -> dict[str, Any]:  # JSON of the event
    return {"start": asked.start["kind"], "variants": len(asked.variants), "seeds": len(asked.seeds)}


def _record(scenario: Scenario, *, actor: User, at: datetime, reason: str, more: Mapping[str, Any]) -> None:
    data = {"scenario": scenario.pk, "name": scenario.name, **more}
    event_record(kind="whatif", actor=actor, at=at, reason=reason, data=data)
