"""A small world for the job pages: two teams, one browser for each role, jobs in every state."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from scheduler import notify
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, GangMember, Job, Queue, Server
from scheduler.models.queue import Role
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import job_make, member_make, queue_make, sample_make, server_make, user_make

TABS = ("", "/why", "/logs", "/files", "/metrics", "/placement", "/profile", "/events", "/spec", "/attempts")


class _Page(HTMLParser):
    """What a page is made of: tags with their attributes, and text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.words.append(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer as a browser reads it."""

    status: int
    html: str
    tags: list[tuple[str, dict[str, str]]]
    text: str

    def having(self, **wanted: str) -> list[dict[str, str]]:
        """Return the attributes of the elements that have these; ``_`` in a name stands for ``-``."""
        names = {name.replace("_", "-"): value for name, value in wanted.items()}
        return [has for _, has in self.tags if all(has.get(name) == value for name, value in names.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """One user's browser."""

    client: Client
    user: User

    def open(self, path: str, **query: str) -> Page:
        """GET a page."""
        return self._page(self.client.get(path, query))

    def client_page(self, url: str) -> Page:
        """GET an address with its query string."""
        return self._page(self.client.get(url))

    def follow(self, path: str) -> Page:
        """GET a page and follow where it leads."""
        return self._page(self.client.get(path, follow=True))

    def send(self, path: str, data: dict[str, Any] | None = None) -> Page:
        """POST a form and follow where it leads."""
        return self._page(self.client.post(path, data or {}, follow=True))

    def _page(self, response: Any) -> Page:  # Django's test response
        return page_read(response.content.decode(), response.status_code)


def page_read(html: str, status: int = 200) -> Page:
    """Return what a browser makes of an answer."""
    read = _Page(html)
    text = " ".join(" ".join(read.words).replace("\u00a0", " ").replace("\u202f", " ").split())
    return Page(status=status, html=html, tags=read.tags, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two teams. Roles are held in ``vision``; the outsider is a member of ``speech``."""

    users: dict[str, User]
    vision: Queue
    speech: Queue
    server: Server

    def browser(self, role: str) -> Browser:
        """Return a signed-in browser."""
        client = Client()
        client.force_login(self.users[role])
        return Browser(client=client, user=self.users[role])


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Path) -> Iterator[None]:  # pytest-django's settings take any name
    """No broker, static files as they lie in the tree, logs of this test alone."""
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


@pytest.fixture
def world(db: None) -> World:
    """The teams and one server of eight CPU slots."""
    vision, speech = queue_make("vision", quota_gpus=4), queue_make("speech", quota_gpus=4)
    users = {
        "admin": user_make("ada", admin=True),
        "lead": member_make(vision, Role.LEAD, name="lea"),
        "member": member_make(vision, Role.MEMBER, name="mia"),
        "viewer": member_make(vision, Role.VIEWER, name="vic"),
        "outsider": member_make(speech, Role.MEMBER, name="oz"),
        "nobody": user_make("nob"),
    }
    return World(users=users, vision=vision, speech=speech, server=server_make("server-01", gpus=8))


def job_in(world: World, state: JobState, **columns: Any) -> Job:
    """Return a job of the member in ``vision``, begun a few minutes ago."""
    columns.setdefault("owner", world.users["member"])
    at = columns.pop("at", datetime.now(UTC) - timedelta(minutes=10))
    return job_make(world.vision, state=state, server=world.server, at=at, **columns)


def newest_attempt(job: Job) -> Attempt:
    """Return the newest attempt."""
    return Attempt.objects.filter(job=job).latest("number")


def log_write(attempt: Attempt | GangMember, text: str | bytes, *, start: int = 0) -> Path:
    """Write a segment of the log of an attempt or of a process of its gang, as the agent does."""
    directory = Path(django_settings.SHARED_DIR) / "attempts" / attempt.pk
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"log.{start:020d}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def samples_of(job: Job, count: int, **values: Any) -> None:
    """Write a sample every second until now."""
    now = datetime.now(UTC)
    for index in range(count):
        at = now - timedelta(seconds=count - 1 - index)
        measured = {"step": index, "loss": 3.0 - index / count, "steps_per_s": 2.0, "cpu_frac": 0.5}
        sample_make("job", job.pk, at, **{**measured, "memory_bytes": 2**28, **values})
