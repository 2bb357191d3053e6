"""The recipe for a default: ``DEFAULT_GRACE_S`` is changed in its one place, and its readers say the new one."""

import sys
from importlib import import_module
from types import ModuleType

import pytest

from frontend.components.devices import GPUS
from scheduler.core.spec import limits

# The readers of step 2.
SECTIONS, SPEC, SCHEMA, FORM = READERS = (
    "scheduler.core.spec.stopping",
    "scheduler.core.spec.spec",
    "scheduler.core.spec.schema",
    "frontend.pages.jobs.submit.forms",
)


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The readers as they are loaded after the change."""
    monkeypatch.setattr(limits, "DEFAULT_GRACE_S", 47.0)
    for name in READERS:
        package, _, module = name.rpartition(".")
        monkeypatch.setattr(import_module(package), module, import_module(name))  # put back after the test
        monkeypatch.delitem(sys.modules, name)
    return {name: import_module(name) for name in READERS}


def test_the_reader_fills_it_in(changed: dict[str, ModuleType]) -> None:
    """Where a spec says nothing, and where it is made without a text."""
    spec = changed[SPEC].JobSpec.parse({"apiVersion": "v1", "name": "a", "queue": "vision", "command": ["true"]})

    assert spec.checkpoint.grace_s == changed[SECTIONS].Checkpoint().grace_s == 47.0
    assert spec.to_json()["checkpoint"]["grace"] == "47s"


def test_the_schema_tells_it(changed: dict[str, ModuleType]) -> None:
    """As a duration with its unit."""
    schema = changed[SCHEMA].job_spec_schema()

    assert schema["properties"]["checkpoint"]["properties"]["grace"]["default"] == "47s"


def test_the_form_shows_it(changed: dict[str, ModuleType]) -> None:
    """In the empty field."""
    form = changed[FORM].SpecForm(queues=[], device=GPUS)

    assert 'placeholder="47s"' in str(form["grace"])
