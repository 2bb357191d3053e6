"""Secrets when an attempt starts: sealed for its server, recorded, and never in anything that is stored or sent."""

import json
from typing import Any

import pytest

from agents.protocol.job_secret import JobSecret
from agents.protocol.sealing import secrets_unseal
from agents.protocol.signing import MAX_MESSAGE_BYTES
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.rounds.desired import desired_send
from scheduler.models import Event, Job, Secret, Server
from scheduler.services.secrets.store import secret_delete, secret_set
from tests.support.live.world import World

VALUE = "canary-0123456789"
ENV = {"WANDB_API_KEY": {"secret": "wandb"}, "SEED": "1"}


@pytest.fixture
def kept(world: World) -> Secret:
    """A secret of the admin, who submits the jobs."""
    secret, _ = secret_set(actor=world.admin, queue=None, name="wandb", value=VALUE, at=world.clock.now())
    return secret


def orders(world: World, name: str) -> list[dict[str, Any]]:
    """Return the orders in the messages that wait for a server."""
    texts = world.transport.desired.get(Server.objects.get(name=name).pk, [])
    return [order for text in texts for order in json.loads(json.loads(text)["content"])["body"]["attempts"]]


def repeated(world: World, server: Server) -> list[dict[str, Any]]:
    """Return the orders of a message that repeats what a server is to do."""
    world.transport.desired.clear()
    desired_send([server.pk], transport=world.transport, at=world.clock.now())
    return orders(world, server.name)


def test_value_is_sealed_for_the_server_that_starts_the_job_and_for_no_other(world: World, kept: Secret) -> None:
    """The message holds it for that attempt alone, and not any more once it runs."""
    world.server("alpha")
    world.server("beta")
    job = world.submit(env=ENV)
    world.round()
    seen = {name: orders(world, name) for name in ("alpha", "beta")}
    (name,) = [name for name, found in seen.items() if found]
    server, order = Server.objects.get(name=name), seen[name][-1]

    assert order["env"] == {"SEED": "1"}
    opened = secrets_unseal(
        key=bytes.fromhex(server.key_hex), server=server.pk, attempt_id=order["attempt_id"], sealed=order["sealed"]
    )
    assert opened == (JobSecret(variable="WANDB_API_KEY", name="wandb", value=VALUE),)
    assert VALUE not in json.dumps(world.transport.desired)
    world.until_state(job, JobState.RUNNING)
    assert [order["sealed"] for order in repeated(world, server)] == [""]


def test_each_start_is_in_the_audit_list_and_on_the_secret(world: World, kept: Secret) -> None:
    """Who, for which job, and when; without the value."""
    world.server("alpha")
    job = world.submit(env=ENV)
    world.until_state(job, JobState.RUNNING)
    row = Secret.objects.get()

    (event,) = Event.objects.filter(kind="secret", reason="use")
    assert event.actor == world.admin.username
    assert event.request_id
    assert event.data == {
        "name": "wandb",
        "of": "user",
        "used_by": f"J-{job.number}",
        "attempt": 1,
        "variable": "WANDB_API_KEY",
    }
    assert (row.last_used_by_id, row.last_used_at) == (job.pk, event.at)
    assert VALUE not in f"{list(Event.objects.values())}{list(Job.objects.values())}"


def test_secret_that_vanished_before_the_start_fails_the_job_and_says_so(world: World, kept: Secret) -> None:
    """At once, on no server, with the command that sets it."""
    job = world.submit(env=ENV)
    secret_delete(actor=world.admin, queue=None, name="wandb", at=world.clock.now())
    world.server("alpha")
    world.until_state(job, JobState.FAILED)
    row = Job.objects.get(pk=job.pk)

    assert row.end_cause == EndCause.SECRET_MISSING
    assert "Neither admin nor vision has a secret wandb" in row.end_detail
    assert [attempt.end_cause for attempt in world.attempts(job)] == [EndCause.SECRET_MISSING]
    assert not orders(world, "alpha")
    other = world.submit(name="next")
    world.until_state(other, JobState.RUNNING)


def test_next_start_has_the_value_that_is_kept_then(world: World, kept: Secret) -> None:
    """A replaced value is used at the next start; the job that runs keeps its own."""
    world.server("alpha")
    job = world.submit(env=ENV)
    secret_set(actor=world.admin, queue=None, name="wandb", value="another-0123456789", at=world.clock.now())
    world.round()
    (order,) = orders(world, "alpha")[-1:]
    server = Server.objects.get(name="alpha")
    opened = secrets_unseal(
        key=bytes.fromhex(server.key_hex), server=server.pk, attempt_id=order["attempt_id"], sealed=order["sealed"]
    )

    assert [secret.value for secret in opened] == ["another-0123456789"]
    assert job.pk


def test_secret_that_vanishes_on_the_way_starts_nothing(world: World, kept: Secret) -> None:
    """Between the round and the message: it is not confirmed, and its next start says why it cannot be."""
    world.server("alpha")
    job = world.submit(env=ENV)
    world.transport.is_down = True
    world.round()
    assert world.state(job) == JobState.LAUNCHING
    secret_delete(actor=world.admin, queue=None, name="wandb", at=world.clock.now())
    world.transport.is_down = False
    world.until_state(job, JobState.FAILED, within_s=400)

    assert Job.objects.get(pk=job.pk).end_cause == EndCause.SECRET_MISSING


def test_gang_gets_its_secrets_on_every_rank(world: World, kept: Secret) -> None:
    """Each process has an order of its own, sealed for itself."""
    world.server("alpha", slots=1)
    world.server("beta", slots=1)
    world.submit(env=ENV, resources={"gpus": 2, "max_servers": 2})
    world.round()
    for name in ("alpha", "beta"):
        server, (order, *_) = Server.objects.get(name=name), orders(world, name)[-1:]
        opened = secrets_unseal(
            key=bytes.fromhex(server.key_hex), server=server.pk, attempt_id=order["attempt_id"], sealed=order["sealed"]
        )
        assert [secret.value for secret in opened] == [VALUE]


def test_large_secrets_of_many_jobs_follow_in_later_messages(world: World) -> None:
    """No message becomes too large to be taken: its server would hear nothing any more."""
    names = [f"large-{number}" for number in range(30)]
    for name in names:
        secret_set(actor=world.admin, queue=None, name=name, value="x" * 8_000, at=world.clock.now())
    world.server("alpha", slots=8)
    env = {f"V{number}": {"secret": name} for number, name in enumerate(names)}
    jobs = [world.submit(name=f"job-{number}", env=env) for number in range(8)]
    world.round()
    sizes = [len(text) for text in world.transport.desired[Server.objects.get(name="alpha").pk]]

    assert max(sizes) <= MAX_MESSAGE_BYTES
    assert len(orders(world, "alpha")) < len(jobs)
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in jobs))


def test_secrets_that_are_too_large_together_fail_the_job_alone(world: World) -> None:
    """Letters that take six bytes each on the way."""
    names = [f"odd-{number}" for number in range(32)]
    for name in names:
        secret_set(actor=world.admin, queue=None, name=name, value="x" + "\x01" * 8_000 + "x", at=world.clock.now())
    world.server("alpha")
    job = world.submit(env={f"V{number}": {"secret": name} for number, name in enumerate(names)})
    world.until_state(job, JobState.FAILED)

    assert "take more than 256 KiB" in Job.objects.get(pk=job.pk).end_detail
