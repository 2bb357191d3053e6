"""Shared set-up: folders of this run alone, so that no test touches ``var/`` or the files of another run.

The settings are named here and not in ``pyproject.toml``: pytest-django would load them before this file could set the
environment that they are made from.
"""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker inherits what the main process has set here
    _STATE = tempfile.TemporaryDirectory(prefix="clusterweb-tests-")
    _FILES = tempfile.TemporaryDirectory(prefix="pytest-")
    os.environ["VAR_DIR"] = _STATE.name
    (Path(_STATE.name) / "static").mkdir()  # WhiteNoise warns of a missing directory
    os.environ["ROUND_S"] = "10"
    os.environ["DJANGO_SETTINGS_MODULE"] = "clusterweb.settings"
    for _name in ("REDIS_URL", "HOST", "PORT", "DEBUG", "SECRET_KEY", "ALLOWED_HOSTS", "LEASE_TTL_S", "LOST_GRACE_S"):
        os.environ.pop(_name, None)

import django
import hypothesis
import pytest
from django.conf import LazySettings, settings

django.setup()

from tests.support.rows.notices import Receiver  # noqa: E402  (needs the app registry)
from tests.support.suite.cost import watch  # noqa: E402
from tests.support.suite.examples import PROFILE  # noqa: E402
from tests.support.suite.order import (  # noqa: E402, F401  (hooks)
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_terminal_summary,
    pytest_xdist_make_scheduler,
)

hypothesis.settings.load_profile(PROFILE)
watch()
# A shell starts what it runs in the background with Ctrl-C ignored, and so would be what the tests press it for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

assert str(settings.VAR_DIR) == os.environ["VAR_DIR"], "the settings were loaded before this file"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give ``tmp_path`` a folder of this run alone; in the usual one, runs side by side remove each other's files."""
    if config.option.basetemp is None:
        config.option.basetemp = _FILES.name


@pytest.fixture
def plain_static(settings: LazySettings, tmp_path: Path) -> None:
    """Pages with static files as they lie in the tree: none are collected."""
    settings.STATIC_ROOT = tmp_path
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}


@pytest.fixture(scope="session")
def processes() -> None:
    """Say that a test starts processes; ``tests/support/suite/cost.py`` reads it."""


@pytest.fixture(scope="session")
def connections() -> None:
    """Say that a test opens connections on this machine."""


@pytest.fixture
def receiver(connections: None) -> Iterator[Receiver]:
    """Return an HTTP server on this machine that takes webhooks."""
    made = Receiver()
    yield made
    made.close()
