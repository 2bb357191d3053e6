"""The state machine of an agent: ``AgentCore.handle(event) -> list[Command]``. Pure.

Decides which desired state is accepted and which attempts are launched, ended, reported and forgotten. It never
launches an attempt twice: the claim and the stamp of the desired state are on disk before the launch file is made,
that is made with exclusive create before the supervisor is started, and a claimed attempt is never started again.
"""

from collections import Counter
from dataclasses import dataclass

from agents.core import events as ev
from agents.core.attempt_book import AttemptBook
from agents.core.known import has_ended, known_from_disk, launch_on_disk
from agents.core.lease import LeaseBook
from agents.core.outbox import Outbox
from agents.core.records import Durable, encode
from agents.core.reporter import Reporter, ServerProfile
from agents.protocol.desired_state import DesiredState
from agents.protocol.environments import EnvironmentWanted
from agents.protocol.errors import Malformed, ProtocolError
from agents.protocol.ports import Clock
from agents.protocol.signing import Stamp, unseal


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
        book: The attempts; the executor asks it which supervisors to watch.
    """

    def __init__(self, profile: ServerProfile, clock: Clock) -> None:
        self.rejected: Counter[str] = Counter()
        self._profile = profile
        self._clock = clock
        self._pending: _Pending | None = None
        self._environments: tuple[EnvironmentWanted, ...] | None = None  # before it is heard what is wanted
        self._next: tuple[Stamp, DesiredState] | None = None  # the newest that came while another was on its way
        self._lease = LeaseBook()
        self._reporter = Reporter(profile, clock, self._lease)
        self._out = Outbox(clock)
        self.book = AttemptBook(profile, self._lease, self._out)

    @staticmethod
    def kept_attempts(durable: bytes | None) -> list[str] | None:
        """Return the attempts in the kept memory of an earlier run, or None when it cannot be read."""
        try:
            return None if durable is None else sorted(Durable.parse(durable).attempts)
        except Malformed:
            return None

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Handle one event and return the commands that follow, in order."""
        match event:
            case ev.Started():
                self._on_started(event)
            case ev.DesiredReceived():
                self._on_desired(event.message)
            case ev.Persisted():
                self._on_persisted(event)
            case ev.Sampled():
                self._reporter.sampled = event
            case ev.Prepared():
                self.book.is_report_due |= event.environments != self._reporter.environments
                self._reporter.environments = event.environments
            case _:
                self.book.is_report_due |= isinstance(event, ev.Tick)
                self.book.handle(event)
                if isinstance(event, ev.Tick):
                    self._request_environments()
        self._persist_if_due(after_failure=isinstance(event, ev.Persisted) and bool(event.problem))
        self._report_if_due()
        return self._out.take()

    def _on_started(self, event: ev.Started) -> None:
        durable = Durable()
        has_memory = event.durable is not None
        if event.durable is not None:
            try:
                durable = Durable.parse(event.durable)
            except Malformed as error:
                has_memory = False
                self._out.note("error", "agent_memory_unreadable", {"problem": str(error)})
        self.book.stamp = Stamp(epoch=durable.epoch, generation=durable.generation, sequence=durable.sequence)
        self._reporter.start(after=durable.report_ceiling)
        for found in event.attempts:
            launch = launch_on_disk(found)
            is_ours = launch is not None and launch.server_id == self._profile.server_id
            # Without its memory the agent knows its attempts by their launch files; ended ones are dropped.
            if found.attempt_id in durable.attempts or (not has_memory and is_ours and not has_ended(found)):
                identity = durable.attempts.get(found.attempt_id)
                self.book.known[found.attempt_id] = known_from_disk(found, launch, identity)
        self.book.is_persist_due = True
        self._out.note(
            "info", "agent_started", {"attempts": len(self.book.known), "generation": self.book.stamp.generation}
        )

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
        on_its_way = [self._pending.stamp] if self._pending else []
        waiting = [self._next[0]] if self._next else []
        newest = max([self.book.stamp, *on_its_way, *waiting])
        if envelope.stamp <= newest:
            self._reject("stale", f"{envelope.stamp} <= {newest}")
            return
        if not self._lease.acknowledge(desired.acknowledged_sequence, ttl_s=desired.lease_ttl_s):
            self._out.note("debug", "report_not_ours_acknowledged", {"sequence": desired.acknowledged_sequence})
        if self._pending is None:
            self._keep(envelope.stamp, desired)
        else:
            self._next = (envelope.stamp, desired)

    def _keep(self, stamp: Stamp, desired: DesiredState) -> None:
        self._pending = _Pending(stamp=stamp, desired=desired, claims=self._claims(desired))
        self._out.add(ev.Persist(stamp=stamp, content=self._durable(self._pending)))

    def _claims(self, desired: DesiredState) -> tuple[str, ...]:
        """Return the attempts to take on. Nothing is launched without a lease; its renewal names the attempt again."""
        has_lease = self._lease.until_s > self._clock.mono_s()
        claims = []
        for attempt in desired.attempts:
            if attempt.attempt_id in self.book.known:
                continue
            if attempt.wanted == "run" and not has_lease:
                self._out.note("info", "launch_waits_for_lease", {"attempt": attempt.attempt_id})
                self.book.is_report_due = True
                continue
            claims.append(attempt.attempt_id)
        return tuple(claims)

    def _on_persisted(self, event: ev.Persisted) -> None:
        pending = self._pending
        if event.problem:
            self._out.note_seldom("error", "agent_memory_not_written", {"problem": event.problem})
            # Not acted on, so not acknowledged: the scheduler sends it again.
            if pending is not None and event.stamp == pending.stamp:
                self._pending = None
            self.book.is_persist_due = True
        elif pending is not None and event.stamp == pending.stamp:
            self._pending = None
            self._accept(pending)
        if self._pending is None and self._next is not None:
            (stamp, desired), self._next = self._next, None
            self._keep(stamp, desired)

    def _accept(self, pending: _Pending) -> None:
        self.book.stamp = pending.stamp
        self._reporter.go_on(acknowledged=pending.desired.acknowledged_sequence)
        self.book.is_report_due = True
        self.book.align(pending.desired.attempts, claims=pending.claims)
        self._environments = pending.desired.environments
        self._request_environments()

    def _request_environments(self) -> None:
        """Have environments built and removed, once it is known which are wanted."""
        if self._environments is not None and self._profile.python:
            self._out.add(ev.Prepare(wanted=self._environments, in_use=self.book.environments))

    def _report_if_due(self) -> None:
        if self.book.is_report_due and self._reporter.is_ready:
            self.book.is_report_due = False
            self._out.add(self._reporter.report(self.book.stamp, self.book.known))
            self.book.is_persist_due |= self._reporter.needs_ceiling

    def _durable(self, pending: _Pending | None) -> bytes:
        stamp = pending.stamp if pending else self.book.stamp
        acknowledged = pending.desired.acknowledged_sequence if pending else 0
        attempts = {attempt_id: known.identity for attempt_id, known in sorted(self.book.known.items())}
        for attempt_id in pending.claims if pending else ():
            attempts.setdefault(attempt_id, None)
        return encode(
            Durable(
                epoch=stamp.epoch,
                generation=stamp.generation,
                sequence=stamp.sequence,
                report_ceiling=self._reporter.ceiling(acknowledged=acknowledged),
                attempts=attempts,
            )
        )

    def _persist_if_due(self, *, after_failure: bool) -> None:
        if not self.book.is_persist_due or after_failure or self._pending is not None:
            return
        self.book.is_persist_due = False
        self._out.add(ev.Persist(stamp=self.book.stamp, content=self._durable(None)))

    def _reject(self, reason: str, detail: str) -> None:
        self.rejected[reason] += 1
        # A message that came twice or late is normal; the other reasons are not.
        level: ev.Level = "debug" if reason == "stale" else "warning"
        self._out.note_seldom(
            level,
            "desired_rejected",
            {"reason": reason, "detail": detail[:200], "count": self.rejected[reason]},
            kind=reason,
        )
