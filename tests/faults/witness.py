"""The journal of all training processes of a run, and what it can swear to at any moment: P2 and L1.

It sees the truth, not what anybody reports: a process runs from its start, or a SIGCONT, to its end, or a SIGSTOP.
"""

from dataclasses import dataclass

from agents.protocol.ports import ProcessIdentity
from tests.faults.virtual import Trace, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """One training process: whose it is and what it uses."""

    process: ProcessIdentity
    attempt_id: str
    job_id: str
    machine: str
    gpus: tuple[int, ...]


class Witness:
    """Who runs now, by job and by GPU.

    Attributes:
        attempts: Attempts that run, with their machine.
        starts: How often a process began, or went on, to run.
    """

    def __init__(self, trace: Trace) -> None:
        self.attempts: dict[str, str] = {}
        self.starts = 0
        self._trace = trace
        self._by_job: dict[str, Who] = {}
        self._by_gpu: dict[tuple[str, int], Who] = {}

    def runs(self, who: Who) -> None:
        """Note that a process begins, or goes on, to run. Raises Violation when another one is in its way."""
        self._trace.add("runs", who.attempt_id[-4:], who.machine, who.gpus)
        other = self._by_job.get(who.job_id, who)
        if other != who:
            raise Violation("P2", f"a job runs twice at once: {other} and {who}")
        for gpu in who.gpus:
            holder = self._by_gpu.get((who.machine, gpu), who)
            if holder != who:
                raise Violation("L1", f"GPU {gpu} is used twice at once: {holder} and {who}")
        self.starts += 1
        self._by_job[who.job_id] = who
        self._by_gpu |= {(who.machine, gpu): who for gpu in who.gpus}
        self.attempts[who.attempt_id] = who.machine

    def rests(self, who: Who, why: str) -> None:
        """Note that a process stopped or ended."""
        if self._by_job.get(who.job_id) != who:
            return
        self._trace.add("rests", who.attempt_id[-4:], who.machine, why)
        del self._by_job[who.job_id]
        del self.attempts[who.attempt_id]
        for gpu in who.gpus:
            del self._by_gpu[who.machine, gpu]
