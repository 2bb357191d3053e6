"""The form for a new queue below the list of queues, for admins alone."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.shortcuts import redirect

from frontend.components.devices import DeviceWord
from frontend.components.viewer import now_utc
from frontend.pages.queues.sent import Sent
from scheduler.core.model.errors import SpecInvalid
from scheduler.selectors.visibility import access_of, require_queue
from scheduler.services.permission import require_admin
from scheduler.services.queues.create import queue_create

TOP = "No other queue"


class QueueForm(forms.Form):
    """Name, place and quota of a new queue."""

    name = forms.CharField(max_length=120, help_text="Such as vision, or vision/research below vision.")
    parent = forms.ChoiceField(required=False, label="Below", help_text="Shares the quota of the queue above.")
    quota_gpus = forms.IntegerField(min_value=0, label="Quota", help_text="What it may always have.")

    def __init__(self, *args: Any, parents: list[str], **kwargs: Any) -> None:  # Django's own signature
        super().__init__(*args, **kwargs)
        self.fields["parent"].choices = [("", TOP), *((name, name) for name in parents)]  # type: ignore[attr-defined]
        for field in self.fields.values():
            field.widget.attrs["autocomplete"] = "off"


def queue_form(request: HttpRequest, post: Mapping[str, str] | None = None) -> QueueForm | None:
    """Return the form, filled with ``post``; None for users who may not create queues."""
    access = access_of(request.user)
    if not access.is_admin:
        return None
    return QueueForm(post, parents=[queue.name for queue in access.queues().order_by("name")])


def queue_sent(request: HttpRequest, device: DeviceWord) -> Sent:
    """Create a queue."""
    require_admin(request.user, "create queues")
    form = queue_form(request, request.POST)
    assert form is not None
    if not form.is_valid():
        return Sent(status=422, context={"form": form})
    data = form.cleaned_data
    parent = require_queue(request.user, data["parent"]) if data["parent"] else None
    try:
        made = queue_create(
            actor=request.user, name=data["name"], parent=parent, quota_gpus=data["quota_gpus"], at=now_utc()
        )
    except SpecInvalid as error:
        for entry in error.errors:
            name = entry.pointer.strip("/")
            form.add_error(name if name in form.fields else None, device.said(entry.detail))
        return Sent(status=422, context={"form": form})
    messages.success(request, f"{made.name} is made. Give its people their roles here.")
    return Sent(to=redirect(f"/queues/{made.name}?tab=members"))
