"""A job in memory: how it answers signals and requests, and what it reports."""

import signal
from dataclasses import dataclass, field

from agents.core.ending import Exit
from agents.core.records import WrittenLine


@dataclass(slots=True, kw_only=True)
class Job:
    """How a job behaves, and how it fares.

    Attributes:
        run_s: Until it ends by itself, frozen time apart.
        exit_code: When it ends by itself.
        uses_runtime: Reports that it started, and stops when it is asked to, after ``checkpoint_s``.
        ignores_term: As it says.
    """

    run_s: float = 1e9
    exit_code: int = 0
    uses_runtime: bool = False
    checkpoint_s: float = 0.5
    ignores_term: bool = False
    is_stopped: bool = False
    ran_s: float = 0.0
    requests: list[str] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    exit: Exit | None = None
    stops_at_s: float | None = None

    def take(self, number: int) -> None:
        """Receive a signal."""
        self.signals.append(number)
        if number == signal.SIGKILL or (number == signal.SIGTERM and not self.ignores_term and not self.uses_runtime):
            self.exit = self.exit or Exit(code=None, signal=number)
        elif number == signal.SIGTERM and self.uses_runtime:
            self.ask("stop")
        elif number == signal.SIGSTOP:
            self.is_stopped = True
        elif number == signal.SIGCONT:
            self.is_stopped = False

    def ask(self, request: str) -> None:
        """Receive a request."""
        self.requests.append(request)
        if request == "stop" and self.uses_runtime and self.stops_at_s is None:
            self.stops_at_s = self.ran_s + self.checkpoint_s

    def step(self, seconds: float) -> list[WrittenLine]:
        """Run on; return what it reports."""
        if self.is_stopped or self.exit is not None:
            return []
        lines = [WrittenLine(event="started", step=0)] if self.uses_runtime and self.ran_s == 0 else []
        self.ran_s += seconds
        if self.stops_at_s is not None and self.ran_s >= self.stops_at_s:
            self.exit = Exit(code=75, signal=None)
            return [*lines, WrittenLine(event="stopped", step=1)]
        if self.ran_s >= self.run_s:
            self.exit = Exit(code=self.exit_code, signal=None)
        return lines
