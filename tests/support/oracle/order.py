"""The order of a list policy as its definition says it: one plain key a job, smallest first."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tests.support.oracle.cases import Case
from tests.support.simulator.strategies import JobRow

# Numbers by which a job is compared with others, the first that differs decides.
Key = tuple[float | Fraction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a list policy does.

    Attributes:
        keys: Its key for every job of a cluster; equal keys go by first start, then arrival, then id.
        preemptive: Whether a waiting job takes GPUs of running jobs that come after it.
    """

    keys: Callable[[Case], list[Key]]
    preemptive: bool

    def of(self, case: Case) -> list[int]:
        """Return the jobs of the case in order."""
        rows, keys = case.jobs, self.keys(case)
        return sorted(range(len(rows)), key=lambda at: (keys[at], rows[at].first_start_s, rows[at].arrival_s, at))


def each(key: Callable[[JobRow, Case], Key], *, preemptive: bool) -> Order:
    """Return the order by a key that looks at one job at a time."""
    return Order(keys=lambda case: [key(job, case) for job in case.jobs], preemptive=preemptive)
