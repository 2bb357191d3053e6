"""A small world for the REST API: two teams, one user for each role, a running job, a round, tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.cache import cache
from django.db import transaction
from django.test import Client

from scheduler import notify
from scheduler.core.model.lifecycle import JobState
from scheduler.models import (
    ApiToken,
    Experiment,
    Job,
    Profile,
    Queue,
    QuotaRequest,
    Round,
    Scenario,
    Server,
    SpecTemplate,
    TraceFile,
    Webhook,
)
from scheduler.models.queue import Role
from scheduler.models.scenario import ScenarioState
from scheduler.services.accounts.tokens import token_create
from scheduler.services.code import archives
from scheduler.services.secrets.store import secret_set
from scheduler.services.whatif import files
from tests.support.live.ports import MemoryBell
from tests.support.rows.code import unpacked_here
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import (
    job_make,
    member_make,
    queue_make,
    quota_request_make,
    round_make,
    server_make,
    user_make,
)
from tests.support.rows.notices import webhook_make
from tests.support.rows.scenarios import scenario_make, trace_file_make, trace_read_here


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the tests ask about.

    Attributes:
        users: One for each role but anonymous; roles are held in ``vision``, the outsider is a member of ``speech``.
        job: Of the member, in ``vision``, running on ``server``.
        tokens: Of each user, one that no test uses to sign in.
        experiment: One of the member, with one queued configuration.
        template: Of the member, in ``vision``.
        asked: A what-if scenario of the lead that has ended.
        asking: One that waits for a worker.
        trace_file: Of the lead.
        webhook: Of ``vision``.
        quota_request: Of the member, open, for ``vision``.

    Each user and ``vision`` keep a secret ``wandb``.
    """

    users: dict[str, User]
    org: Queue
    vision: Queue
    speech: Queue
    server: Server
    job: Job
    round: Round
    tokens: dict[str, ApiToken]
    experiment: Experiment
    template: SpecTemplate
    asked: Scenario
    asking: Scenario
    trace_file: TraceFile
    webhook: Webhook
    quota_request: QuotaRequest

    def actor(self, role: str) -> User | AnonymousUser:
        """Return the user of a role."""
        return AnonymousUser() if role == "anonymous" else self.users[role]

    def client(self, role: str) -> Client:
        """Return a browser signed in as the user of a role."""
        client = Client()
        if role != "anonymous":
            client.force_login(self.users[role])
        return client

    def bearer(self, role: str, *scopes: str) -> dict[str, str]:
        """Return the header of a new token of the user of a role."""
        return bearer(self.users[role], *scopes)


def bearer(user: User, *scopes: str) -> dict[str, str]:
    """Return the header of a new token of a user."""
    _, text = token_create(
        actor=user, name="test", scopes=scopes or ("jobs:write",), expires_at=None, at=datetime.now(UTC)
    )
    return {"Authorization": f"Bearer {text}"}


def spec(**changes: Any) -> dict[str, Any]:
    """Return a valid spec as JSON."""
    return {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"], **changes}


def world_make() -> World:
    """Return the rows."""
    org = queue_make("org", quota_gpus=16)
    vision, speech = queue_make("vision", parent=org), queue_make("speech", parent=org)
    users = {
        "admin": user_make("ada", admin=True),
        "lead": member_make(vision, Role.LEAD, name="lea"),
        "member": member_make(vision, Role.MEMBER, name="mia"),
        "viewer": member_make(vision, Role.VIEWER, name="vic"),
        "outsider": member_make(speech, Role.MEMBER, name="oz"),
    }
    at = datetime.now(UTC)
    server = server_make("server-01", gpus=4, last_report_at=at)
    experiment = experiment_make(vision, users["member"])
    job = job_make(vision, state=JobState.RUNNING, owner=users["member"], server=server, name="canary-job")
    job.profile = Profile.objects.create(fingerprint="auto-canary", model="python canary.py")
    job.array_number, job.array_index = job.number, 0
    job.save(update_fields=["profile", "array_number", "array_index"])
    tokens = {
        role: token_create(actor=user, name="kept", scopes=["jobs:read"], expires_at=None, at=at)[0]
        for role, user in users.items()
    }
    for queue, user in ((vision, users["lead"]), *((None, user) for user in users.values())):
        secret_set(actor=user, queue=queue, name="wandb", value="local-0123456789", at=at)
    return World(
        users=users,
        org=org,
        vision=vision,
        speech=speech,
        server=server,
        job=job,
        experiment=experiment,
        round=round_make(1),
        tokens=tokens,
        template=SpecTemplate.objects.create(
            queue=vision, name="canary", spec={"labels": {"a": "b"}}, owner=users["member"], created_at=at
        ),
        asked=scenario_make(users["lead"], state=ScenarioState.COMPLETED),
        asking=scenario_make(users["lead"]),
        trace_file=trace_file_make(users["lead"]),
        webhook=webhook_make(users["lead"], vision),
        quota_request=quota_request_make(vision, users["member"]),
    )


@pytest.fixture(autouse=True)
def _quiet(  # pytest-django's settings take any name
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No broker, no process, no counts of earlier requests, static files as in the tree, logs of this test alone."""
    monkeypatch.setattr(files, "trace_accepted", trace_read_here)
    monkeypatch.setattr(archives, "child_answer", unpacked_here)
    settings.STATIC_ROOT = tmp_path  # WhiteNoise warns of a missing directory
    settings.SHARED_DIR = tmp_path / "shared"
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    cache.clear()
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


@pytest.fixture(scope="module")
def kept_world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:  # pytest-django has no types for it
    """The rows, made once for all tests of a file; for files of many tests that look at nothing else."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield world_make()
        transaction.set_rollback(True)


@pytest.fixture
def world(db: None) -> World:
    """The rows, undone after the test."""
    return world_make()
