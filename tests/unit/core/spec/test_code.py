"""The code of a spec: the manifest of a folder that was sent, or nothing."""

from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes without stubs
import pytest

from scheduler.core.spec.code import Code
from scheduler.core.spec.env import SecretUse
from scheduler.core.spec.git import Git
from scheduler.core.spec.spec import JobSpec, job_spec_schema

DIGEST = "ab" * 32
COMMIT = "0123456789" * 4
BASE = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"]}


def test_manifest_is_read_and_written_back() -> None:
    """The stored spec names the folder, and gives the same spec again."""
    spec = JobSpec.parse({**BASE, "code": {"manifest": f"sha256:{DIGEST}"}})

    assert spec.code == Code(manifest=DIGEST)
    assert spec.to_json()["code"] == {"manifest": f"sha256:{DIGEST}"}
    assert JobSpec.parse(spec.to_json()) == spec


def test_git_is_read_and_written_back() -> None:
    """What the cluster finds there is added; the rest is as it was given."""
    given = {"git": "https://Git.example.com:8443/a/b.git", "commit": COMMIT, "subdir": "src/"}
    spec = JobSpec.parse({**BASE, "code": {**given, "key": {"secret": "deploy", "of": "queue"}}})
    assert spec.code == Code(
        git=Git(url=given["git"], commit=COMMIT, subdir="src", key=SecretUse(name="deploy", of="queue"))
    )
    found = replace(spec, code=replace(spec.code, manifest=DIGEST))

    assert spec.code.git is not None
    assert spec.code.git.host == "git.example.com:8443"
    assert found.to_json()["code"] == {
        **given,
        "subdir": "src",
        "key": {"secret": "deploy", "of": "queue"},
        "manifest": f"sha256:{DIGEST}",
    }
    assert JobSpec.parse(found.to_json()) == found
    jsonschema.Draft202012Validator(job_spec_schema()).validate(found.to_json())


@pytest.mark.parametrize(
    ("change", "pointer", "reason", "right"),
    [
        ({"commit": "main"}, "/code/commit", "characters", "A branch or tag may have moved"),
        ({"commit": COMMIT[:12]}, "/code/commit", "characters", "all 40 digits"),
        ({"commit": None}, "/code/commit", "required", "git rev-parse HEAD"),
        ({"git": None}, "/code/git", "required", "https://"),
        ({"git": 5}, "/code/git", "type", "text"),
        ({"git": "git@github.com:team/a.git"}, "/code/git", "address", "https://"),
        ({"git": "ssh://git@github.com/team/a.git"}, "/code/git", "address", "https://"),
        ({"git": "file:///etc"}, "/code/git", "address", "https://"),
        ({"git": "ext::sh -c touch% /tmp/evil"}, "/code/git", "address", "https://"),
        ({"git": "https:///team/a.git"}, "/code/git", "address", "https://"),
        ({"git": "https://github.com"}, "/code/git", "address", "https://"),
        ({"git": "https://github.com:99999/a.git"}, "/code/git", "address", "https://"),
        ({"git": "https://github.com/--upload-pack=evil"}, "/code/git", "address", "https://"),
        ({"git": "https://github.com/a/../../b.git"}, "/code/git", "address", "without '..'"),
        ({"git": "https://github.com/a.git?x=y"}, "/code/git", "address", "question mark"),
        ({"git": "https://github.com/a.git#main"}, "/code/git", "address", "anchor"),
        ({"git": "https://github.com\\@evil.example/a.git"}, "/code/git", "secret", "as a secret"),
        ({"git": "https://me:token@github.com/a.git"}, "/code/git", "secret", "key: {secret: deploy}"),
        ({"git": "https://github.com/a b.git"}, "/code/git", "address", "https://"),
        ({"git": "https://github.com/\na.git"}, "/code/git", "address", "https://"),
        ({"git": f"https://github.com/{'a' * 500}"}, "/code/git", "length", "500"),
        ({"subdir": "/etc"}, "/code/subdir", "path", "src/train"),
        ({"subdir": "../b"}, "/code/subdir", "path", "src/train"),
        ({"subdir": "a//b"}, "/code/subdir", "path", "src/train"),
        ({"key": "deploy"}, "/code/key", "unknown", "{secret: deploy}"),
        ({"key": {"secret": "../a"}}, "/code/key/secret", "characters", "{secret: deploy}"),
        ({"key": {"secret": "a", "of": "all"}}, "/code/key/of", "unknown", "user or queue"),
        ({"branch": "main"}, "/code/branch", "unknown", "commit"),
    ],
)
def test_hostile_or_wrong_address_says_what_would_be_right(change: Any, pointer: str, reason: str, right: str) -> None:
    """One entry with the pointer, a word and the remedy; nothing but http and https ever reaches git."""
    _, errors = JobSpec.read({**BASE, "code": {"git": "https://github.com/team/a.git", "commit": COMMIT, **change}})

    [error] = errors
    assert (error.pointer, error.code) == (pointer, reason)
    assert right in error.detail


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
