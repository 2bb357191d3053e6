"""Carries out the commands of ``AgentCore`` through the ports and feeds each outcome back as an event.

The only place where the agent's state machine meets the world; with other ports it runs on a virtual clock. Blocking
commands may be handed to ``later``: between a command and its outcome the state machine takes any other event.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from agents.core import events as ev
from agents.core.agent_core import AgentCore
from agents.core.records import CONTROL_FILE, LAUNCH_FILE, STATE_FILE, SupervisorState
from agents.protocol.ports import Environments, Files, Processes, ProcessIdentity, ReportTransport, SpawnRequest

log = logging.getLogger(__name__)

# What wakes a supervisor: ignored by a process that does not handle it, so it never hurts one that is just starting.
NUDGE = 23  # SIGURG
LEVELS: Mapping[ev.Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


# Commands that the core repeats each second until they are done; one that still runs is not started twice.
_REPEATED = (ev.Sweep, ev.Fence, ev.Prepare)
_AT_ONCE = (ev.SendReport, ev.Forget, ev.Note)


class Later(Protocol):
    """Has a command carried out in its turn and brings its outcome in."""

    def __call__(self, carry_out: Callable[[], ev.Event | None], *, once: Hashable) -> None:
        """Take ``carry_out``; not again while another of the same name ``once`` waits, if that is not None."""


class Executor:
    """Carries out the commands of one agent."""

    def __init__(
        self,
        *,
        core: AgentCore,
        server_id: str,
        transport: ReportTransport,
        processes: Processes,
        files: Files,
        supervisor: Callable[[str], SpawnRequest],
        later: Later | None = None,
        environments: Environments | None = None,
    ) -> None:
        """Bind the state machine to its ports.

        Args:
            core: The state machine.
            server_id: Of this server.
            transport: Takes reports.
            processes: Of this machine.
            files: Of the attempts.
            supervisor: Says how the supervisor of an attempt is started.
            later: Runs blocking commands; None to wait for each.
            environments: Of Python, for jobs; None where none can be built.
        """
        self.core = core
        self._server_id = server_id
        self._transport = transport
        self._processes = processes
        self._files = files
        self._supervisor = supervisor
        self._later = later
        self._environments = environments
        self._is_broker_away = False
        self._seen: dict[str, tuple[bytes | None, SupervisorState | None]] = {}

    def start(self) -> None:
        """Adopt the attempts that an earlier run of this agent left."""
        durable = self._files.read_own()
        kept = self.core.kept_attempts(durable)
        found = [self._on_disk(attempt_id) for attempt_id in (self._files.attempts() if kept is None else kept)]
        # Not in the background: no report may go out before its number is kept.
        self._dispatch(ev.Started(durable=durable, attempts=tuple(found)), later=None)

    def look(self) -> None:
        """Look at every supervisor."""
        for watch in self.core.book.watched():
            alive = self._processes.alive(watch.identity) if watch.identity is not None else None
            state = self._state(watch.attempt_id)
            if alive is None and state is not None and state.supervisor is not None:
                alive = self._processes.alive(state.supervisor)
                state = self._state(watch.attempt_id)  # read after the look: the last words come before the end
            self.dispatch(ev.Observed(attempt_id=watch.attempt_id, alive=alive, state=state))

    def dispatch(self, event: ev.Event) -> None:
        """Handle one event, carry out its commands, and handle their outcomes."""
        self._dispatch(event, later=self._later)

    def _dispatch(self, event: ev.Event, *, later: Later | None) -> None:
        waiting: deque[ev.Event] = deque([event])
        while waiting:
            for command in self.core.handle(waiting.popleft()):
                if later is not None and not isinstance(command, _AT_ONCE):
                    once = command if isinstance(command, _REPEATED) else None
                    later(partial(self._carry_out, command), once=once)
                elif (outcome := self._carry_out(command)) is not None:
                    waiting.append(outcome)

    def _carry_out(self, command: ev.Command) -> ev.Event | None:
        match command:
            case ev.Persist():
                return self._persist(command)
            case ev.CreateLaunch():
                return self._create_launch(command)
            case ev.Spawn():
                return self._spawn(command)
            case ev.WriteControl():
                return self._write_control(command)
            case ev.Fence():
                return self._fence(command)
            case ev.Sweep():
                remaining = self._processes.end_all(command.attempt_id)
                return ev.Swept(attempt_id=command.attempt_id, remaining=remaining)
            case ev.Prepare():
                return self._prepare(command)
            case ev.RecordEnd():
                self._record_end(command)
            case ev.SendReport():
                self._send(command)
            case ev.Forget():
                self._seen.pop(command.attempt_id, None)
            case ev.Note():
                log.log(LEVELS[command.level], command.name, extra=command.fields)
        return None

    def _persist(self, command: ev.Persist) -> ev.Persisted:
        try:
            self._files.write_own(command.content)
        except OSError as error:
            return ev.Persisted(stamp=command.stamp, problem=str(error))
        return ev.Persisted(stamp=command.stamp)

    def _create_launch(self, command: ev.CreateLaunch) -> ev.LaunchCreated:
        attempt_id = command.attempt_id
        try:
            created = self._files.create(attempt_id, LAUNCH_FILE, command.content)
        except OSError as error:
            return ev.LaunchCreated(attempt_id=attempt_id, outcome="failed", problem=str(error))
        if created:
            return ev.LaunchCreated(attempt_id=attempt_id, outcome="created")
        return ev.LaunchCreated(attempt_id=attempt_id, outcome="taken", on_disk=self._on_disk(attempt_id))

    def _spawn(self, command: ev.Spawn) -> ev.Spawned:
        try:
            identity = self._processes.spawn(replace(self._supervisor(command.attempt_id), handed=command.handed))
        except OSError as error:
            return ev.Spawned(attempt_id=command.attempt_id, identity=None, problem=str(error))
        return ev.Spawned(attempt_id=command.attempt_id, identity=identity)

    def _write_control(self, command: ev.WriteControl) -> ev.ControlWritten:
        try:
            self._files.write(command.attempt_id, CONTROL_FILE, command.content)
        except OSError as error:
            return ev.ControlWritten(attempt_id=command.attempt_id, problem=str(error))
        self._nudge(command.supervisor)
        return ev.ControlWritten(attempt_id=command.attempt_id)

    def _nudge(self, supervisor: ProcessIdentity | None) -> None:
        if supervisor is not None:
            self._processes.signal(supervisor, NUDGE)

    def _fence(self, command: ev.Fence) -> ev.Fenced:
        attempt_id = command.attempt_id
        try:
            created = self._files.create(attempt_id, STATE_FILE, command.content)
        except OSError as error:
            return ev.Fenced(attempt_id=attempt_id, created=False, problem=str(error))
        return ev.Fenced(attempt_id=attempt_id, created=created, state=self._state(attempt_id))

    def _prepare(self, command: ev.Prepare) -> ev.Prepared | None:
        if self._environments is None:
            return None
        return ev.Prepared(environments=self._environments.align(command.wanted, in_use=command.in_use))

    def _record_end(self, command: ev.RecordEnd) -> None:
        try:
            self._files.write(command.attempt_id, STATE_FILE, command.content)
        except OSError as error:
            log.warning("end_not_recorded", extra={"attempt": command.attempt_id, "problem": str(error)})

    def _send(self, command: ev.SendReport) -> None:
        try:
            self._transport.send_report(self._server_id, command.message)
        except ConnectionError as error:
            if not self._is_broker_away:
                log.warning("broker_away", extra={"problem": str(error)})
            self._is_broker_away = True
        else:
            if self._is_broker_away:
                log.info("broker_back")
            self._is_broker_away = False

    def _on_disk(self, attempt_id: str) -> ev.AttemptOnDisk:
        return ev.AttemptOnDisk(
            attempt_id=attempt_id,
            launch=self._files.read(attempt_id, LAUNCH_FILE),
            control=self._files.read(attempt_id, CONTROL_FILE),
            state=self._files.read(attempt_id, STATE_FILE),
        )

    def _state(self, attempt_id: str) -> SupervisorState | None:
        """Return the state on disk; parsed only when it changed, as this is asked many times a second."""
        content = self._files.read(attempt_id, STATE_FILE)
        seen = self._seen.get(attempt_id)
        if seen is None or seen[0] != content:
            seen = (content, SupervisorState.parse(content))
            self._seen[attempt_id] = seen
        return seen[1]
