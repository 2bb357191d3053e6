"""Time that each job of a replay waited, by reason; recorded only on request."""

from collections.abc import Iterable, Mapping

import numpy as np

from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import FloatArray, IntArray

_REASONS = tuple(WaitReason)
_NUMBER = {reason: number for number, reason in enumerate(_REASONS)}
_NOT_WAITING = -1


class WaitTimes:
    """Seconds by reason. What the last round said about a job holds until the next one, or until the job starts."""

    def __init__(self, num_jobs: int) -> None:
        """Begin with no waiting job."""
        self._reason = np.full(num_jobs, _NOT_WAITING)
        self._since_s = np.zeros(num_jobs)
        self._waited_s = np.zeros((len(_REASONS), num_jobs))

    def begin(self, row: int, reason: WaitReason, at_s: float) -> None:
        """Note that the job waits from now on, for this reason."""
        self.end(row, at_s)
        self._reason[row] = _NUMBER[reason]

    def end(self, row: int, at_s: float) -> None:
        """Note that the job waits no longer."""
        if self._reason[row] != _NOT_WAITING:
            self._waited_s[self._reason[row], row] += at_s - self._since_s[row]
        self._reason[row] = _NOT_WAITING
        self._since_s[row] = at_s

    def planned(self, waiting: Iterable[tuple[int, WaitReason]], at_s: float) -> None:
        """Note what a round says about the jobs that wait after it."""
        for row, reason in waiting:
            if self._reason[row] != _NUMBER[reason]:
                self.begin(row, reason, at_s)

    def waited_s(self, in_line: IntArray, now_s: float) -> Mapping[str, FloatArray]:
        """Return (n,) seconds by reason, for the reasons that occurred; ``in_line`` has arrived and not ended."""
        for row in in_line.tolist():
            if self._reason[row] != _NOT_WAITING:
                self.begin(row, _REASONS[self._reason[row]], now_s)
        return {
            str(reason): self._waited_s[number]
            for number, reason in enumerate(_REASONS)
            if self._waited_s[number].any()
        }

    def state(self) -> Mapping[str, np.ndarray]:
        """Return all that is kept, by name; the arrays themselves, to be written or filled."""
        return {"wait_reason": self._reason, "wait_since_s": self._since_s, "wait_waited_s": self._waited_s}
