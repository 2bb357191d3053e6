"""What a queue demands of servers: who says it, what is refused, and the form of the quota tab."""

from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Event, Queue
from scheduler.models.queue import Role
from scheduler.services.queues.isolation import queue_demand_isolation
from tests.support.rows.factories import AT, member_make, queue_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


def test_leads_set_it_with_a_reason_and_it_is_audited() -> None:
    """Members are refused, bad values name their field, two leads do not overwrite each other."""
    queue = queue_make("vision", quota_gpus=4)
    lead, member = member_make(queue, Role.LEAD), member_make(queue)
    values: dict[str, Any] = {"queue": queue, "isolation": "user", "at": AT}

    changed = queue_demand_isolation(actor=lead, reason="patients", expected_version=queue.version, **values)

    assert (changed.isolation, changed.version) == ("user", queue.version + 1)
    assert Event.objects.get(kind="isolation").data == {
        "before": {"isolation": "none"},
        "after": {"isolation": "user"},
        "reason": "patients",
    }
    with pytest.raises(NotAllowed):
        queue_demand_isolation(actor=member, reason="mine", expected_version=changed.version, **values)
    with pytest.raises(Conflict, match=r"^The demand on servers of .* was not saved: .* changed it 0 s ago"):
        queue_demand_isolation(actor=lead, reason="too late", expected_version=queue.version, **values)
    with pytest.raises(SpecInvalid) as refused:
        queue_demand_isolation(actor=lead, reason="x", expected_version=2, **(values | {"isolation": "walls"}))
    assert [error.pointer for error in refused.value.errors] == ["/reason", "/isolation"]


def test_form_saves_and_tells(client: Client) -> None:
    """The choice is kept and told in words; what another lead has changed meanwhile is not overwritten."""
    queue = queue_make("vision", quota_gpus=4)
    client.force_login(member_make(queue, Role.LEAD))
    form = {"do": "isolation", "isolation-reason": "patients", "isolation-version": queue.version}

    assert client.post("/queues/vision?tab=quota", {**form, "isolation-isolation": "walls"}).status_code == 422
    assert client.post("/queues/vision?tab=quota", {**form, "isolation-isolation": "full"}).status_code == 302
    page = client.get("/queues/vision?tab=quota").content.decode()
    assert '<option value="full" selected>' in page
    assert "start only where they have a user of their own and open their own files alone" in page
    assert client.post("/queues/vision?tab=quota", {**form, "isolation-isolation": "none"}).status_code == 409
    assert Queue.objects.get(pk=queue.pk).isolation == "full"
