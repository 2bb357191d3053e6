"""One full world for all tests of a file; what a test changes is undone after it."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import override_settings

from scheduler import notify
from tests.integration.api.conftest import World
from tests.support.live.ports import MemoryBell
from tests.support.pages.world import full_world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files of jobs lie."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def kept_world(folder: Path, django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:  # it has no type
    """The rows, made once."""
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(SHARED_DIR=folder):
            made = full_world(folder)
        yield made
        transaction.set_rollback(True)


@pytest.fixture
def world(kept_world: World, db: None) -> World:
    """The rows of this test."""
    return copy.deepcopy(kept_world)


@pytest.fixture(autouse=True)
def _quiet(settings: Any, folder: Path, tmp_path: Path) -> Iterator[None]:  # pytest-django's settings take any name
    """No broker, no counts of earlier requests, static files as they lie in the tree, quick passwords."""
    settings.STATIC_ROOT, settings.SHARED_DIR = tmp_path, folder
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    cache.clear()
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)
