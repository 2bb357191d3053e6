"""One run of the whole system under faults: set up, strike, heal, drain, check. All of it follows from the seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import pytest
from django.db import connection, transaction

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.live.rounds import run_round as engine
from scheduler.models import Cluster
from scheduler.models.server import ServerState
from scheduler.notify import use_bell
from scheduler.services.cluster.settings import cluster_row
from tests.faults.checkers import Checkers
from tests.faults.control import Control
from tests.faults.machine import Machine
from tests.faults.nemesis import Nemesis, nemesis_rng
from tests.faults.network import Network
from tests.faults.statements import as_outermost
from tests.faults.training import JobMarks, SharedFiles
from tests.faults.virtual import Trace, Violation, VirtualTime
from tests.faults.witness import Witness
from tests.faults.workload import Workload
from tests.support.rows import factories

SLOTS = (2, 3, 2)
STRIKE_S = 200.0
ACT_EVERY_S = 5.0  # mean time between two acts of the users
DRAIN_S = 900.0
SETTLED_S = 30.0
QUANTUM_S = 8.0
# Rounds in which the world moves on between the plan and its application.
GAP_FRAC = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run was."""

    seed: int
    digest: str
    faults: dict[str, int]
    jobs: int
    starts: int
    virtual_s: float

    @property
    def num_faults(self) -> int:
        """Return how many faults fired."""
        return sum(self.faults.values())


