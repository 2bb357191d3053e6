"""Behind a TLS proxy: forms are taken from its address, and cookies travel by TLS alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterweb.env import BASE_DIR

SHOW = """
import json
from django.conf import settings
names = ("CSRF_TRUSTED_ORIGINS", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")
print(json.dumps([getattr(settings, name) for name in names]))
"""


@pytest.mark.parametrize(
    ("site_url", "expected"),
    [
        ("https://cluster.example.org/", [["https://cluster.example.org"], True, True]),
        ("", [[], False, False]),
    ],
)
def test_address_of_the_proxy_decides(tmp_path: Path, site_url: str, expected: list[object]) -> None:
    """Without it Django takes each form for one of another site, since its own connection is plain."""
    environ = {
        **os.environ,
        "VAR_DIR": str(tmp_path),
        "SITE_URL": site_url,
        "DJANGO_SETTINGS_MODULE": "clusterweb.settings",
    }
    done = subprocess.run(
        [sys.executable, "-c", SHOW], cwd=BASE_DIR, env=environ, capture_output=True, text=True, timeout=60
    )

    assert json.loads(done.stdout) == expected, done.stderr
