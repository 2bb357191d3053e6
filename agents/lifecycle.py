"""The agent's heart: ``AgentCore.handle(event) -> list[Command]``. Pure.

It decides which desired state is believed, what is launched, told to end, reported and forgotten. It never launches an
attempt twice: the claim and the stamp of the desired state are on disk before the launch file is made, the launch file
is made with exclusive create before the supervisor is started, and a claimed attempt is never started again.
"""

from collections import Counter
from dataclasses import dataclass

from agents import events as ev
from agents.ending import ENDS
from agents.errors import Malformed, ProtocolError
from agents.known import Known, Stage, has_ended, known_from_disk, launch_on_disk
from agents.lease import LeaseBook, lease_margin_s
from agents.messages import AttemptWanted, DesiredState
from agents.notes import Notes
from agents.ports import Clock, ProcessIdentity
from agents.protocol import Stamp, unseal
from agents.records import Control, Durable, Launch, SupervisorState, encode, ended_unsupervised
from agents.reporter import Reporter, ServerProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A supervisor to look at; ``identity`` is None when only its state file can tell who it is."""

    attempt_id: str
    identity: ProcessIdentity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A genuine desired state whose stamp is on its way to the disk; ``claims`` are the attempts it makes new."""

    stamp: Stamp
    desired: DesiredState
    claims: tuple[str, ...]


