"""The Python environment that a spec asks for: one of three, by a path that is right."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes without stubs
import pytest

from scheduler.core.spec.python import Python, requirements_problem
from scheduler.core.spec.spec import JobSpec, job_spec_schema

SPEC = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["python", "train.py"]}


@pytest.mark.parametrize(
    ("python", "paths"),
    [
        ({"requirements": "requirements.txt"}, {"requirements.txt": "requirements.txt"}),
        ({"requirements": "envs/gpu.txt"}, {"requirements.txt": "envs/gpu.txt"}),
        ({"lock": "uv.lock"}, {"uv.lock": "uv.lock", "pyproject.toml": "pyproject.toml"}),
        ({"lock": "a/b/uv.lock"}, {"uv.lock": "a/b/uv.lock", "pyproject.toml": "a/b/pyproject.toml"}),
        ({"venv": "/opt/venvs/vision"}, {}),
    ],
)
def test_each_kind_is_stored_as_it_was_said(python: dict[str, str], paths: dict[str, str]) -> None:
    """And keeps to the schema."""
    spec = JobSpec.parse({**SPEC, "python": python})
    assert spec.python is not None
    assert spec.python.paths == paths
    stored = spec.to_json()
    assert stored["python"] == python
    assert JobSpec.parse(stored) == spec
    jsonschema.validate(stored, job_spec_schema())


def test_without_it_nothing_is_asked() -> None:
    """The Python of the server, as before."""
    assert JobSpec.parse(SPEC).python is None
    assert JobSpec.parse({**SPEC, "python": None}).to_json()["python"] is None


@pytest.mark.parametrize(
    ("python", "pointer", "code"),
    [
        ("requirements.txt", "/python", "type"),
        ({}, "/python", "required"),
        ({"requirements": "a.txt", "lock": "uv.lock"}, "/python", "required"),
        ({"conda": "env.yml"}, "/python/conda", "unknown"),
        ({"requirements": 3}, "/python/requirements", "type"),
        ({"requirements": ""}, "/python/requirements", "path"),
        ({"requirements": "/etc/requirements.txt"}, "/python/requirements", "path"),
        ({"requirements": "../requirements.txt"}, "/python/requirements", "path"),
        ({"requirements": "a//b.txt"}, "/python/requirements", "path"),
        ({"requirements": "~/b.txt"}, "/python/requirements", "path"),
        ({"requirements": "a\nb.txt"}, "/python/requirements", "path"),
        ({"requirements": "uv.lock"}, "/python/requirements", "path"),
        ({"requirements": "a" * 1025}, "/python/requirements", "length"),
        ({"lock": "requirements.txt"}, "/python/lock", "path"),
        ({"venv": "venv"}, "/python/venv", "path"),
        ({"venv": "/"}, "/python/venv", "path"),
        ({"venv": "/opt/../root"}, "/python/venv", "path"),
    ],
)
def test_each_bad_value_is_one_entry_at_its_field(python: Any, pointer: str, code: str) -> None:
    """It says what would be right."""
    spec, errors = JobSpec.read({**SPEC, "python": python})
    assert [(error.pointer, error.code) for error in errors] == [(pointer, code)]
    assert spec.python is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("einops==0.8\n# -r more\n\ntimm>=1 ; python_version > '3.10'\n", ""),
        ("pkg @ https://example.org/pkg-1-py3-none-any.whl\n", ""),
        ("einops\n--extra-index-url https://x\n", "Line 2 of r.txt is an option (--extra-index-url). Which index"),
        ("a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\nb==2 --hash=sha256:22\n", ""),
        ("--hash=sha256:00\n", "Line 1 of r.txt is an option (--hash)"),
        ("a==1 \\\n    --index-url https://x\n", "Line 2 of r.txt is an option (--index-url)"),
        ("-r base.txt\n", "Line 1 of r.txt is an option (-r). Write one package"),
        ("-e .\n", "(-e)"),
        ("./libs/ours\n", "is a folder or file"),
        ("ours @ file:///srv/ours\n", "is a folder or file"),
        ("ours @file:///srv/ours\n", "is a folder or file"),
        ("ours[all]@  FILE:///srv/ours\n", "is a folder or file"),
        ("ours @ git+file:///srv/ours\n", "is a folder or file"),
        ("ours @ /srv/ours\n", "is a folder or file"),
        ("~/ours\n", "is a folder or file"),
        ("\ufeff--index-url https://x\n", "(--index-url)"),
        ("ours @ git+https://git@example.org/ours.git@v1\ntimm~=1.0\n", ""),
    ],
)
def test_what_a_requirements_file_may_not_ask(text: str, words: str) -> None:
    """Other files, folders and indexes, with the line."""
    problem = requirements_problem(text, path="r.txt")
    assert words in problem
    assert bool(problem) == bool(words)


def test_source_is_the_path_that_was_given() -> None:
    """As pages call it."""
    assert Python(lock="a/uv.lock").source == "a/uv.lock"
