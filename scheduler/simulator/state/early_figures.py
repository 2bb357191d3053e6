"""Figures of a replay while it goes on, at moments that replays of the same jobs share, so that they can be compared.

A month of jobs takes a replay many seconds. After the first of them one knows how its first days went.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray
from scheduler.simulator.state.columns import Columns

MOMENTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyFigure:
    """How it went up to one moment.

    Attributes:
        passed_s: Seconds since the first job came.
        come, ended: Jobs that had come by then, and those of them that had ended.
        wait_s: Mean time that those that had come had waited without GPUs by then, seconds.
    """

    passed_s: float
    come: int
    ended: int
    wait_s: float


class EarlyFigures:
    """Tells a figure at each hundredth of the time in which jobs come.

    Attributes:
        next_s: When the next one is due, seconds of the replay; +inf when there is none.
    """

    def __init__(self, arrival_s: Sequence[float], tells: Callable[[EarlyFigure], None]) -> None:
        """Prepare for jobs that come at these seconds of the replay; of those that come at once nothing is told."""
        self._first_s, last_s = min(arrival_s, default=0.0), max(arrival_s, default=0.0)
        self._span_s = last_s - self._first_s
        self._moment, self._tells = 0, tells
        self.next_s = math.inf
        self._advance()

    def _advance(self) -> None:
        self._moment += 1
        is_over = not self._span_s or self._moment > MOMENTS
        self.next_s = math.inf if is_over else self._at_s(self._moment)

    def _at_s(self, moment: int) -> float:
        return self._first_s + self._span_s * moment / MOMENTS

    def take(self, columns: Columns, now_s: float) -> None:
        """Tell what is due; call it when time has passed up to ``now_s``, before anything is planned for then."""
        while self.next_s <= now_s:
            self._tells(self._figure(columns, self.next_s))
            self._advance()

    def _figure(self, columns: Columns, at_s: float) -> EarlyFigure:
        come = columns.arrival_s <= at_s
        num_come = int(come.sum())
        return EarlyFigure(
            passed_s=at_s - self._first_s,
            come=num_come,
            ended=int((columns.end_s <= at_s).sum()),
            wait_s=float(_waited_s(columns, at_s)[come].sum()) / max(1, num_come),
        )


def _waited_s(columns: Columns, at_s: float) -> FloatArray:
    """Return (n,) the time without GPUs up to a moment since which nothing was planned, seconds."""
    waits = ~columns.ended & (columns.held_gpus == 0)
    since_s: FloatArray = np.where(columns.arrived, columns.since_s, columns.arrival_s)
    waited_s: FloatArray = columns.queueing_s + np.where(waits, np.maximum(0.0, at_s - since_s), 0.0)
    return waited_s
