"""Servers are renamed, labelled and removed; what ran on them keeps its history."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.errors import Conflict, NotAllowed, NotFound, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Job, Lease, Server
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.overview import cluster_now
from scheduler.selectors.cluster.servers import server_list
from scheduler.services.cluster.servers import (
    server_change,
    server_drain,
    server_register,
    server_remove,
    server_undrain,
)
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db


def change(server: Server, **values: Any) -> Server:
    """Rename or label a server as an admin."""
    given = {"name": server.name, "labels": server.labels, "reason": "new rack", **values}
    return server_change(actor=user_make(admin=True), server=server, at=AT, **given)


def remove(server: Server) -> Server:
    """Remove a server as an admin."""
    return server_remove(actor=user_make(admin=True), server=server, reason="sold", at=AT)


def test_new_name_and_labels_are_kept_with_both_values() -> None:
    """The event tells what was before; a taken or odd name, a long label and no reason name their field."""
    server, other = server_make("gpu-01"), server_make("gpu-02")

    changed = change(server, name="gpu-17", labels=["new fans", "west", "west"])

    assert (changed.name, changed.labels) == ("gpu-17", ["new fans", "west"])
    assert Event.objects.get(kind="server_change").data == {
        "before": {"name": "gpu-01", "labels": []},
        "after": {"name": "gpu-17", "labels": ["new fans", "west"]},
        "reason": "new rack",
    }
    for values, field in (
        ({"name": other.name}, "/name"),
        ({"name": "gpu 01"}, "/name"),
        ({"labels": ["x" * 41]}, "/labels"),
        ({"labels": ["west, fans"]}, "/labels"),
        ({"labels": [str(number) for number in range(11)]}, "/labels"),
        ({"reason": ""}, "/reason"),
    ):
        with pytest.raises(SpecInvalid) as refused:
            change(changed, **values)
        assert [error.pointer for error in refused.value.errors] == [field]


def test_removal_waits_until_it_is_drained_and_empty() -> None:
    """Up, or with a job that still holds it, is a conflict that says what to do; nothing is written."""
    queue, server = queue_make(), server_make("gpu-01")
    job = job_make(queue, state=JobState.RUNNING, server=server)

    with pytest.raises(Conflict, match="Drain it first"):
        remove(server)
    server_drain(actor=user_make(admin=True), server=server, reason="sold", at=AT)
    with pytest.raises(Conflict, match="1 job still runs on gpu-01"):
        remove(server)
    Lease.objects.filter(attempt__job=job).update(closed_at=AT)
    remove(server)

    assert not Server.objects.filter(pk=server.pk).exists()
    event = Event.objects.get(kind="server_removal")
    assert event.data == {"name": "gpu-01", "state": "draining", "reason": "sold"}


def test_removed_server_leaves_lists_and_counts_and_its_history_stays() -> None:
    """Its GPUs count nowhere; its lease still tells where the job ran; its key is void and its name free."""
    queue, admin = queue_make(), user_make(admin=True)
    server = server_make("gpu-01", gpus=4, state=ServerState.UP)
    staying = server_make("gpu-02", gpus=2)
    job = job_make(queue, state=JobState.COMPLETED, server=server)
    key = server.key_hex
    Server.objects.filter(pk=server.pk).update(state=ServerState.LOST)

    remove(server)
    again = server_register(actor=admin, name="gpu-01", at=AT)

    assert [row["name"] for row in server_list(admin)] == [staying.name, "gpu-01"]
    frame = cluster_now()
    assert (frame["num_gpus"], frame["broken_gpus"]) == (2, 0)
    lease = Lease.objects.select_related("server").get(attempt__job=Job.objects.get(pk=job.pk))
    assert (lease.server.name, lease.server.pk) == ("gpu-01", server.pk)
    assert again.number > staying.number
    assert Server.with_removed.get(pk=server.pk).key_hex != key


def test_change_of_a_server_that_was_removed_meanwhile_is_not_found() -> None:
    """Of two admins at once the second is told so, whatever it was about to do."""
    server, admin = server_make("gpu-01", state=ServerState.LOST), user_make(admin=True)
    remove(server)

    tries: list[Callable[[], Server]] = [
        lambda: remove(server),
        lambda: change(server, name="gpu-17"),
        lambda: server_undrain(actor=admin, server=server, reason="new fan", at=AT),
        lambda: server_drain(actor=admin, server=server, reason="sold", at=AT),
    ]
    for late in tries:
        with pytest.raises(NotFound, match="gpu-01 was removed"):
            late()


def test_only_admins_by_rest_page_and_service(client: Client) -> None:
    """A lead is refused; an admin renames by REST and removes by the page, with messages that say so."""
    server = server_make("gpu-01", state=ServerState.LOST)
    lead = member_make(queue_make())
    with pytest.raises(NotAllowed):
        server_change(actor=lead, server=server, name="x", labels=[], reason="mine now", at=AT)
    with pytest.raises(NotAllowed):
        server_remove(actor=lead, server=server, reason="mine now", at=AT)
    client.force_login(user_make(admin=True))

    renamed = client.put(
        "/api/v1/servers/gpu-01",
        json.dumps({"name": "gpu-17", "labels": ["west"], "reason": "new rack"}),
        content_type="application/json",
    )
    unreasoned = client.post(f"/cluster/{server.pk}/remove", {"reason": ""})
    kept = Server.objects.filter(pk=server.pk).exists()
    removed = client.post(f"/cluster/{server.pk}/remove", {"reason": "sold"})

    assert (renamed.status_code, renamed.json()["name"], renamed.json()["labels"]) == (200, "gpu-17", ["west"])
    assert (unreasoned["Location"], kept) == (f"/cluster/{server.pk}", True)
    assert removed["Location"] == "/cluster"
    assert client.get("/api/v1/servers/gpu-17").status_code == 404


def test_removal_that_is_sent_again_gets_its_first_answer(client: Client) -> None:
    """The command sends a key with every POST and repeats it where the connection broke: the server is gone by then."""
    server_make("gpu-01", state=ServerState.LOST)
    client.force_login(user_make(admin=True))

    answers = [
        client.post(
            "/api/v1/servers/gpu-01/remove",
            json.dumps({"reason": "sold"}),
            content_type="application/json",
            headers={"Idempotency-Key": "k1"},
        )
        for _ in range(2)
    ]

    assert [(answer.status_code, answer.content) for answer in answers] == [(204, b""), (204, b"")]
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert not Server.objects.exists()
