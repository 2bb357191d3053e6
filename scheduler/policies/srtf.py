"""Shortest remaining time first."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Srtf:
    """Shortest remaining time first; jobs whose remaining time is not known come last.

    Source: Mohan et al., "Synergy", OSDI 2022, whose simulator divides by the speed-up (``with_speed_up``) under all
    mechanisms but proportional.
    """

    name: ClassVar[str] = "srtf"
    preemptive: ClassVar[bool] = True
    steady: ClassVar[bool] = True

    with_speed_up: bool = field(
        default=False,
        metadata={
            "help": "Count the time that remains with all the cores and memory a job can use, not with its share."
        },
    )

    @property
    def by_remaining(self) -> bool:
        """Return whether the time that remains is all that counts."""
        return not self.with_speed_up

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) remaining run times, seconds; +inf when unknown."""
        jobs = snapshot.jobs
        if not self.with_speed_up:
            return jobs.remaining_s
        # NO_ROW is the last entry: a job of which nothing is known gains nothing.
        most = [max((max(row) for row in profile.relative_speed), default=1.0) for profile in jobs.profiles]
        speed_up: FloatArray = np.array([*most, 1.0])[jobs.profile]
        return jobs.remaining_s / speed_up
