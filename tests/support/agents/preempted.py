"""One job under real agents, attempt after attempt, each told what the scheduler would tell it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agents.protocol.desired_state import AttemptWanted
from agents.protocol.server_report import AttemptReport
from tests.support.agents.server import AgentServer, attempt_id, wait_for, wanted

GIB = 1024**3


class PreemptedJob:
    """One job.

    Attributes:
        ended: Reports of its attempts, in their order.
        logs: What each of them wrote.
    """

    def __init__(self, command: tuple[str, ...], **changes: object) -> None:
        """Describe it; ``changes`` are fields of its orders."""
        self.ended: list[AttemptReport] = []
        self.logs: list[str] = []
        self._order = wanted(command, **{"memory_bytes": 2 * GIB, "grace_s": 600.0, **changes})
        self._server: AgentServer | None = None

    @property
    def directory(self) -> Path:
        """Return its directory."""
        assert self._server is not None
        return self._server.job_dir(self._order)

    @property
    def order(self) -> AttemptWanted:
        """Return the order of its newest attempt."""
        return self._order

    def log(self) -> str:
        """Return what its newest attempt has written so far."""
        assert self._server is not None
        return self._server.log(self._order)

    def report(self) -> AttemptReport:
        """Return the newest report of its newest attempt."""
        assert self._server is not None
        return self._server.report(self._order) or AttemptReport(attempt_id=self._order.attempt_id, phase="starting")

    def start(self, server: AgentServer, **changes: object) -> None:
        """Start its next attempt, from the newest checkpoint that one of them told of."""
        saved = next((report for report in reversed(self.ended) if report.checkpoint_name), None)
        found = {} if saved is None else {"resume_attempt_id": saved.attempt_id, "resume_name": saved.checkpoint_name}
        self._server = server
        self._order = replace(self._order, attempt_id=attempt_id(), number=len(self.ended) + 1, **found, **changes)  # type: ignore[arg-type]  # names and types are the caller's
        server.send(self._order)

    def preempt(self, what: str, when: Callable[[], bool]) -> AttemptReport:
        """Let it make room once something is true, and return its report."""
        assert self._server is not None
        wait_for(f"{what}; it is {self.report()}", lambda: when() or self.report().phase == "ended", within_s=120)
        self._server.send(replace(self._order, wanted="preempt"))
        return self.end()

    def end(self) -> AttemptReport:
        """Return the report of an attempt that ends by itself."""
        assert self._server is not None
        report = self._server.wait_phase(self._order, "ended", within_s=180)
        self.ended.append(report)
        self.logs.append(self.log())
        self._server.send()
        return report
