"""Shared set-up: a private state directory, so that no test touches ``var/``.

The settings are named here and not in ``pyproject.toml``: pytest-django would load them before this file could set the
environment that they are made from.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker inherits what the main process has set here
    _STATE = tempfile.TemporaryDirectory(prefix="clusterweb-tests-")
    os.environ["VAR_DIR"] = _STATE.name
    (Path(_STATE.name) / "static").mkdir()  # WhiteNoise warns of a missing directory
    os.environ["ROUND_S"] = "10"
    os.environ["DJANGO_SETTINGS_MODULE"] = "clusterweb.settings"
    for _name in ("REDIS_URL", "HOST", "PORT", "DEBUG", "SECRET_KEY", "ALLOWED_HOSTS", "LEASE_TTL_S", "LOST_GRACE_S"):
        os.environ.pop(_name, None)

import django
import hypothesis
import pytest
from django.conf import settings

django.setup()

from tests.support.rows.notices import Receiver  # noqa: E402  (needs the app registry)
from tests.support.suite.order import (  # noqa: E402, F401  (hooks)
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_runtest_setup,
    pytest_xdist_make_scheduler,
)

# No test may fail because the machine is busy.
hypothesis.settings.register_profile("suite", hypothesis.settings(deadline=None))
hypothesis.settings.load_profile("suite")

assert str(settings.VAR_DIR) == os.environ["VAR_DIR"], "the settings were loaded before this file"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return an HTTP server on this machine that takes webhooks."""
    made = Receiver()
    yield made
    made.close()
