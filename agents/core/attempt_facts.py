"""What a supervisor knows of its attempt: the job's own reports and measurements of its processes. Pure.

``supervision.py`` decides what follows.
"""

from dataclasses import replace

from agents.core import supervision_events as ev
from agents.core.ending import EndEvidence, Exit
from agents.core.records import WrittenLine
from agents.core.stopping import Stop
from agents.protocol.server_report import AttemptPhase, AttemptReport


class AttemptFacts:
    """What is known of one attempt.

    Attributes:
        report: As it is given to the agent.
        dropped_log_bytes: Output that was not kept.
        uses_runtime: The job has begun to report, so it reads requests.
        has_stopped: It said that it has stopped because it was asked to.
        has_completed: It said that it trained its last step.
        progress_at_s: Time of its newest step, or when it last could make none, CLOCK_BOOTTIME; None before.
    """

    def __init__(self, attempt_id: str) -> None:
        self.report = AttemptReport(attempt_id=attempt_id, phase="starting")
        self.dropped_log_bytes = 0
        self.uses_runtime = False
        self.has_completed = False
        self.progress_at_s: float | None = None
        self.has_stopped = False
        self._saw_disk_full = False

    def enter(self, phase: AttemptPhase) -> None:
        """Set the phase."""
        self.report = replace(self.report, phase=phase)

    def began(self, pid: int) -> None:
        """Note the training process."""
        self.report = replace(self.report, pid=pid)

    def exited(self, found: Exit, *, run_s: float) -> None:
        """Note how the training process ended."""
        self.report = replace(self.report, run_s=run_s, exit_code=found.code, exit_signal=found.signal)

    def explain(self, *, failure: str, line: str) -> None:
        """Note the failure that its output shows."""
        self.report = replace(self.report, failure=failure, failure_line=line)

    def end(self, cause: str, detail: str) -> None:
        """Note why the attempt ended; from here nothing changes."""
        self.report = replace(
            self.report,
            phase="ended",
            end_cause=cause,
            end_detail=detail.replace("\x00", "").encode(errors="replace").decode()[:300],
            cpu_frac=None,
            memory_bytes=None,
        )

    def used(self, event: ev.MemorySampled) -> int:
        """Note the memory of its processes; return the used bytes, its cache included."""
        memory_bytes = event.memory_bytes + event.cached_bytes
        peak = max(event.memory_bytes, self.report.peak_memory_bytes or 0)
        self.report = replace(self.report, memory_bytes=memory_bytes, peak_memory_bytes=peak)
        return memory_bytes

    def sampled(self, event: ev.UsageSampled) -> None:
        """Note its cores, its output and its disk."""
        self._saw_disk_full |= event.is_disk_full
        self.dropped_log_bytes = event.dropped_log_bytes
        self.report = replace(
            self.report, cpu_frac=event.cpu_frac, log_bytes=event.log_bytes, directory_bytes=event.directory_bytes
        )

    def told(self, line: WrittenLine, *, now_s: float) -> bool:
        """Note a report of the job; return whether the agent is to see it soon."""
        before_step = self.report.step
        report = replace(
            self.report,
            step=before_step if line.step is None else line.step,
            total_steps=self.report.total_steps if line.total_steps is None else line.total_steps,
        )
        match line.event:
            case "started":
                self.uses_runtime = True
                report = replace(report, first_step=line.step if report.first_step is None else report.first_step)
            case "progress":
                if line.step is not None and line.step > (before_step or 0):
                    self.progress_at_s = now_s
                report = replace(report, loss=line.loss, steps_per_s=line.steps_per_s, cached_frac=line.cached_frac)
            case "checkpoint":
                report = replace(report, checkpoint_name=line.name, checkpoint_step=line.step)
            case "resized":
                report = replace(report, gang_version=line.version, gang_size=line.ranks, switch_s=line.pause_s)
            case "measured":
                report = replace(report, measured=line.measured)
            case "stopped":
                self.has_stopped = True
            case "completed":
                self.has_completed = True
        self.report = report
        return line.event in ("checkpoint", "resized", "measured")

    def evidence(self, found: Exit, stop: Stop | None, *, told: ev.TreeGone) -> EndEvidence:
        """Return the evidence from which its end cause follows."""
        return EndEvidence(
            exit=found,
            stop=stop,
            said_stopped=self.has_stopped,
            said_completed=self.has_completed,
            is_disk_full=self._saw_disk_full,
            is_kernel_oom=told.is_kernel_oom,
            is_over_limit=told.is_over_limit,
        )
