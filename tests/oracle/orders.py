"""In which order each list policy puts jobs: one plain key a job, smallest first."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.cases import Case
from tests.strategies import JobRow

# Key of one job of a cluster; equal keys go by first start, then arrival, then id.
Key = Callable[[JobRow, Case], float]
LAS_LIMIT_GPU_S = 3_250.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a list policy does.

    Attributes:
        key: Its key.
        preemptive: Whether a waiting job takes GPUs of running jobs that come after it.
    """

    key: Key
    preemptive: bool

    def of(self, case: Case) -> list[int]:
        """Return the jobs of the case in order."""
        rows = case.jobs
        return sorted(
            range(len(rows)),
            key=lambda at: (self.key(rows[at], case), rows[at].first_start_s, rows[at].arrival_s, at),
        )


def _las(job: JobRow, case: Case) -> float:
    return 0.0 if job.attained_gpu_s < LAS_LIMIT_GPU_S else 1.0


ORDERS: dict[str, Order] = {
    "fifo": Order(key=lambda job, case: job.arrival_s, preemptive=False),
    "srtf": Order(key=lambda job, case: job.remaining_s, preemptive=True),
    "las": Order(key=_las, preemptive=True),
}
