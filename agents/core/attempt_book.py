"""The attempts of one server as its agent knows them: launched, watched, told to end, forgotten. Pure.

Decides what follows for one attempt from each outcome. ``agent_core.py`` decides which desired state is accepted and
when state is persisted or reported.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.core import events as ev
from agents.core.ending import ENDS
from agents.core.environment import venv_path
from agents.core.known import Known, Stage, known_from_disk, launch_on_disk
from agents.core.lease import LeaseBook, lease_margin_s
from agents.core.outbox import Outbox
from agents.core.records import Control, Launch, SupervisorState, encode, ended_unsupervised
from agents.core.reporter import ServerProfile
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.errors import ProtocolError
from agents.protocol.grant import Grant
from agents.protocol.job_secret import secrets_written
from agents.protocol.ports import ProcessIdentity
from agents.protocol.sealing import secrets_unseal
from agents.protocol.signing import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A supervisor to look at; ``identity`` is None when only its state file names it."""

    attempt_id: str
    identity: ProcessIdentity | None


class AttemptBook:
    """Every attempt that the agent has taken on and not yet forgotten.

    Attributes:
        known: By attempt id.
        stamp: Of the desired state that is acted on.
        newest_uid: User of the job that was launched last; None for our own.
        is_report_due: A change that the scheduler waits for is not reported yet.
        is_persist_due: A change that must survive a restart is not on disk yet.
    """

    def __init__(self, profile: ServerProfile, lease: LeaseBook, out: Outbox) -> None:
        self.known: dict[str, Known] = {}
        self.stamp = Stamp(epoch=0, generation=0, sequence=0)
        self.newest_uid: int | None = None
        self.is_report_due = False
        self.is_persist_due = False
        self._profile = profile
        self._lease = lease
        self._out = out

    def watched(self) -> list[Watch]:
        """Return the supervisors to look at, by attempt id."""
        return [
            Watch(attempt_id=known.attempt_id, identity=known.identity)
            for _, known in sorted(self.known.items())
            if known.stage is Stage.WATCHED
        ]

    @property
    def live(self) -> set[str]:
        """Return the attempts of which something runs, or may."""
        return {attempt_id for attempt_id, known in self.known.items() if known.stage is not Stage.ENDED}

    @property
    def live_jobs(self) -> set[str]:
        """Return the jobs of which something runs here, or may."""
        orders = [known.wanted or (known.launch.order if known.launch else None) for known in self.known.values()]
        return {order.job_id for order in orders if order is not None}

    @property
    def is_in_transition(self) -> bool:
        """Return whether an attempt is about to change, so that looking often pays."""
        return any(known.phase in ("starting", "stopping") or known.changes_place for known in self.known.values())

    @property
    def environments(self) -> frozenset[str]:
        """Return the digests of the environments that attempts run in, or may."""
        orders = [
            known.launch.order for known in self.known.values() if known.launch and known.stage is not Stage.ENDED
        ]
        return frozenset(order.environment for order in orders if order.environment)

    def slot_usage(self) -> dict[int, float]:
        """Return utilization by device index, as the supervisors measure it: fraction of the granted cores.

        Of jobs that share a device, all together count.
        """
        used: dict[int, float] = {}
        for _, known in sorted(self.known.items()):
            for index in known.gpu_indexes:
                used[index] = min(1.0, used.get(index, 0.0) + (known.report.cpu_frac or 0.0))
        return used

    def align(self, wanted: Iterable[AttemptWanted], *, claims: Iterable[str]) -> None:
        """Bring every attempt in line with a desired state; ``claims`` are those to take on."""
        named = {attempt.attempt_id: attempt for attempt in wanted}
        for known in self.known.values():
            known.wanted = named.get(known.attempt_id)
            known.is_named = known.wanted is not None
        for attempt_id in claims:
            self._take_on(named[attempt_id])
        for attempt_id in sorted(self.known):
            self._bring_in_line(self.known[attempt_id])

    def handle(self, event: ev.Event) -> None:
        """Handle the outcome of a command for one attempt, or a look at its supervisor."""
        match event:
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
            case ev.Tick():
                self._on_tick()

    def _take_on(self, wanted: AttemptWanted) -> None:
        known = Known(attempt_id=wanted.attempt_id, stage=Stage.CLAIMED, wanted=wanted)
        self.known[wanted.attempt_id] = known
        if wanted.wanted != "run":
            # Its launch was never heard of, and it is already to end: it must not start any more.
            self._fence(known, ENDS[wanted.wanted], "It was to end before it was launched.")
            return
        if self._profile.refusal:
            self._fence(known, "launch_failed", f"This server takes no jobs: {self._profile.refusal}.")
            return
        control = self._control(known)
        known.launch = Launch(
            server_id=self._profile.server_id,
            epoch=self.stamp.epoch,
            order=wanted,
            control=control,
            cpu_ids=self._cores(wanted.cpu_ids),
            visible_devices=wanted.gpu_uuids if self._profile.device_kind == "gpu" else (),
            journal_dir=self._profile.journal_dir,
            uid=self._uid(wanted.queue_id),
            address=self._profile.address,
            venv=wanted.venv or self._venv(wanted.environment),
        )
        known.control, self.newest_uid = control, known.launch.uid
        self._out.add(ev.CreateLaunch(attempt_id=known.attempt_id, content=encode(known.launch)))

    def _venv(self, digest: str) -> str:
        profile = self._profile
        return venv_path(profile.journal_dir, digest, profile.environment_tag) if digest else ""

    def _uid(self, queue_id: int) -> int | None:
        """Return the user of a queue's jobs: the same on every server, so that they can share a directory."""
        first_uid = self._profile.first_uid
        return None if first_uid is None else first_uid + queue_id

    def _cores(self, cpu_ids: tuple[int, ...]) -> tuple[int, ...]:
        cores = self._profile.cpu_ids
        return tuple(dict.fromkeys(cores[logical % len(cores)] for logical in cpu_ids)) if cores else ()

    def _grant(self, known: Known) -> Grant | None:
        """Return what an attempt may use: by the newest desired state that names it, else as before."""
        wanted = known.wanted
        if wanted is None:
            return known.control.grant if known.control is not None else None
        cores = self._cores(wanted.cpu_ids)
        idle: tuple[int, ...] = ()
        if wanted.measure_above is not None and cores:
            busy = {core for other in self.known.values() if other is not known for core in _cores_of(other)}
            idle = tuple(core for core in self._profile.cpu_ids if core not in cores and core not in busy)
        return Grant(
            num_cpus=max(1, len(wanted.cpu_ids)),
            memory_bytes=wanted.memory_bytes,
            cores=cores,
            idle_cores=idle,
            measure_above=wanted.measure_above,
        )

    def _control(self, known: Known) -> Control:
        until_s = self._lease.until_s
        if not known.is_named and known.control is not None:
            until_s = known.control.lease_until_s  # an attempt that is not named gets no more time
        elif known.control is not None:
            until_s = max(until_s, known.control.lease_until_s)
        order = known.wanted or (known.launch.order if known.launch is not None else None)
        gang = order.gang if order is not None else None
        return Control(
            wanted=known.wanted.wanted if known.wanted is not None else "run" if known.is_named else "cancel",
            generation=self.stamp.generation,
            grace_s=known.grace_s,
            lease_until_s=until_s,
            lease_margin_s=lease_margin_s(self._lease.ttl_s),
            grant=self._grant(known),
            gang_version=gang.version if gang is not None else 0,
            members=gang.members if gang is not None else (),
        )

    def _bring_in_line(self, known: Known) -> None:
        """Tell the supervisor what is wanted now, or forget an ended attempt that is not named any more."""
        if known.stage is Stage.ENDED:
            if not known.is_named:
                del self.known[known.attempt_id]
                self.is_persist_due = True
                self._out.add(ev.Forget(attempt_id=known.attempt_id))
            return
        if known.stage is not Stage.WATCHED:
            return
        control = self._control(known)
        if control != known.control:
            known.control = control
            self._out.add(
                ev.WriteControl(
                    attempt_id=known.attempt_id, content=encode(control), supervisor=self._supervisor(known)
                )
            )

    @staticmethod
    def _supervisor(known: Known) -> ProcessIdentity | None:
        return known.identity or (known.state.supervisor if known.state is not None else None)

    def _on_launch_created(self, event: ev.LaunchCreated) -> None:
        known = self.known.get(event.attempt_id)
        if known is None or known.stage is not Stage.CLAIMED:
            return
        if event.outcome == "created":
            known.stage = Stage.SPAWNING
            self._spawn(known)
        elif event.outcome == "taken" and event.on_disk is not None:
            self._adopt(known, event.on_disk)
        else:
            self._end(known, _failed(known, f"The launch could not be prepared: {event.problem}."))

    def _spawn(self, known: Known) -> None:
        """Start the supervisor; the secrets of the job are opened here and handed over without a file."""
        sealed, handed = known.launch.order.sealed if known.launch is not None else "", b""
        if sealed:
            try:
                secrets = secrets_unseal(
                    key=self._profile.key, server=self._profile.server_id, attempt_id=known.attempt_id, sealed=sealed
                )
            except ProtocolError as error:
                self._fence(known, "launch_failed", f"Its secrets could not be opened: {error}")
                return
            handed = secrets_written(secrets)
        self._out.add(ev.Spawn(attempt_id=known.attempt_id, handed=handed))

    def _adopt(self, known: Known, found: ev.AttemptOnDisk) -> None:
        """Adopt an attempt with a launch file: of this agent before it lost its memory, or of another server."""
        launch = launch_on_disk(found)
        if launch is None or launch.server_id != self._profile.server_id:
            self._end(known, _failed(known, "The attempt's directory belongs to another server."))
            return
        adopted = known_from_disk(found, launch, None)
        adopted.wanted, adopted.is_named = known.wanted, known.is_named
        self.known[known.attempt_id] = adopted
        self._out.note("warning", "attempt_known_from_disk", {"attempt": known.attempt_id})

    def _on_spawned(self, event: ev.Spawned) -> None:
        known = self.known.get(event.attempt_id)
        if known is None or known.stage is not Stage.SPAWNING:
            return
        known.stage = Stage.WATCHED
        if event.identity is None:
            self._fence(known, "launch_failed", f"The supervisor could not be started: {event.problem}.")
            return
        known.identity = event.identity
        self.is_persist_due = True
        self._bring_in_line(known)

    def _on_control_written(self, event: ev.ControlWritten) -> None:
        known = self.known.get(event.attempt_id)
        if known is not None and event.problem:
            known.control = None
            self._out.note_seldom(
                "error", "control_not_written", {"attempt": event.attempt_id, "problem": event.problem}
            )

    def _on_observed(self, event: ev.Observed) -> None:
        known = self.known.get(event.attempt_id)
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
        if state.note and (known.state is None or known.state.note != state.note):
            self._out.note("warning", "job_start", {"attempt": known.attempt_id, "problem": state.note})
        known.state = state
        after = known.report
        if known.identity is None and state.supervisor is not None:
            known.identity = state.supervisor
            self.is_persist_due = True
        if (before.phase, before.pid, before.checkpoint_name) != (after.phase, after.pid, after.checkpoint_name):
            self.is_report_due = True

    def _fence(self, known: Known, cause: str, detail: str) -> None:
        known.stage = Stage.FENCING
        known.fence = ended_unsupervised(attempt_id=known.attempt_id, cause=cause, detail=detail)
        self._out.add(ev.Fence(attempt_id=known.attempt_id, content=encode(known.fence)))

    def _on_fenced(self, event: ev.Fenced) -> None:
        known = self.known.get(event.attempt_id)
        if known is None or known.stage is not Stage.FENCING or known.fence is None:
            return
        if event.problem:
            self._out.note_seldom("error", "fence_not_written", {"attempt": event.attempt_id, "problem": event.problem})
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
        self._out.add(ev.Sweep(attempt_id=known.attempt_id))

    def _on_swept(self, event: ev.Swept) -> None:
        known = self.known.get(event.attempt_id)
        if known is None or known.stage is not Stage.LOST or event.remaining:
            return
        state = known.lost_state(boot_id=self._profile.boot_id)
        self._out.add(ev.RecordEnd(attempt_id=known.attempt_id, content=encode(state)))
        self._end(known, state)

    def _end(self, known: Known, state: SupervisorState) -> None:
        known.end(state)
        self.is_report_due = True
        self._out.note(
            "info",
            "attempt_ended",
            {"attempt": known.attempt_id, "cause": state.report.end_cause, "detail": state.report.end_detail},
        )
        self._bring_in_line(known)

    def _on_tick(self) -> None:
        for attempt_id in sorted(self.known):
            known = self.known[attempt_id]
            if known.stage is Stage.LOST:
                self._out.add(ev.Sweep(attempt_id=attempt_id))
            elif known.stage is Stage.FENCING and known.fence is not None:
                self._out.add(ev.Fence(attempt_id=attempt_id, content=encode(known.fence)))
            elif known.control is None and known.stage is Stage.WATCHED and self._lease.ttl_s > 0:
                self._bring_in_line(known)


def _cores_of(known: Known) -> tuple[int, ...]:
    """Return the cores of the machine that an attempt may still run on."""
    if known.stage is Stage.ENDED:
        return ()
    if known.control is not None and known.control.grant is not None:
        return known.control.grant.cores
    return known.launch.cpu_ids if known.launch is not None else ()


def _failed(known: Known, detail: str) -> SupervisorState:
    return ended_unsupervised(attempt_id=known.attempt_id, cause="launch_failed", detail=detail)
