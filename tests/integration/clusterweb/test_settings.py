"""Settings that follow from others: behind a TLS proxy, and beside a broker of our own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterweb.config.broker import embedded_url
from clusterweb.config.env import BASE_DIR, load

pytestmark = pytest.mark.usefixtures("processes")


def shown(names: list[str], **environ: str) -> object:
    """Return settings as a process of its own has them."""
    code = f"import json\nfrom django.conf import settings\nprint(json.dumps([getattr(settings, n) for n in {names}]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=BASE_DIR,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "clusterweb.settings", **environ},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("site_url", "expected"),
    [
        ("https://cluster.example.org/", [["https://cluster.example.org"], True, True, 31_536_000]),
        ("", [[], False, False, 0]),
    ],
)
def test_address_of_the_proxy_decides(tmp_path: Path, site_url: str, expected: list[object]) -> None:
    """Without it Django takes each form for one of another site, since its own connection is plain."""
    names = ["CSRF_TRUSTED_ORIGINS", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS"]

    assert shown(names, VAR_DIR=str(tmp_path), SITE_URL=site_url) == expected


def test_commands_reach_the_broker_of_their_state_directory(tmp_path: Path) -> None:
    """What ``make run`` has started there, with no variable set by hand."""
    url = embedded_url(load({"VAR_DIR": str(tmp_path)}))

    assert shown(["REDIS_URL"], VAR_DIR=str(tmp_path)) == [url]


@pytest.mark.parametrize(
    ("url", "backend"),
    [
        ("redis://127.0.0.1:1/0", "clusterweb.shared_cache.SharedCache"),
        ("", "clusterweb.shared_cache.LocalCache"),
    ],
)
def test_limits_count_in_the_broker(tmp_path: Path, url: str, backend: str) -> None:
    """All web processes share them; a command without a broker counts alone."""
    found = shown(["CACHES"], VAR_DIR=str(tmp_path), REDIS_URL=url)

    assert isinstance(found, list)
    assert found[0]["shared"]["BACKEND"] == backend


def test_web_server_believes_no_process_of_its_machine() -> None:
    """uvicorn's own default takes X-Forwarded-For from 127.0.0.1, where jobs run as well."""
    procfile = (BASE_DIR / "Procfile").read_text()
    compose = (BASE_DIR / "docker-compose.yml").read_text()

    assert "--no-proxy-headers" in next(line for line in procfile.splitlines() if line.startswith("web:"))
    assert '"--no-proxy-headers"' in next(line for line in compose.splitlines() if "uvicorn" in line)
