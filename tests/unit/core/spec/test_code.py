"""The code of a spec: the manifest of a folder that was sent, or nothing."""

from typing import Any

import pytest

from scheduler.core.spec.code import Code
from scheduler.core.spec.spec import JobSpec

DIGEST = "ab" * 32
BASE = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"]}


def test_manifest_is_read_and_written_back() -> None:
    """The stored spec names the folder, and gives the same spec again."""
    spec = JobSpec.parse({**BASE, "code": {"manifest": f"sha256:{DIGEST}"}})

    assert spec.code == Code(manifest=DIGEST)
    assert spec.to_json()["code"] == {"manifest": f"sha256:{DIGEST}"}
    assert JobSpec.parse(spec.to_json()) == spec


def test_spec_of_before_has_no_code() -> None:
    """Specs that were stored before there was code stay valid."""
    assert JobSpec.parse(BASE).code is None
    assert JobSpec.parse({**BASE, "code": None}).to_json()["code"] is None


@pytest.mark.parametrize(
    ("code", "pointer", "reason", "right"),
    [
        ({"dir": "."}, "/code/dir", "unresolved", "clusterweb submit ."),
        ({}, "/code/manifest", "required", "/api/v1/code"),
        ({"manifest": DIGEST}, "/code/manifest", "characters", "sha256:"),
        ({"manifest": 5}, "/code/manifest", "characters", "64 hexadecimal digits"),
        ({"manifest": f"sha256:{DIGEST}", "size": 1}, "/code/size", "unknown", "manifest"),
        (".", "/code", "type", "mapping"),
    ],
)
def test_bad_code_says_what_would_be_right(code: Any, pointer: str, reason: str, right: str) -> None:
    """Field, reason, and what to write instead."""
    _, errors = JobSpec.read({**BASE, "code": code})

    [error] = errors
    assert (error.pointer, error.code) == (pointer, reason)
    assert right in error.detail
