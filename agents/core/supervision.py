"""The state machine of a supervisor: ``Supervision.handle(event) -> list[Command]``. Pure.

Decides when a job is started, asked for a checkpoint, parked, stopped, frozen and killed, and its end cause.
``supervisor/supervisor.py`` feeds it events and carries its commands out.
"""

import signal
from dataclasses import dataclass, replace
from typing import Literal

from agents.core import supervision_events as ev
from agents.core.attempt_facts import AttemptFacts
from agents.core.diagnosis import diagnose, secrets_of
from agents.core.ending import ENDS, UNEXPLAINED, Exit, Stop, end_cause, size_text
from agents.core.records import JobLine, Launch, SupervisorState
from agents.protocol.grant import Grant
from agents.protocol.messages import AttemptPhase
from agents.protocol.ports import Clock, ProcessIdentity

# A cancelled job, and one over its time, gets at most so long between TERM and KILL, seconds.
SHORT_GRACE_S = 10.0
# What the owner of a job can do that was refused a file.
CLOSED_HINT = (
    "Jobs open only what their server opens for them: an admin adds folders by JOB_READ_DIRS and JOB_WRITE_DIRS."
)
# So long a job may use more memory than it is granted after its grant shrank, seconds.
SHRINK_GRACE_S = 30.0
# Of one attempt: a gang of eight ranks with sixteen data loaders each has fewer than two hundred.
MOST_PROCESSES = 4_096
# A frozen job is stopped again so often: a process that was being forked may have been missed, or woken by another.
STOP_AGAIN_S = 1.0


@dataclass(slots=True, kw_only=True)
class _Parking:
    """A job that has left its devices, or is asked to.

    Attributes:
        request: Number of the request that asks for it.
        stop_at_s: When it is stopped by SIGSTOP unless it has answered, CLOCK_BOOTTIME.
        since_s: When it left its devices; None while it is on its way.
        is_stopped: It was stopped by SIGSTOP: it holds the memory of its devices and cannot be asked anything.
    """

    request: int
    stop_at_s: float
    since_s: float | None = None
    is_stopped: bool = False


