"""What the agent knows of one attempt, and its stages. Pure.

Stages: claimed -> spawning -> watched -> ended. After ``watched``, ``lost`` means that the supervisor died: its
processes are killed before the attempt counts as ended. ``fencing`` means that the attempt must not start any more.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from agents.core.events import AttemptOnDisk
from agents.core.records import Control, Launch, SupervisorState, ended_unsupervised
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.errors import Malformed
from agents.protocol.ports import ProcessIdentity
from agents.protocol.server_report import AttemptPhase, AttemptReport

# Grace of an attempt whose order cannot be read any more; each order carries its own.
UNKNOWN_ORDER_GRACE_S = 10.0


class Stage(StrEnum):
    """How far the agent has come with an attempt."""

    CLAIMED = "claimed"  # remembered on disk; its launch file is being made
    SPAWNING = "spawning"  # launch file made; its supervisor is being started
    FENCING = "fencing"  # it must not start any more; the mark that says so is being made
    WATCHED = "watched"  # a supervisor runs, or may run: each look at it decides
    LOST = "lost"  # its supervisor is dead; what it left behind is being killed
    ENDED = "ended"  # nothing of it runs and nothing ever will


@dataclass(slots=True)
class Known:
    """One attempt as the agent knows it.

    Attributes:
        attempt_id: ULID.
        stage: See ``Stage``.
        launch: As written; None when the file is gone.
        identity: Of the supervisor; None before it is known.
        state: Newest state seen of its supervisor.
        control: Newest control that is on disk for sure; None to write it again.
        wanted: Of the newest accepted desired state; None when that does not name the attempt.
        is_named: Whether the newest accepted desired state names it; True before there is one.
        fence: While fencing, the state that ends it.
    """

    attempt_id: str
    stage: Stage
    launch: Launch | None = None
    identity: ProcessIdentity | None = None
    state: SupervisorState | None = None
    control: Control | None = None
    wanted: AttemptWanted | None = None
    is_named: bool = True
    fence: SupervisorState | None = None

    @property
    def report(self) -> AttemptReport:
        """Return the report for the scheduler."""
        if self.state is None:
            return AttemptReport(attempt_id=self.attempt_id, phase="starting")
        if self.state.report.phase == "ended" and self.stage is not Stage.ENDED:
            # Reported as ended only when the supervisor process itself is gone.
            return replace(self.state.report, phase="stopping")
        return self.state.report

    @property
    def phase(self) -> AttemptPhase:
        """Return its phase as reported."""
        return self.report.phase

    @property
    def changes_place(self) -> bool:
        """Return whether it is leaving its devices, or returning to them."""
        wanted = self.wanted.wanted if self.wanted is not None else ""
        return (wanted, self.phase) in (("park", "running"), ("run", "parked"))

    @property
    def gpu_indexes(self) -> tuple[int, ...]:
        """Return the devices it may use; empty when not known or given back."""
        if self.stage is Stage.ENDED or self.launch is None:
            return ()
        return self.wanted.gpu_indexes if self.wanted is not None else self.launch.order.gpu_indexes

    @property
    def grace_s(self) -> float:
        """Return its grace, from the newest source there is, seconds."""
        if self.wanted is not None:
            return self.wanted.grace_s
        return self.launch.order.grace_s if self.launch is not None else UNKNOWN_ORDER_GRACE_S

    def end(self, state: SupervisorState) -> None:
        """Mark it as ended, for good."""
        self.stage = Stage.ENDED
        self.state = state

    def lost_state(self, *, boot_id: str) -> SupervisorState:
        """Return how an attempt is reported whose supervisor died under it; ``boot_id`` is the present one."""
        if self.state is None:
            return ended_unsupervised(
                attempt_id=self.attempt_id,
                cause="launch_failed",
                detail="The supervisor ended before it could start the job.",
            )
        is_rebooted = self.identity is not None and self.identity.boot_id != boot_id
        report = replace(
            self.state.report,
            phase="ended",
            end_cause="supervisor_lost",
            end_detail=(
                "The server was started anew." if is_rebooted else "The supervisor was killed, and its job with it."
            ),
            cpu_frac=None,
            memory_bytes=None,
        )
        return replace(self.state, report=report)


def known_from_disk(found: AttemptOnDisk, launch: Launch | None, identity: ProcessIdentity | None) -> Known:
    """Return what is known of an attempt that an earlier run of the agent has left."""
    state = SupervisorState.parse(found.state)
    if state is not None and state.report.attempt_id != found.attempt_id:
        state = None
    return Known(
        attempt_id=found.attempt_id,
        stage=Stage.WATCHED,
        launch=launch,
        identity=identity,
        state=state,
        control=Control.parse(found.control) or (launch.control if launch and found.control is None else None),
    )


def launch_on_disk(found: AttemptOnDisk) -> Launch | None:
    """Return the launch as it was written; None when it is gone or cannot be read."""
    try:
        return Launch.parse(found.launch) if found.launch is not None else None
    except Malformed:
        return None


def has_ended(found: AttemptOnDisk) -> bool:
    """Return whether its last state on disk is an end."""
    state = SupervisorState.parse(found.state)
    return state is not None and state.report.phase == "ended"
