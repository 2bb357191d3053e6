"""The command writes durations and devices as pages do: it stands alone, so it has copies of both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterweb.cli import whatif
from clusterweb.cli.output.text import duration, in_words
from frontend.components.devices import CPU_SLOTS
from frontend.pages.whatif import words
from scheduler.core.spec.units import duration_words


@given(st.floats(min_value=0, max_value=1e8))
def test_command_and_pages_write_durations_alike(seconds: float) -> None:
    """Milliseconds, seconds, and the two largest units, rounded alike."""
    assert duration(seconds) == duration_words(seconds)


@given(st.integers(min_value=0, max_value=10**8))
def test_whole_seconds_too(seconds: int) -> None:
    """What the command has most."""
    assert duration(seconds) == duration_words(seconds)


@pytest.mark.parametrize(
    "text",
    ["8 GPUs are free", "an 8-GPU job", "3 GPU-hours", "big-GPU-job waits", "GPU-test", "GPUs/s", "my_GPU", "(GPU)"],
)
def test_command_and_pages_name_devices_alike(text: str) -> None:
    """Sentences, counts before a hyphen and units; names of jobs stay as they were typed."""
    assert in_words(text, "CPU slots") == CPU_SLOTS.said(text)


def test_command_and_pages_name_figures_of_a_replay_alike() -> None:
    """Those by which an answer is doubted."""
    assert whatif.FIGURES == words.FIGURES
