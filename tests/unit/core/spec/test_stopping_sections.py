"""The sections of a spec about when a job runs and how it is asked to end."""

from typing import Any

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.limits import STOP_SIGNALS
from scheduler.core.spec.spec import JobSpec

SMALL: dict[str, Any] = {"apiVersion": "v1", "name": "resnet", "queue": "vision", "command": ["python", "train.py"]}


def test_spec_that_was_stored_before_means_term_and_no_warning() -> None:
    """It names neither."""
    stored = {**SMALL, "schedule": {"priority": 50, "preemptible": True, "max_duration": "2h"}}
    stored["checkpoint"] = {"grace": "30s"}
    spec = JobSpec.parse(stored)

    assert (spec.checkpoint.signal, spec.schedule.warn_before_s) == ("TERM", None)


@pytest.mark.parametrize("written", ["USR1", "usr1", "SIGUSR1", " sigusr1 "])
def test_signal_may_be_written_as_elsewhere(written: str) -> None:
    """It is stored in one way."""
    stored = JobSpec.parse({**SMALL, "checkpoint": {"signal": written}}).to_json()

    assert stored["checkpoint"] == {"grace": "30s", "signal": "USR1"}
    assert JobSpec.parse(stored).to_json() == stored


@pytest.mark.parametrize("name", STOP_SIGNALS)
def test_each_signal_that_a_job_can_take_is_allowed(name: str) -> None:
    """TERM, which is the default, and four others."""
    assert JobSpec.parse({**SMALL, "checkpoint": {"signal": name}}).checkpoint.signal == name


@pytest.mark.parametrize(
    ("changes", "pointer", "code", "detail"),
    [
        (
            {"checkpoint": {"signal": "KILL"}},
            "/checkpoint/signal",
            "choice",
            "checkpoint signal must be one of TERM, INT, HUP, USR1, USR2, not 'KILL'.",
        ),
        ({"checkpoint": {"signal": 10}}, "/checkpoint/signal", "choice", None),
        ({"checkpoint": {"signal": ["TERM"]}}, "/checkpoint/signal", "choice", None),
        (
            {"schedule": {"warn_before": "2m"}},
            "/schedule/warn_before",
            "required",
            "warn_before needs a max_duration: it says how long before that the job is asked to end.",
        ),
        (
            {"schedule": {"warn_before": "2h", "max_duration": "90m"}},
            "/schedule/warn_before",
            "range",
            "warn_before must be shorter than max_duration, 90m. You asked for 2h.",
        ),
        (
            {"schedule": {"warn_before": 120, "max_duration": "4h"}},
            "/schedule/warn_before",
            "unit",
            "warn_before needs a unit: 120s.",
        ),
        ({"schedule": {"warn_before": "0s", "max_duration": "4h"}}, "/schedule/warn_before", "range", None),
    ],
)
def test_bad_field_says_what_would_be_right(
    changes: dict[str, Any], pointer: str, code: str, detail: str | None
) -> None:
    """One entry with its place and a sentence."""
    with pytest.raises(SpecInvalid) as caught:
        JobSpec.parse({**SMALL, **changes})
    [error] = caught.value.errors

    assert (error.pointer, error.code) == (pointer, code)
    assert detail is None or error.detail == detail


@pytest.mark.parametrize(
    ("lines", "checkpoint", "warn_before"),
    [
        ("--signal=B:USR1@120 --time=4:00:00", {"grace": "2m", "signal": "USR1"}, "2m"),
        ("--signal=SIGINT@30 --time=60", {"grace": "30s", "signal": "INT"}, "30s"),
        ("--signal=12 --time=60", {"grace": "1m", "signal": "USR2"}, "1m"),
        ("--signal=USR1@120", {"grace": "2m", "signal": "USR1"}, None),
        ("--signal=CONT@90 --time=60", {"grace": "90s", "signal": "TERM"}, "90s"),
    ],
)
def test_signal_of_a_batch_script_becomes_a_warning(
    lines: str, checkpoint: dict[str, str], warn_before: str | None
) -> None:
    """So long before the end of its time; without ``--time`` there is none."""
    made = from_sbatch(f"#!/bin/bash\n#SBATCH {lines}\npython train.py\n", queue="vision")
    spec = JobSpec.parse(made.spec).to_json()

    assert (spec["checkpoint"], spec["schedule"]["warn_before"]) == (checkpoint, warn_before)
    assert [entry.source for entry in made.unmapped if "signal" in entry.source] == (
        ["--signal=CONT@90"] if "CONT" in lines else []
    )
