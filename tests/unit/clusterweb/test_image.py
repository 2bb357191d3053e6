"""What the container image is made of: the product's own files, and nothing that lies beside them."""

import re
from pathlib import Path, PurePosixPath

import pytest

from clusterweb.config.env import BASE_DIR

PRODUCT = ("agents", "clusterweb", "clusterweb_runtime", "frontend", "scheduler", "fixtures/costs", "fixtures/profiles")
FILES = ("requirements.txt", "pyproject.toml", "manage.py")


def rules() -> list[str]:
    """Return the rules of .dockerignore."""
    lines = (line.strip() for line in (BASE_DIR / ".dockerignore").read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def is_sent(path: str) -> bool:
    """Return whether a file is part of what an image may be made of: the last rule that matches decides."""
    places = [str(place) for place in (PurePosixPath(path), *PurePosixPath(path).parents)][:-1]  # without "."
    sent = True
    for rule in rules():
        pattern = re.escape(rule.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, place) for place in places):
            sent = rule.startswith("!")
    return sent


def copied() -> list[str]:
    """Return the sources of all COPY lines, and refuse other ways into an image."""
    lines = (BASE_DIR / "Dockerfile").read_text().splitlines()
    assert not [line for line in lines if line.startswith("ADD")]
    return [source for line in lines if line.startswith("COPY") for source in line.split()[1:-1]]


def test_image_takes_what_is_named_and_nothing_else() -> None:
    """Everything is ignored but plain names, and each of these is copied by its name."""
    first, *others = rules()
    named = [rule.removeprefix("!") for rule in others if rule.startswith("!")]

    assert first == "*"
    assert sorted(named) == sorted(copied()) == sorted((*PRODUCT, *FILES))
    assert not [name for name in named if "*" in name or name.startswith(".")]


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.production",
        ".git/config",
        ".venv/bin/python",
        "agents/.env",
        "clusterweb/config/__pycache__/env.cpython-311.pyc",
        "docker-compose.override.yml",
        "fixtures/traces/ours.csv",
        "gpu-01.json",
        "node_modules/x.js",
        "secrets/key",
        "tests/conftest.py",
        "var/secret_key",
        "var/week/demo.json",
    ],
)
def test_secrets_and_state_stay_outside(path: str) -> None:
    """Whatever lies in the folder when the image is built."""
    assert not is_sent(path)


def test_product_is_complete() -> None:
    """No file of the product is ignored."""
    found = [path for root in PRODUCT for path in (BASE_DIR / root).rglob("*") if path.is_file()]
    paths = [str(path.relative_to(BASE_DIR)) for path in found if not _is_compiled(path)]

    assert len(paths) > 500
    assert [path for path in (*paths, *FILES) if not is_sent(path)] == []


def _is_compiled(path: Path) -> bool:
    return "__pycache__" in path.parts
