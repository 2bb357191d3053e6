"""The command writes durations as pages do: it stands alone, so it has a copy of the formatter."""

from hypothesis import given
from hypothesis import strategies as st

from clusterweb.cli.text import duration
from scheduler.core.spec.units import duration_words


@given(st.floats(min_value=0, max_value=1e8))
def test_command_and_pages_write_durations_alike(seconds: float) -> None:
    """Milliseconds, seconds, and the two largest units, rounded alike."""
    assert duration(seconds) == duration_words(seconds)


@given(st.integers(min_value=0, max_value=10**8))
def test_whole_seconds_too(seconds: int) -> None:
    """What the command has most."""
    assert duration(seconds) == duration_words(seconds)
