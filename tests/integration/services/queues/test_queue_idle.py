"""What becomes of idle jobs of a queue: who says it, what is refused, and the form of the quota tab."""

from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Event, Queue
from scheduler.models.queue import Role
from scheduler.services.queues.idle import queue_set_idle
from tests.support.rows.factories import AT, member_make, queue_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


def test_leads_set_it_with_a_reason_and_it_is_audited() -> None:
    """Members are refused, bad values name their field, two leads do not overwrite each other."""
    queue = queue_make("vision", quota_gpus=4)
    lead, member = member_make(queue, Role.LEAD), member_make(queue)
    values: dict[str, Any] = {"queue": queue, "idle_after_s": 7200, "idle_action": "suspend", "at": AT}

    changed = queue_set_idle(actor=lead, reason="others wait", expected_version=queue.version, **values)

    assert (changed.idle_after_s, changed.idle_action, changed.version) == (7200, "suspend", queue.version + 1)
    assert Event.objects.get(kind="idle_rule").data == {
        "before": {"idle_after_s": 3600, "idle_action": "tell"},
        "after": {"idle_after_s": 7200, "idle_action": "suspend"},
        "reason": "others wait",
    }
    with pytest.raises(NotAllowed):
        queue_set_idle(actor=member, reason="mine stay", expected_version=changed.version, **values)
    with pytest.raises(Conflict, match=r"^The rule for idle jobs of .* was not saved: .* changed it 0 s ago"):
        queue_set_idle(actor=lead, reason="too late", expected_version=queue.version, **values)
    bad = values | {"idle_after_s": 5, "idle_action": "shoot"}
    with pytest.raises(SpecInvalid) as refused:
        queue_set_idle(actor=lead, reason="x", expected_version=changed.version, **bad)
    assert [error.pointer for error in refused.value.errors] == ["/reason", "/idle_after_s", "/idle_action"]


def test_form_takes_times_as_people_write_them(client: Client) -> None:
    """2h is saved and shown again; text without a unit stays in the form with what would be right; empty is never."""
    queue = queue_make("vision", quota_gpus=4)
    client.force_login(member_make(queue, Role.LEAD))
    form = {"do": "idle", "idle-action": "suspend", "idle-reason": "others wait", "idle-version": queue.version}

    wrong = client.post("/queues/vision?tab=quota", {**form, "idle-after": "soon"})
    assert wrong.status_code == 422
    assert "Write a number with a unit, such as 30m or 2h, not soon." in wrong.content.decode()
    short = client.post("/queues/vision?tab=quota", {**form, "idle-after": "5s"})
    assert short.status_code == 422
    assert "between 1m and 720h" in short.content.decode()
    assert client.post("/queues/vision?tab=quota", {**form, "idle-after": "2h"}).status_code == 302
    page = client.get("/queues/vision?tab=quota").content.decode().replace("\N{NO-BREAK SPACE}", " ")
    assert 'value="2h"' in page
    assert "suspend jobs that use no GPU for 2 h" in page
    late = client.post("/queues/vision?tab=quota", {**form, "idle-after": ""})
    assert late.status_code == 409
    client.post("/queues/vision?tab=quota", {**form, "idle-after": "", "idle-version": queue.version + 1})
    assert Queue.objects.get(pk=queue.pk).idle_after_s is None
