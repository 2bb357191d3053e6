"""Traces from texts, for the tests of trace readers."""

import io

import pytest

from scheduler.simulator.traces import read_trace
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.trace import Trace


def trace_of(text: str | bytes, *, format: str | None = None) -> Trace:
    """Return the trace in a text."""
    return read_trace(io.StringIO(text) if isinstance(text, str) else io.BytesIO(text), format=format)


def refusal_of(text: str | bytes, *, format: str | None = None) -> TraceError:
    """Return the error that a text gives."""
    with pytest.raises(TraceError) as caught:
        trace_of(text, format=format)
    return caught.value
