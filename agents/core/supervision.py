"""The state machine of a supervisor: ``Supervision.handle(event) -> list[Command]``. Pure.

Decides when a job is started, asked for a checkpoint, parked, stopped, frozen and killed, and its end cause.
``supervisor/supervisor.py`` feeds it events and carries its commands out.
"""

import signal
from dataclasses import replace
from typing import Literal

from agents.core import supervision_events as ev
from agents.core.attempt_facts import AttemptFacts
from agents.core.diagnosis import diagnose, secrets_of
from agents.core.ending import ENDS, UNEXPLAINED, Exit, Limits, end_cause
from agents.core.records import Launch, SupervisorState, WrittenLine
from agents.core.stopping import Leftovers, Parking, Stop
from agents.protocol.desired_state import STOP_SIGNALS
from agents.protocol.grant import Grant
from agents.protocol.ports import Clock, ProcessIdentity
from agents.protocol.server_report import AttemptPhase

# The hint for a job that was refused access to a file: what helps.
CLOSED_HINT = (
    "Jobs open only what their server opens for them: an admin adds folders by JOB_READ_DIRS and JOB_WRITE_DIRS."
)
# Interval of repeated SIGSTOPs to a frozen job: the one before misses a process that was just being forked, and a
# stopped process may be woken by another one.
STOP_AGAIN_S = 1.0


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
        granted = launch.order.memory_bytes if launch.control.grant is None else launch.control.grant.memory_bytes
        self._limits = Limits(launch.order, granted_bytes=granted)
        self._started_at_s: float | None = None
        self._exit: Exit | None = None
        self._stop: Stop | None = None
        self._leftovers: Leftovers | None = None  # once the command has ended
        self._parking: Parking | None = None
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
    def memory_limit_bytes(self) -> int:
        """Return the memory that the job may use now, which is more than its grant for a while after that shrank."""
        return self._limits.memory_bytes

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
            case ev.NoneLeft():
                self._clear()
            case ev.TreeGone():
                self._on_tree_gone(event)
            case ev.ControlChanged():
                self._on_control(event)
            case ev.EndAsked():
                self._begin_stop("preempted", "The server was asked to go down.", is_gentle=True)
            case ev.DirectoryTaken():
                self._break_limit(("preempted", "A later attempt of the job has begun in its directory."))
            case ev.MemorySampled():
                self._on_memory(event)
            case ev.UsageSampled():
                self._on_usage(event)
            case ev.JobReported():
                self._on_line(event.line)
            case ev.Tick():
                self._press_leftovers()
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
            self._limits.grant(grant.memory_bytes, now_s=self._clock.mono_s())
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
        is_stopped = self._parking is not None and self._parking.is_stopped
        self._leftovers = Leftovers.of(
            self._stop,
            now_s=self._clock.mono_s(),
            grace_s=self._control.grace_s,
            is_answered=self._facts.has_stopped or self._facts.has_completed,
            may_run=not self.is_frozen and not is_stopped,
        )

    def _clear(self) -> None:
        if self._leftovers is not None and not self._leftovers.is_cleared:
            self._leftovers.is_cleared = True
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
            port = None if gang is None else gang.port
            found = diagnose(exit_signal=self._exit.signal, tail=event.output, secrets=secrets, given_port=port)
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

    def _on_memory(self, event: ev.MemorySampled) -> None:
        memory_bytes = self._facts.used(event)
        self._break_limit(self._limits.broken_by_memory(memory_bytes, now_s=self._clock.mono_s()))

    def _on_usage(self, event: ev.UsageSampled) -> None:
        self._facts.sampled(event)
        self._break_limit(self._limits.broken_by(num_processes=event.num_processes, disk_bytes=event.disk_bytes))
        self._out.append(ev.WriteState(durable=False))

    def _on_line(self, line: WrittenLine) -> None:
        if line.event == "measured" and not self._is_measured:
            return  # it was not asked for, and would become the profile of all jobs like it
        if self._facts.told(line, now_s=self._clock.mono_s()):
            self._out.append(ev.WriteState(durable=False))
        if line.event == "parked" and self._parking is not None and line.request == self._parking.request:
            self._is_off(self._parking, is_stopped=False)

    def _advance(self) -> None:
        """Do what is due by time, lease and wanted state."""
        if self._started_at_s is None:
            return
        now_s, wanted = self._clock.mono_s(), self._control.wanted
        if self._stop is None and self._order.max_duration_s is not None:
            self._keep_time(self._order.max_duration_s, self._run_s(self._started_at_s))
        is_warned = self._stop is not None and self._stop.is_warning  # it leaves rather than that it parks
        if wanted != "run" and (wanted != "park" or is_warned):
            self._begin_stop(ENDS[wanted], "", is_gentle=wanted != "cancel")
        if self._exit is not None:
            return
        self._keep_lease(now_s)
        if self._stop is None and not self.is_frozen:
            self._keep_place(now_s)
        self._watch_progress(now_s)
        if self._stop is not None:
            self._press(self._stop, now_s)

    def _keep_time(self, limit_s: float, run_s: float) -> None:
        """End a job that is over its time; before that, ask it to end if it is to be warned."""
        warn_before_s = self._order.warn_before_s
        if run_s >= limit_s:
            self._begin_stop("time_limit", f"It ran for its maximum of {limit_s:.0f} s.", is_gentle=False)
        elif run_s >= limit_s - warn_before_s and not self.is_frozen and self._exit is None:
            self._stop = Stop.warning(
                f"It was warned {warn_before_s:.0f} s before its maximum of {limit_s:.0f} s.",
                now_s=self._clock.mono_s(),
                left_s=limit_s - run_s,
                grace_s=self._control.grace_s,
                reads_requests=self._facts.uses_runtime,
            )
            self._request("stop")
            self._set_phase("stopping")

    def _watch_progress(self, now_s: float) -> None:
        """End a job that made progress once and then none for too long; time in which it may not run does not count."""
        facts, stall_s = self._facts, self._order.stall_s
        if stall_s is None or facts.progress_at_s is None:
            return
        if self.is_frozen or self._parking is not None or self._stop is not None or facts.has_completed:
            facts.progress_at_s = now_s
        elif now_s - facts.progress_at_s >= stall_s:
            self._break_limit(
                ("stalled", f"It reported no progress for {stall_s:.0f} s, after step {facts.report.step}.")
            )

    def _begin_stop(self, cause: str, detail: str, *, is_gentle: bool) -> None:
        """Begin a stop, or hasten one that has begun. A gentle one asks for a checkpoint and waits for it."""
        if self._started_at_s is None or (self._exit is not None and self._stop is None):
            return  # a command that has ended by itself is stopped by nothing else
        stop = Stop.begin(
            cause,
            detail,
            now_s=self._clock.mono_s(),
            grace_s=self._control.grace_s,
            is_gentle=is_gentle,
            reads_requests=self._facts.uses_runtime,
        )
        if self._parking is not None and self._parking.is_stopped:
            stop.kill_at_s = self._clock.mono_s()  # to end by itself it would have to run, on devices of another job
        if self._stop is None:
            self._stop = stop
            if is_gentle:
                self._request("stop")
            self._set_phase("frozen" if self.is_frozen else "stopping")
        elif self._stop.cause != cause and (self._stop.is_warning or self._stop.cause in ENDS.values()):
            self._stop.give_way(stop)
            if self._leftovers is not None:
                self._leftovers.kill_at_s = min(self._leftovers.kill_at_s, stop.kill_at_s)

    def _break_limit(self, broken: tuple[str, str] | None) -> None:
        """Kill a job that broke a limit, at once; the end cause and its sentence say which."""
        if broken is None or self._started_at_s is None or (self._stop is not None and self._stop.is_fault):
            return
        if self._exit is not None:
            self._clear()  # its command has ended already, and that says how the job fared
            return
        self._stop = Stop.fault(*broken, now_s=self._clock.mono_s())
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
            self._out += [ev.Signal(number=signal.SIGSTOP), ev.Journal(event="stop")]
            self._set_phase("frozen")
        elif now_s - self._stopped_again_at_s >= STOP_AGAIN_S:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP))

    def _thaw(self) -> None:
        self._frozen_at_s = None
        # The journal first: it may show a job running that is not yet, never the other way round.
        self._out += [] if self.is_parked else [ev.Journal(event="continue")]
        self._out.append(ev.Signal(number=signal.SIGCONT))
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
            self._parking = parking = Parking(request=self._requests, stop_at_s=now_s + answer_s)
        if self._parking is not None and now_s >= self._parking.stop_at_s:
            self._hold_still(self._parking, now_s)

    def _hold_still(self, parking: Parking, now_s: float) -> None:
        """Stop a job that has not answered the request to park; repeated, as for a frozen one."""
        if parking.since_s is None:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP))
            self._is_off(parking, is_stopped=True)
        elif parking.is_stopped and now_s - self._stopped_again_at_s >= STOP_AGAIN_S:
            self._stopped_again_at_s = now_s
            self._out.append(ev.Signal(number=signal.SIGSTOP))

    def _is_off(self, parking: Parking, *, is_stopped: bool) -> None:
        if parking.since_s is not None:
            return
        parking.since_s, parking.is_stopped = self._clock.mono_s(), is_stopped
        if not self.is_frozen:  # else the journal has its stop already
            self._out.append(ev.Journal(event="stop"))
            self._set_phase("parked" if self._stop is None else "stopping")

    def _let_go_on(self, parking: Parking, now_s: float) -> None:
        self._parking = None
        self._request("continue")
        if parking.since_s is not None and self._started_at_s is not None:
            self._started_at_s += now_s - parking.since_s  # time off the devices is no run time
            self._out.append(ev.Journal(event="continue"))
        if parking.is_stopped:
            self._out.append(ev.Signal(number=signal.SIGCONT))
        self._set_phase("running")

    def _press(self, stop: Stop, now_s: float) -> None:
        if not stop.is_kill_sent and now_s >= stop.kill_at_s:
            # No other signal before it: that takes a CONT, and a job out of its lease may be running elsewhere already.
            stop.is_signalled = stop.is_kill_sent = True
            self._out.append(ev.Signal(number=signal.SIGKILL))
        elif not stop.is_signalled and now_s >= stop.signal_at_s:
            stop.is_signalled = True
            self._ask_all()

    def _press_leftovers(self) -> None:
        left = self._leftovers
        if left is None:
            return
        if self._clock.mono_s() >= min(left.kill_at_s, self._control.lease_until_s):
            self._clear()
        elif not left.is_signalled:
            left.is_signalled = True
            self._ask_all()

    def _ask_all(self) -> None:
        """Ask every process to end; a stopped one takes the signal only when it is continued."""
        number = STOP_SIGNALS[self._order.stop_signal]
        self._out += [ev.Signal(number=number, is_once=True), ev.Signal(number=signal.SIGCONT)]

    def _request(self, request: Literal["checkpoint", "park", "continue", "stop"]) -> None:
        self._requests += 1
        self._out.append(ev.WriteRequest(number=self._requests, request=request))