class AgentCore:
    """State machine of one server's agent.

    Attributes:
        rejected: Messages that were not believed, counted by reason.
    """

    def __init__(self, profile: ServerProfile, clock: Clock) -> None:
        self.rejected: Counter[str] = Counter()
        self._profile = profile
        self._clock = clock
        self._known: dict[str, Known] = {}
        self._stamp = Stamp(epoch=0, generation=0, sequence=0)
        self._pending: _Pending | None = None
        self._lease = LeaseBook()
        self._reporter = Reporter(profile, clock, self._lease)
        self._notes = Notes(clock)
        self._is_report_due = False
        self._is_persist_due = False
        self._out: list[ev.Command] = []

    @staticmethod
    def kept_attempts(durable: bytes | None) -> list[str] | None:
        """Return the attempts that an earlier run kept in mind, or None when it left no memory that can be read."""
        try:
            return None if durable is None else sorted(Durable.parse(durable).attempts)
        except Malformed:
            return None

    def watched(self) -> list[Watch]:
        """Return the supervisors to look at, by attempt id."""
        return [
            Watch(attempt_id=known.attempt_id, identity=known.identity)
            for _, known in sorted(self._known.items())
            if known.stage is Stage.WATCHED
        ]

    @property
    def is_in_transition(self) -> bool:
        """Return whether an attempt is about to change, so that looking often pays."""
        return any(known.phase in ("starting", "stopping") for known in self._known.values())

    def slot_usage(self) -> dict[int, float]:
        """Return utilization by device index, as the supervisors measure it: fraction of the granted cores."""
        return {
            index: known.report.cpu_frac or 0.0
            for _, known in sorted(self._known.items())
            for index in known.gpu_indexes
        }

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Take in one event and return what is to be done, in order."""
        self._out = []
        self._notes.out = self._out
        match event:
            case ev.Started():
                self._on_started(event)
            case ev.DesiredReceived():
                self._on_desired(event.message)
            case ev.Persisted():
                self._on_persisted(event)
            case ev.LaunchCreated():
                self._on_launch_created(event)
            case ev.Spawned():
                self._on_spawned(event)
            case ev.ControlWritten():
                self._on_control_written(event)
            case ev.Observed():
                self._on_observed(event)
            case ev.Fenced():
                self._on_fenced(event)
            case ev.Swept():
                self._on_swept(event)
            case ev.Sampled():
                self._reporter.sampled = event
            case ev.Tick():
                self._on_tick()
        self._persist_if_due(after_failure=isinstance(event, ev.Persisted) and bool(event.problem))
        self._report_if_due()
        return self._out

    def _on_started(self, event: ev.Started) -> None:
        durable = Durable()
        has_memory = event.durable is not None
        if event.durable is not None:
            try:
                durable = Durable.parse(event.durable)
            except Malformed as error:
                has_memory = False
                self._notes.add("error", "agent_memory_unreadable", {"problem": str(error)})
        self._stamp = Stamp(epoch=durable.epoch, generation=durable.generation, sequence=durable.sequence)
        self._reporter.start(after=durable.report_ceiling)
        for found in event.attempts:
            launch = launch_on_disk(found)
            is_ours = launch is not None and launch.server_id == self._profile.server_id
            # Without its memory the agent knows its attempts by their launch files; ended ones are nobody's concern.
            if found.attempt_id in durable.attempts or (not has_memory and is_ours and not has_ended(found)):
                identity = durable.attempts.get(found.attempt_id)
                self._known[found.attempt_id] = known_from_disk(found, launch, identity)
        self._is_persist_due = True
        self._notes.add("info", "agent_started", {"attempts": len(self._known), "generation": self._stamp.generation})

    def _on_desired(self, message: str) -> None:
        try:
            envelope = unseal(
                key=self._profile.key,
                direction="desired",
                server=self._profile.server_id,
                message=message,
                now_s=self._clock.now().timestamp(),
            )
            desired = DesiredState.parse(envelope.body)
        except ProtocolError as error:
            self._reject(type(error).__name__.lower(), str(error))
            return
        newest = max(self._stamp, self._pending.stamp) if self._pending else self._stamp
        if envelope.stamp <= newest:
            self._reject("stale", f"{envelope.stamp} <= {newest}")
            return
        if not self._lease.acknowledge(desired.acknowledged_sequence, ttl_s=desired.lease_ttl_s):
            self._notes.add("debug", "report_not_ours_acknowledged", {"sequence": desired.acknowledged_sequence})
        self._pending = _Pending(stamp=envelope.stamp, desired=desired, claims=self._claims(desired))
        self._out.append(ev.Persist(stamp=envelope.stamp, content=self._durable(self._pending)))

    def _claims(self, desired: DesiredState) -> tuple[str, ...]:
        """Return the attempts to take on. Nothing is launched without a lease; its renewal names the attempt again."""
        has_lease = self._lease.until_s > self._clock.mono_s()
        claims = []
        for attempt in desired.attempts:
            if attempt.attempt_id in self._known:
                continue
            if attempt.wanted == "run" and not has_lease:
                self._notes.add("info", "launch_waits_for_lease", {"attempt": attempt.attempt_id})
                self._is_report_due = True
                continue
            claims.append(attempt.attempt_id)
        return tuple(claims)

    def _on_persisted(self, event: ev.Persisted) -> None:
        pending = self._pending
        if event.problem:
            self._notes.add_seldom("error", "agent_memory_not_written", {"problem": event.problem})
            # Not acted on, so not acknowledged: the scheduler sends it again.
            if pending is not None and event.stamp == pending.stamp:
                self._pending = None
            self._is_persist_due = True
        elif pending is not None and event.stamp == pending.stamp:
            self._pending = None
            self._accept(pending)

    def _accept(self, pending: _Pending) -> None:
        self._stamp = pending.stamp
        self._is_report_due = True
        named = {attempt.attempt_id: attempt for attempt in pending.desired.attempts}
        for known in self._known.values():
            known.wanted = named.get(known.attempt_id)
            known.is_named = known.wanted is not None
        for attempt_id in pending.claims:
            self._take_on(named[attempt_id])
        for attempt_id in sorted(self._known):
            self._bring_in_line(self._known[attempt_id])

    def _take_on(self, wanted: AttemptWanted) -> None:
        known = Known(attempt_id=wanted.attempt_id, stage=Stage.CLAIMED, wanted=wanted)
        self._known[wanted.attempt_id] = known
        if wanted.wanted != "run":
            # Its launch was never heard of, and it is already to end: it must not start any more.
            self._fence(known, ENDS[wanted.wanted], "It was to end before it was launched.")
            return
        control = self._control(known)
        known.launch = Launch(
            server_id=self._profile.server_id,
            epoch=self._stamp.epoch,
            order=wanted,
            control=control,
            cpu_ids=self._cores(wanted.cpu_ids),
            visible_devices=wanted.gpu_uuids if self._profile.device_kind == "gpu" else (),
            journal_dir=self._profile.journal_dir,
        )
        known.control = control
        self._out.append(ev.CreateLaunch(attempt_id=known.attempt_id, content=encode(known.launch)))

    def _cores(self, cpu_ids: tuple[int, ...]) -> tuple[int, ...]:
        cores = self._profile.cpu_ids
        return tuple(dict.fromkeys(cores[logical % len(cores)] for logical in cpu_ids)) if cores else ()

    def _control(self, known: Known) -> Control:
        until_s = self._lease.until_s
        if not known.is_named and known.control is not None:
            until_s = known.control.lease_until_s  # an attempt that nobody wants gets no more time
        elif known.control is not None:
            until_s = max(until_s, known.control.lease_until_s)
        return Control(
            wanted=known.wanted.wanted if known.wanted is not None else "run" if known.is_named else "cancel",
            generation=self._stamp.generation,
            grace_s=known.grace_s,
            lease_until_s=until_s,
            lease_margin_s=lease_margin_s(self._lease.ttl_s),
        )

    def _bring_in_line(self, known: Known) -> None:
        """Tell the supervisor what is wanted now, or forget an ended attempt that nobody names any more."""
        if known.stage is Stage.ENDED:
            if not known.is_named:
                del self._known[known.attempt_id]
                self._is_persist_due = True
                self._out.append(ev.Forget(attempt_id=known.attempt_id))
            return
        if known.stage is not Stage.WATCHED:
            return
        control = self._control(known)
        if control != known.control:
            known.control = control
            self._out.append(
                ev.WriteControl(
                    attempt_id=known.attempt_id, content=encode(control), supervisor=self._supervisor(known)
                )
            )

    @staticmethod
    def _supervisor(known: Known) -> ProcessIdentity | None:
        return known.identity or (known.state.supervisor if known.state is not None else None)

    def _on_launch_created(self, event: ev.LaunchCreated) -> None:
        known = self._known.get(event.attempt_id)
        if known is None or known.stage is not Stage.CLAIMED:
            return
        if event.outcome == "created":
            known.stage = Stage.SPAWNING
            self._out.append(ev.Spawn(attempt_id=known.attempt_id))
        elif event.outcome == "taken" and event.on_disk is not None:
            self._adopt(known, event.on_disk)
        else:
            self._end(known, _failed(known, f"The launch could not be prepared: {event.problem}."))

    def _adopt(self, known: Known, found: ev.AttemptOnDisk) -> None:
        """Somebody made the launch file before: this agent, before it lost its memory, or another server."""
        launch = launch_on_disk(found)
        if launch is None or launch.server_id != self._profile.server_id:
            self._end(known, _failed(known, "The attempt's directory belongs to another server."))
            return
        adopted = known_from_disk(found, launch, None)
        adopted.wanted, adopted.is_named = known.wanted, known.is_named
        self._known[known.attempt_id] = adopted
        self._notes.add("warning", "attempt_known_from_disk", {"attempt": known.attempt_id})

    def _on_spawned(self, event: ev.Spawned) -> None:
        known = self._known.get(event.attempt_id)
        if known is None or known.stage is not Stage.SPAWNING:
            return
        known.stage = Stage.WATCHED
        if event.identity is None:
            self._fence(known, "launch_failed", f"The supervisor could not be started: {event.problem}.")
            return
        known.identity = event.identity
        self._is_persist_due = True
        self._bring_in_line(known)

    def _on_control_written(self, event: ev.ControlWritten) -> None:
        known = self._known.get(event.attempt_id)
        if known is not None and event.problem:
            known.control = None
            self._notes.add_seldom(
                "error", "control_not_written", {"attempt": event.attempt_id, "problem": event.problem}
            )

    def _on_observed(self, event: ev.Observed) -> None:
        known = self._known.get(event.attempt_id)
        if known is None or known.stage is not Stage.WATCHED:
            return
        if event.state is not None and event.state.report.attempt_id == known.attempt_id:
            self._take_state(known, event.state)
        if event.alive:
            return
        if event.state is not None and event.state.report.phase == "ended":
            self._end(known, event.state)
        elif event.alive is None and known.state is None:
            self._fence(known, "launch_failed", "The agent was restarted before it could start the attempt.")
        elif event.alive is False and known.state is None:
            self._fence(known, "launch_failed", "The supervisor ended before it could start the job.")
        else:
            self._lose(known)

    def _take_state(self, known: Known, state: SupervisorState) -> None:
        before = known.report
        known.state = state
        after = known.report
        if known.identity is None and state.supervisor is not None:
            known.identity = state.supervisor
            self._is_persist_due = True
        if (before.phase, before.pid, before.checkpoint_name) != (after.phase, after.pid, after.checkpoint_name):
            self._is_report_due = True

    def _fence(self, known: Known, cause: str, detail: str) -> None:
        known.stage = Stage.FENCING
        known.fence = ended_unsupervised(attempt_id=known.attempt_id, cause=cause, detail=detail)
        self._out.append(ev.Fence(attempt_id=known.attempt_id, content=encode(known.fence)))

    def _on_fenced(self, event: ev.Fenced) -> None:
        known = self._known.get(event.attempt_id)
        if known is None or known.stage is not Stage.FENCING or known.fence is None:
            return
        if event.problem:
            self._notes.add_seldom(
                "error", "fence_not_written", {"attempt": event.attempt_id, "problem": event.problem}
            )
        elif event.created:
            self._end(known, known.fence)
        elif event.state is not None:
            known.stage = Stage.WATCHED  # a supervisor was first; the next look decides
            self._take_state(known, event.state)
            self._bring_in_line(known)
        else:
            self._lose(known)

    def _lose(self, known: Known) -> None:
        known.stage = Stage.LOST
        self._out.append(ev.Sweep(attempt_id=known.attempt_id))

    def _on_swept(self, event: ev.Swept) -> None:
        known = self._known.get(event.attempt_id)
        if known is None or known.stage is not Stage.LOST or event.remaining:
            return
        state = known.lost_state()
        self._out.append(ev.RecordEnd(attempt_id=known.attempt_id, content=encode(state)))
        self._end(known, state)

    def _end(self, known: Known, state: SupervisorState) -> None:
        known.end(state)
        self._is_report_due = True
        self._notes.add(
            "info",
            "attempt_ended",
            {"attempt": known.attempt_id, "cause": state.report.end_cause, "detail": state.report.end_detail},
        )
        self._bring_in_line(known)

    def _on_tick(self) -> None:
        self._is_report_due = True
        for attempt_id in sorted(self._known):
            known = self._known[attempt_id]
            if known.stage is Stage.LOST:
                self._out.append(ev.Sweep(attempt_id=attempt_id))
            elif known.stage is Stage.FENCING and known.fence is not None:
                self._out.append(ev.Fence(attempt_id=attempt_id, content=encode(known.fence)))
            elif known.control is None and known.stage is Stage.WATCHED and self._lease.ttl_s > 0:
                self._bring_in_line(known)

    def _report_if_due(self) -> None:
        if self._is_report_due and self._reporter.is_ready:
            self._is_report_due = False
            self._out.append(self._reporter.report(self._stamp, self._known))
            self._is_persist_due |= self._reporter.needs_ceiling

    def _durable(self, pending: _Pending | None) -> bytes:
        stamp = pending.stamp if pending else self._stamp
        attempts = {attempt_id: known.identity for attempt_id, known in sorted(self._known.items())}
        for attempt_id in pending.claims if pending else ():
            attempts.setdefault(attempt_id, None)
        return encode(
            Durable(
                epoch=stamp.epoch,
                generation=stamp.generation,
                sequence=stamp.sequence,
                report_ceiling=self._reporter.ceiling(),
                attempts=attempts,
            )
        )

    def _persist_if_due(self, *, after_failure: bool) -> None:
        if not self._is_persist_due or after_failure or self._pending is not None:
            return
        self._is_persist_due = False
        self._out.append(ev.Persist(stamp=self._stamp, content=self._durable(None)))

    def _reject(self, reason: str, detail: str) -> None:
        self.rejected[reason] += 1
        # A message that came twice or late is daily life; the other reasons are not.
        level: ev.Level = "debug" if reason == "stale" else "warning"
        self._notes.add_seldom(
            level,
            "desired_rejected",
            {"reason": reason, "detail": detail[:200], "count": self.rejected[reason]},
            kind=reason,
        )


def _failed(known: Known, detail: str) -> SupervisorState:
    return ended_unsupervised(attempt_id=known.attempt_id, cause="launch_failed", detail=detail)