class FaultRun:
    """One run."""

    drain_s = DRAIN_S

    def __init__(
        self, seed: int, *, strike_s: float = STRIKE_S, takes_turns: bool = False, names_secrets: bool = False
    ) -> None:
        """Set the world up.

        Args:
            seed: Everything follows from it.
            strike_s: How long faults fire, seconds of virtual time.
            takes_turns: Whether jobs are parked for others.
            names_secrets: Whether jobs name a secret, and agents are killed while they hand it over.
        """
        self.seed, self.strike_s = seed, strike_s
        self.takes_turns, self.names_secrets = takes_turns, names_secrets
        # One generator for each part, so that a change in one does not reshuffle the others.
        parts = ("time", "network", "control", "users", "gap")
        self._rngs = {name: Random(f"{seed}-{name}") for name in parts}
        self.time = VirtualTime(self._rngs["time"])
        self.trace = Trace(self.time)
        self.network = Network(time=self.time, rng=self._rngs["network"], trace=self.trace)
        self.witness = Witness(self.trace)
        self.control = Control(time=self.time, network=self.network, rng=self._rngs["control"], trace=self.trace)
        shared: SharedFiles = {}
        marks: JobMarks = {}
        cluster_row()
        if takes_turns:
            turns = {"slicing": {"quantum_s": QUANTUM_S}}
            Cluster.objects.update(introspection=["slicing"], introspection_options=turns)
        self.machines = [self._machine(number, slots, shared, marks) for number, slots in enumerate(SLOTS, start=1)]
        for machine in self.machines if takes_turns else ():
            machine.device_kind = "gpu"  # a parked job goes on with the very devices that it had
        for machine in self.machines if names_secrets else ():
            machine.killed_handing_frac = 0.5
        self.users = Workload(
            control=self.control,
            rng=self._rngs["users"],
            trace=self.trace,
            takes_turns=takes_turns,
            names_secrets=names_secrets,
        )
        self.nemesis = Nemesis(
            time=self.time,
            rng=nemesis_rng(seed),
            trace=self.trace,
            control=self.control,
            machines=self.machines,
            network=self.network,
        )
        self.checkers = Checkers(machines=self.machines, witness=self.witness)
        self.control.check = self.control.statements.aside(self.look)
        self.control.on_planned = self._world_moves_on
        self._is_between = False

    def _machine(self, number: int, slots: int, shared: SharedFiles, marks: JobMarks) -> Machine:
        server = factories.server_make(
            f"server-{number}",
            gpus=0,
            state=ServerState.JOINING,
            id=f"s{number:011d}",
            number=number,
            key_hex=f"{number:064x}",
            num_cpus=0,
            memory_bytes=0,
        )
        machine = Machine(
            name=server.name,
            server_id=server.pk,
            key=bytes.fromhex(server.key_hex),
            slots=slots,
            time=self.time,
            network=self.network,
            shared=shared,
            marks=marks,
            witness=self.witness,
            trace=self.trace,
            rng=Random(f"{self.seed}-machine-{number}"),
        )
        self.network.on_desired[server.pk] = machine.message_arrived
        self.network.keys[server.pk] = bytes.fromhex(server.key_hex)
        return machine

    def _world_moves_on(self) -> None:
        """Let something happen between a plan and its application, now and then."""
        rng = self._rngs["gap"]
        if self._is_between or self.time.now_s >= self.strike_s or rng.random() >= GAP_FRAC:
            return
        self._is_between = True
        self.trace.fault("change_after_plan")
        other = self.control.other()
        if other is not None and rng.random() < 0.7:
            if rng.random() < 0.5:
                other.take()
            else:
                other.round("race")
        else:
            self.users.act()
        self._is_between = False

    @property
    def words(self) -> str:
        """Return the words by which ``replay.py`` sets the same world up."""
        return f"{' turns' if self.takes_turns else ''}{' secrets' if self.names_secrets else ''}"

    def look(self) -> None:
        """Check what holds after every step of a scheduler or a user."""
        self.checkers.always()

    def look_at_end(self) -> None:
        """Check what holds when all jobs have ended."""
        self.checkers.finished(self.users.acknowledged)

    def run(self) -> Outcome:
        """Run to the end. Raises Violation, with the way to repeat it."""
        try:
            with _gap_opened(self.control):
                self._run()
        except Exception as error:
            lines = "\n".join(self.trace.lines[-60:])
            error.add_note(
                f"{lines}\nRepeat with: .venv/bin/python -m tests.faults.replay {self.seed} {self.strike_s:g}"
                f"{self.words}"
            )
            raise
        return Outcome(
            seed=self.seed,
            digest=self.trace.digest(),
            faults=dict(sorted(self.trace.faults.items())),
            jobs=len(self.users.acknowledged),
            starts=self.witness.starts,
            virtual_s=self.time.now_s,
        )

    def _begin(self) -> None:
        """Start scheduler and agents."""
        self.control.start()
        for machine in self.machines:
            machine.start_agent()
        self.time.run_until(5.0)

    def _run(self) -> None:
        self._begin()
        for _ in range(6):
            self.users.submit_one()
        self.nemesis.start()
        while self.time.now_s < self.strike_s:
            self.users.act()
            self.time.run_until(self.time.now_s + 2 * ACT_EVERY_S * self._rngs["users"].random())
        self.nemesis.heal()
        healed_s = self.time.now_s
        while self.time.now_s < healed_s + self.drain_s:
            self.users.finish()
            self.time.run_until(self.time.now_s + 10.0)
            if self.time.now_s - healed_s >= SETTLED_S:
                self.checkers.settled()
            if not self.users.unfinished():
                break
        else:
            raise Violation("J1", f"does not drain: {self.users.unfinished()}")
        self.time.run_until(self.time.now_s + 20.0)
        self.look()
        self.look_at_end()


@contextmanager
def clean_database() -> Iterator[None]:
    """Undo at the end whatever the block wrote, so that one test can hold several runs."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def _gap_opened(control: Control) -> Iterator[None]:
    """Open the gap between a plan and its application: the one place where a scheduler holds what may be outdated."""

    def plan_and_wait(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
        plan = plan_round(snapshot, config)
        control.on_planned()
        return plan

    use_bell(control.bell)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "plan_round", plan_and_wait)
        patch.setattr(connection, "is_usable", lambda: control.statements.is_usable)
        as_outermost(patch)
        try:
            yield
        finally:
            use_bell(None)
