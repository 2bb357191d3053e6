"""Jobs that search over the same dataset prepare it once for all of them (coordinated prep of CoorDL).

Each job reads and prepares a part of the epoch; every prepared mini-batch waits in a bounded staging area until all
jobs have used it, and is then dropped, because random augmentation must be drawn anew for the next epoch.

Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training" (CoorDL), VLDB 2021. Differs: the part of a
job that died is prepared by the others, the paper only says that such a job must not block them.
"""

from collections import deque
from collections.abc import Sequence


class Coordinated:
    """One epoch of several jobs.

    Attributes:
        staged: Mini-batches that are prepared, with the jobs that have not used them yet.
        prepared: How many mini-batches were read and prepared so far.
        used: (jobs,) mini-batches that each job has used, in its order.
    """

    def __init__(self, batches: Sequence[int], *, jobs: int, most_staged: int) -> None:
        """Share out the epoch: job ``h`` prepares every ``jobs``-th mini-batch, beginning with the ``h``-th."""
        self._parts = {job: deque(batches[job::jobs]) for job in range(jobs)}
        self._most_staged = most_staged
        self.staged: dict[int, set[int]] = {}
        self.prepared = 0
        self.used: list[list[int]] = [[] for _ in range(jobs)]

    @property
    def is_over(self) -> bool:
        """Whether every living job has used every mini-batch."""
        return not self.staged and not any(self._parts.values())

    def prepare(self, job: int) -> bool:
        """Let a job prepare its next mini-batch; False when it has none, or must wait for room in the staging area."""
        part = self._parts[job]
        if not part or len(self.staged) >= self._most_staged:
            return False
        self.staged[part.popleft()] = set(self._parts)
        self.prepared += 1
        return True

    def use(self, job: int) -> bool:
        """Let a job use the oldest staged mini-batch that it has not used; False when there is none."""
        for batch, missing in self.staged.items():
            if job in missing:
                self._used_by(job, batch)
                self.used[job].append(batch)
                return True
        return False

    def kill(self, job: int) -> None:
        """Take a job out: nobody waits for it, and the others prepare what is left of its part."""
        left = self._parts.pop(job)
        for batch in [batch for batch, missing in self.staged.items() if job in missing]:
            self._used_by(job, batch)
        for at, batch in enumerate(left):
            if self._parts:
                self._parts[sorted(self._parts)[at % len(self._parts)]].append(batch)

    def _used_by(self, job: int, batch: int) -> None:
        missing = self.staged[batch]
        missing.discard(job)
        if not missing:
            del self.staged[batch]
