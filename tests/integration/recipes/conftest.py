"""A cluster without servers, on a clock of our own, behind pages and REST."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from scheduler.notify import use_bell
from tests.support.live.world import World


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Path) -> None:  # pytest-django's settings take any name
    """No counts of earlier requests, static files as they lie in the tree."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    cache.clear()


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """The live engine, with one queue ``vision``."""
    made = World()
    made.queue("vision", quota_gpus=8)
    yield made
    use_bell(None)


@pytest.fixture
def admin(world: World) -> Client:
    """A browser in which an admin has signed in."""
    client = Client()
    client.force_login(world.admin)
    return client
