"""Saves and removes spec templates of a queue and views of the job list."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from scheduler.core.model.errors import FieldError, NotAllowed, NotFound, SpecInvalid
from scheduler.core.spec.env import secret_errors
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Queue, SavedView, SpecTemplate
from scheduler.models.queue import Role
from scheduler.selectors.queues.saved import template_visible
from scheduler.selectors.visibility import Actor, access_of, require_queue
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems

MOST_TEMPLATES = 200  # of one queue
MOST_VIEWS = 50  # of one user
NAME_CHARS = 80
VIEW_CHARS = 60


def template_create(*, actor: Actor, queue: str, name: str, spec: Mapping[str, Any], at: datetime) -> SpecTemplate:
    """Save part of a spec for the members of a queue, without the queue itself.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` may not submit to it.
        SpecInvalid: A bad or taken name, or a bad value; missing fields are no error.
    """
    found = require_queue(actor, queue)
    _require_member(actor, found)
    assert isinstance(actor, User)
    problems = Problems()
    name = problems.text("name", name, least=1, most=NAME_CHARS)
    part = {key: value for key, value in spec.items() if key != "queue"}
    read, errors = JobSpec.read({**part, "apiVersion": "v1"})
    problems.errors += [
        FieldError(pointer=f"/spec{error.pointer}", code=error.code, detail=error.detail)
        for error in errors
        if error.code != "required"
    ]
    plain = secret_errors(read.env, read.said_plain)
    problems.errors += [replace(error, pointer=f"/spec{error.pointer}") for error in plain]
    if found.templates.count() >= MOST_TEMPLATES:
        problems.add("name", "too_many", f"{found.name} has {MOST_TEMPLATES} templates. Remove one first.")
    problems.refuse()
    try:
        with transaction.atomic():
            template = SpecTemplate.objects.create(queue=found, name=name, spec=part, owner=actor, created_at=at)
            _record(template, actor, at, "create")
    except IntegrityError:
        raise _taken(f"{found.name} has a template {name} already.") from None
    return template


def template_delete(*, actor: Actor, template_id: int, at: datetime) -> None:
    """Remove a template. Raises NotFound, or NotAllowed unless it is one's own or one leads its queue."""
    template = template_visible(actor, template_id)
    is_own = template.owner_id == actor.pk
    if not access_of(actor).at_least(template.queue_id, Role.MEMBER if is_own else Role.LEAD):
        raise NotAllowed(f"Only who made it and leads of {template.queue.name} may remove {template.name}.")
    with transaction.atomic():
        _record(template, actor, at, "delete")
        template.delete()


def view_save(*, user: User, name: str, query: str, at: datetime) -> SavedView:
    """Save filters of the job list under a name, replacing earlier ones. Raises SpecInvalid."""
    problems = Problems()
    name = problems.text("name", name, least=1, most=VIEW_CHARS)
    query = problems.text("query", query, least=0, most=500)
    mine = SavedView.objects.filter(user=user)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_VIEWS:
        problems.add("name", "too_many", f"You have {MOST_VIEWS} views. Remove one first.")
    problems.refuse()
    with transaction.atomic():
        view, _ = SavedView.objects.update_or_create(
            user=user, name=name, defaults={"query": query}, create_defaults={"query": query, "created_at": at}
        )
        event_record(kind="view", actor=user, at=at, reason="save", data={"name": name, "query": query})
    return view


def view_delete(*, user: User, view_id: int, at: datetime) -> None:
    """Remove a view of one's own. Raises NotFound."""
    view = SavedView.objects.filter(user=user, pk=view_id).first()
    if view is None:
        raise NotFound("You have no such view.")
    with transaction.atomic():
        event_record(kind="view", actor=user, at=at, reason="delete", data={"name": view.name, "query": view.query})
        view.delete()


def _require_member(actor: Actor, queue: Queue) -> None:
    if not access_of(actor).at_least(queue.pk, Role.MEMBER):
        raise NotAllowed(f"You see {queue.name} but may not submit to it, so you keep no templates for it.")


def _taken(detail: str) -> SpecInvalid:
    return SpecInvalid([FieldError(pointer="/name", code="taken", detail=detail)])


def _record(template: SpecTemplate, actor: Actor, at: datetime, reason: str) -> None:
    assert isinstance(actor, User)
    event_record(
        kind="template", actor=actor, at=at, reason=reason, queue=template.queue, data={"template": template.name}
    )
