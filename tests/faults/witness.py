"""The journal of all training processes of a run, and what it can swear to at any moment: P2, L1 and F1.

It sees the truth, not what is reported: a process runs from its start, or a SIGCONT, to its end, or a SIGSTOP.
"""

from dataclasses import dataclass

from agents.protocol.ports import ProcessIdentity
from tests.faults.virtual import Trace, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProcess:
    """One training process: whose it is and what it uses."""

    process: ProcessIdentity
    attempt_id: str
    job_id: str
    machine: str
    gpus: tuple[int, ...]


class Witness:
    """The processes that run now, by job and by GPU.

    Attributes:
        attempts: Attempts that run, with their machine.
        starts: How often a process began, or went on, to run.
    """

    def __init__(self, trace: Trace) -> None:
        self.attempts: dict[str, str] = {}
        self.starts = 0
        self._trace = trace
        self._by_job: dict[str, TrainingProcess] = {}
        self._newest: dict[str, str] = {}  # attempt that began last, by job
        self._by_gpu: dict[tuple[str, int], TrainingProcess] = {}

    def begins(self, one: TrainingProcess) -> None:
        """Note that an attempt has begun in the directory of its job."""
        self._newest[one.job_id] = one.attempt_id

    def writes(self, one: TrainingProcess) -> None:
        """Note that a process writes to the directory of its job. Raises Violation when a later attempt has begun."""
        if (newest := self._newest[one.job_id]) != one.attempt_id:
            raise Violation("F1", f"{one} writes to its job's directory, where {newest} has begun")

    def runs(self, one: TrainingProcess) -> None:
        """Note that a process begins, or goes on, to run. Raises Violation when another one is in its way."""
        self._trace.add("runs", one.attempt_id[-4:], one.machine, one.gpus)
        self.writes(one)  # at any moment from now on
        other = self._by_job.get(one.job_id, one)
        if other != one:
            raise Violation("P2", f"a job runs twice at once: {other} and {one}")
        for gpu in one.gpus:
            holder = self._by_gpu.get((one.machine, gpu), one)
            if holder != one:
                raise Violation("L1", f"GPU {gpu} is used twice at once: {holder} and {one}")
        self.starts += 1
        self._by_job[one.job_id] = one
        self._by_gpu |= {(one.machine, gpu): one for gpu in one.gpus}
        self.attempts[one.attempt_id] = one.machine

    def rests(self, one: TrainingProcess, why: str) -> None:
        """Note that a process stopped or ended."""
        if self._by_job.get(one.job_id) != one:
            return
        self._trace.add("rests", one.attempt_id[-4:], one.machine, why)
        del self._by_job[one.job_id]
        del self.attempts[one.attempt_id]
        for gpu in one.gpus:
            del self._by_gpu[one.machine, gpu]
