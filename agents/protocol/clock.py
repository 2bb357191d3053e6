"""The real clock of the agents and of the control plane; tests pass clocks of their own (``Clock`` in ``ports.py``)."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime


class SystemClock:
    """Wall clock for people, CLOCK_BOOTTIME for durations: it runs on while the machine sleeps."""

    def now(self) -> datetime:
        """Return the wall clock, aware, UTC."""
        return datetime.now(UTC)

    def mono_s(self) -> float:
        """Return seconds since boot, sleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` in a thread of its own after ``delay_s`` seconds."""
        timer = threading.Timer(delay_s, call)
        timer.daemon = True
        timer.start()