class Supervision:
    """State machine of one attempt under its supervisor."""

    def __init__(self, *, launch: Launch, supervisor: ProcessIdentity, clock: Clock) -> None:
        self._order = launch.order
        self._control = launch.control
        self._supervisor = supervisor
        self._clock = clock
        self._trainer: ProcessIdentity | None = None
        self._note = ""
        self._facts = AttemptFacts(launch.order.attempt_id)
        self.memory_limit_bytes = launch.order.memory_bytes
        self._shrunk_at_s = 0.0
        self._started_at_s: float | None = None
        self._exit: Exit | None = None
        self._stop: Stop | None = None
        self._parking: _Parking | None = None
        self._frozen_at_s: float | None = None
        self._stopped_again_at_s = 0.0
        self._warned_until_s = -1.0  # the lease end that the job was last warned of
        self._requests = 0
        self._is_measured = False  # once it was asked for
        self._out: list[ev.Command] = []

    @property
    def state(self) -> SupervisorState:
        """Return the present state, as written to ``state.json``."""
        report = self._facts.report
        run_s = report.run_s
        if self._started_at_s is not None and self._exit is None:
            run_s = self._run_s(self._started_at_s)
        return SupervisorState(
            supervisor=self._supervisor,
            trainer=self._trainer,
            report=replace(report, run_s=run_s, generation=self._control.generation),
            dropped_log_bytes=self._facts.dropped_log_bytes,
            note=self._note,
        )

    @property
    def is_frozen(self) -> bool:
        """Return whether the job is stopped because its lease ran out."""
        return self._frozen_at_s is not None

    @property
    def is_parked(self) -> bool:
        """Return whether the job is off its devices."""
        return self._parking is not None and self._parking.since_s is not None

    @property
    def is_awaited(self) -> bool:
        """Return whether the job is asked to leave its devices and has not yet."""
        return self._parking is not None and self._parking.since_s is None

    def _run_s(self, started_at_s: float) -> float:
        """Return how long the job has run, parked time apart, seconds."""
        parked_at_s = self._parking.since_s if self._parking is not None else None
        return max(0.0, (self._clock.mono_s() if parked_at_s is None else parked_at_s) - started_at_s)

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Handle one event and return the commands that follow, in order."""
        self._out = []
        if self._facts.report.phase == "ended":
            return self._out
        match event:
            case ev.Begin():
                self._on_begin()
            case ev.ChildStarted():
                self._on_started(event)
            case ev.ChildFailed():
                self._end(event.cause, event.detail)
            case ev.ChildExited():
                self._on_exited(event)
            case ev.TreeGone():
                self._on_tree_gone(event)
            case ev.ControlChanged():
                self._on_control(event)
            case ev.EndAsked():
                self._begin_stop("preempted", "The server was asked to go down.", is_gentle=True)
            case ev.DirectoryTaken():
                self._break_limit("preempted", "A later attempt of the job has begun in its directory.")
            case ev.MemorySampled():
                self._on_memory(event)
            case ev.UsageSampled():
                self._on_usage(event)
            case ev.JobReported():
                self._on_line(event.line)
            case ev.Tick():
                pass
        self._advance()
        return self._out

    def _on_begin(self) -> None:
        if self._control.wanted != "run":
            self._end(ENDS[self._control.wanted], "It was to end before it was started.")
        elif self._control.lease_until_s <= self._clock.mono_s():
            self._end("launch_failed", "The lease ran out before the job could be started.")
        else:
            self._tell_members()
            if self._control.grant is not None:
                self._give(self._control.grant)
            self._out.append(ev.StartChild())

    def _on_control(self, event: ev.ControlChanged) -> None:
        before, self._control = self._control, event.control
        if event.control.gang_version > before.gang_version:
            self._tell_members()
        grant = event.control.grant
        if grant is not None and grant != before.grant:
            if grant.memory_bytes < self.memory_limit_bytes:
                self._shrunk_at_s = self._clock.mono_s()
            self._give(grant)

    def _give(self, grant: Grant) -> None:
        self._is_measured = self._is_measured or grant.measure_above is not None
        self._out.append(ev.Give(grant=grant))

    def _tell_members(self) -> None:
        """Tell the leader of a gang its members; the leader decides when the gang changes."""
        if self._control.members:
            self._out.append(ev.WriteMembers(version=self._control.gang_version, members=self._control.members))

    def _on_started(self, event: ev.ChildStarted) -> None:
        self._trainer, self._note = event.identity, event.note
        self._started_at_s = self._clock.mono_s()
        self._facts.began(event.identity.pid)
        self._out.append(ev.Journal(event="start"))
        self._set_phase("running")

    def _on_exited(self, event: ev.ChildExited) -> None:
        if self._exit is not None:
            return
        self._facts.exited(event.exit, run_s=self.state.report.run_s)
        self._exit = event.exit
        self._out.append(ev.ClearTree())

    def _on_tree_gone(self, event: ev.TreeGone) -> None:
        if self._exit is None:
            return
        # The journal is written before the devices can be given to the next job.
        self._out.append(ev.Journal(event="exit"))
        cause, detail = end_cause(self._facts.evidence(self._exit, self._stop, told=event))
        if cause in UNEXPLAINED:
            gang = self._order.gang
            secrets = (*secrets_of(self._order.env), *((gang.secret,) if gang is not None else ()))
            found = diagnose(exit_signal=self._exit.signal, tail=event.output, secrets=secrets)
            self._facts.explain(failure=found.failure, line=found.line)
            if found.line.startswith("PermissionError"):
                detail = f"{detail} {CLOSED_HINT}"
        self._end(cause, detail)

    def _end(self, cause: str, detail: str) -> None:
        self._facts.end(cause, detail)
        self._out += [ev.WriteState(durable=True), ev.Finish()]

    def _set_phase(self, phase: AttemptPhase) -> None:
        self._facts.enter(phase)
        self._out.append(ev.WriteState(durable=True))

    def _granted_memory(self, used_bytes: int) -> int:
        """Return the present memory limit: after a grant shrank the job has some time to give memory back."""
        granted = self._order.memory_bytes if self._control.grant is None else self._control.grant.memory_bytes
        is_late = self._clock.mono_s() - self._shrunk_at_s >= SHRINK_GRACE_S
        if granted >= self.memory_limit_bytes or used_bytes <= granted or is_late:
            self.memory_limit_bytes = granted
        return self.memory_limit_bytes

    def _on_memory(self, event: ev.MemorySampled) -> None:
        memory_bytes = self._facts.used(event)
        granted = self._granted_memory(memory_bytes)
        if 0 < granted < memory_bytes:
            self._break_limit(
                "out_of_memory", f"Its processes used {size_text(memory_bytes)} of {size_text(granted)} granted memory."
            )

    def _on_usage(self, event: ev.UsageSampled) -> None:
        self._facts.sampled(event)
        if event.num_processes > MOST_PROCESSES:
            self._break_limit(
                "process_limit", f"It had {event.num_processes} processes, and may have {MOST_PROCESSES}."
            )
        granted = self._order.disk_bytes
        if 0 < granted < event.disk_bytes:
            self._break_limit(
                "out_of_disk",
                f"Its directories took {size_text(event.disk_bytes)} of {size_text(granted)} granted disk.",
            )
        self._out.append(ev.WriteState(durable=False))

    def _on_line(self, line: JobLine) -> None:
        if line.event == "measured" and not self._is_measured:
            return  # it was not asked for, and would become the profile of all jobs like it
        if self._facts.told(line, now_s=self._clock.mono_s()):
            self._out.append(ev.WriteState(durable=False))
        if line.event == "parked" and self._parking is not None and line.request == self._parking.request:
            self._is_off(self._parking, is_stopped=False)

    def _advance(self) -> None:
        """Do what is due by time, lease and wanted state."""
        if self._started_at_s is None or self._exit is not None:
            return
        now_s = self._clock.mono_s()
        limit_s = self._order.max_duration_s
        if self._stop is None and limit_s is not None and self._run_s(self._started_at_s) >= limit_s:
            self._begin_stop("time_limit", f"It ran for its maximum of {limit_s:.0f} s.", is_gentle=False)
        if self._control.wanted not in ("run", "park"):
            self._begin_stop(ENDS[self._control.wanted], "", is_gentle=self._control.wanted != "cancel")
        self._keep_lease(now_s)
        if self._stop is None and not self.is_frozen:
            self._keep_place(now_s)
        self._watch_progress(now_s)
        if self._stop is not None:
            self._press(self._stop, now_s)

    def _watch_progress(self, now_s: float) -> None:
        """End a job that made progress once and then none for too long; time in which it may not run does not count."""
        facts, stall_s = self._facts, self._order.stall_s
        if stall_s is None or facts.progress_at_s is None:
            return
        if self.is_frozen or self._parking is not None or self._stop is not None or facts.has_completed:
            facts.progress_at_s = now_s
        elif now_s - facts.progress_at_s >= stall_s:
            detail = f"It reported no progress for {stall_s:.0f} s, after step {facts.report.step}."
            self._break_limit("stalled", detail)

    def _begin_stop(self, cause: str, detail: str, *, is_gentle: bool) -> None:
        """Begin a stop, or hasten one that has begun. A gentle one asks for a checkpoint and waits for it."""
        if self._started_at_s is None or self._exit is not None:
            return
        now_s = self._clock.mono_s()
        grace_s = self._control.grace_s
        if not is_gentle:
            term_at_s, kill_at_s = now_s, now_s + min(grace_s, SHORT_GRACE_S)
        elif self._facts.uses_runtime:
            term_at_s, kill_at_s = now_s + grace_s, now_s + 2 * grace_s
        else:
            # The job reads no requests: waiting for an answer would only waste the grace.
            term_at_s, kill_at_s = now_s, now_s + grace_s
        if self._parking is not None and self._parking.is_stopped:
            kill_at_s = now_s  # to end by itself it would have to run, on devices that are another job's
        if self._stop is None:
            self._stop = Stop(cause=cause, detail=detail, term_at_s=term_at_s, kill_at_s=kill_at_s)
            if is_gentle:
                self._request("stop")
            self._set_phase("frozen" if self.is_frozen else "stopping")
        elif self._stop.cause != cause and self._stop.cause in ENDS.values():
            self._stop.cause, self._stop.detail = cause, detail
            if not is_gentle:
                self._stop.term_at_s = min(self._stop.term_at_s, term_at_s)
                self._stop.kill_at_s = min(self._stop.kill_at_s, kill_at_s)

    def _break_limit(self, cause: str, detail: str) -> None:
        """Kill a job that broke a limit, at once."""
        if self._started_at_s is None or self._exit is not None or (self._stop is not None and self._stop.is_fault):
            return
        now_s = self._clock.mono_s()
        self._stop = Stop(
            cause=cause, detail=detail, term_at_s=now_s, kill_at_s=now_s, is_term_sent=True, is_fault=True
        )
        self._set_phase("stopping")

    def _keep_lease(self, now_s: float) -> None:
        until_s = self._control.lease_until_s
        if now_s < until_s:
            if self.is_frozen:
                self._thaw()
            is_due = now_s >= until_s - self._control.lease_margin_s and self._warned_until_s != until_s
            if is_due and self._stop is None and self._parking is None:
                self._warned_until_s = until_s
                self._request("checkpoint")
        elif self._stop is not None:
            # Asked to end already and out of its lease: the devices may be another job's soon.
            self._stop.kill_at_s = min(self._stop.kill_at_s, now_s)
        elif self.is_parked:
            return  # on no device, and not resumed without a lease
        elif not self.is_frozen:
            self._frozen_at_s = self._stopped_again_at_s = now_s
            self._out += [ev.Signal(number=signal.SIGSTOP, whole_tree=True), ev.Journal(event="stop")]
            self._set_phase("frozen")
        elif now_s - self._stopped_again_at_s >= STOP_AGAIN_S:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP, whole_tree=True))

    def _thaw(self) -> None:
        self._frozen_at_s = None
        # The journal first: it may show a job running that is not yet, never the other way round.
        self._out += [] if self.is_parked else [ev.Journal(event="continue")]
        self._out.append(ev.Signal(number=signal.SIGCONT, whole_tree=True))
        self._set_phase("stopping" if self._stop is not None else "parked" if self.is_parked else "running")

    def _keep_place(self, now_s: float) -> None:
        """Park the job, or bring it back to its devices."""
        parking = self._parking
        if self._control.wanted == "run" and parking is not None and now_s < self._control.lease_until_s:
            self._let_go_on(parking, now_s)
        elif self._control.wanted == "park" and parking is None:
            self._request("park")
            # A job that reads no requests is stopped at once: waiting for an answer would only keep the devices.
            answer_s = self._control.grace_s if self._facts.uses_runtime else 0.0
            self._parking = parking = _Parking(request=self._requests, stop_at_s=now_s + answer_s)
        if self._parking is not None and now_s >= self._parking.stop_at_s:
            self._hold_still(self._parking, now_s)

    def _hold_still(self, parking: _Parking, now_s: float) -> None:
        """Stop a job that has not answered the request to park; repeated, as for a frozen one."""
        if parking.since_s is None:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP, whole_tree=True))
            self._is_off(parking, is_stopped=True)
        elif parking.is_stopped and now_s - self._stopped_again_at_s >= STOP_AGAIN_S:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP, whole_tree=True))

    def _is_off(self, parking: _Parking, *, is_stopped: bool) -> None:
        if parking.since_s is not None:
            return
        parking.since_s, parking.is_stopped = self._clock.mono_s(), is_stopped
        if not self.is_frozen:  # else the journal has its stop already
            self._out.append(ev.Journal(event="stop"))
            self._set_phase("parked" if self._stop is None else "stopping")

    def _let_go_on(self, parking: _Parking, now_s: float) -> None:
        self._parking = None
        self._request("continue")
        if parking.since_s is not None and self._started_at_s is not None:
            self._started_at_s += now_s - parking.since_s  # time off the devices is no run time
            self._out.append(ev.Journal(event="continue"))
        if parking.is_stopped:
            self._out.append(ev.Signal(number=signal.SIGCONT, whole_tree=True))
        self._set_phase("running")

    def _press(self, stop: Stop, now_s: float) -> None:
        if not stop.is_kill_sent and now_s >= stop.kill_at_s:
            # No TERM before it: that takes a CONT, and a job out of its lease may be running elsewhere already.
            stop.is_term_sent = stop.is_kill_sent = True
            self._out.append(ev.Signal(number=signal.SIGKILL, whole_tree=True))
        elif not stop.is_term_sent and now_s >= stop.term_at_s:
            stop.is_term_sent = True
            # A stopped process takes TERM only when it is continued.
            self._out += [
                ev.Signal(number=signal.SIGTERM, whole_tree=False),
                ev.Signal(number=signal.SIGCONT, whole_tree=True),
            ]

    def _request(self, request: Literal["checkpoint", "park", "continue", "stop"]) -> None:
        self._requests += 1
        self._out.append(ev.WriteRequest(number=self._requests, request=request))
