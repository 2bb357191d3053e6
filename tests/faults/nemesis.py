"""What goes wrong, when, and for how long. Every fault has an end; the heal phase ends those that are left."""

import signal
from collections.abc import Callable
from random import Random

from tests.faults.control import Control
from tests.faults.machine import Machine
from tests.faults.network import Network
from tests.faults.virtual import Trace, VirtualTime

YEAR_S = 365 * 86_400.0
TTL_S = 30.0
# Of the strikes that leave nothing running; more of them, and nothing would live long enough to be hurt by another.
HEAVY_FRAC = 0.3
ADMIN_EVERY_S = 60.0  # longer than a lease and its grace: a server that is not heard is given up first


# Each is a method of the nemesis; those of statements strike in the middle of transactions.
KINDS = (
    "kill_agent",
    "pause_agent",
    "kill_supervisor",
    "kill_trainer",
    "reboot",
    "disk_full",
    "wall_jump",
    "cut",
    "broker_down",
    "broker_flush",
    "restart_scheduler",
    "pause_scheduler",
    "crash_before_send",
    "second_scheduler",
    "process_goes_at_statement",
    "statement_fails",
    "database_goes_at_statement",
    "broker_goes_at_statement",
)


def nemesis_rng(seed: int) -> Random:
    """Return the generator that all strikes of a run follow from."""
    return Random(f"{seed}-nemesis")


def kinds_drawn(rng: Random) -> list[str]:
    """Return the kinds of faults of one run, drawn first.

    Each run strikes with some kinds only, more or less often, as some faults hide others: a scheduler that is killed
    often, for one, never waits long enough to give a server up.
    """
    return rng.sample(KINDS, k=rng.randrange(2, 8))


class Nemesis:
    """One malicious hand over a run."""

    def __init__(
        self,
        *,
        time: VirtualTime,
        rng: Random,
        trace: Trace,
        control: Control,
        machines: list[Machine],
        network: Network,
    ) -> None:
        self._time, self._rng, self._trace = time, rng, trace
        self._control, self._machines, self._network = control, machines, network
        self._is_over = False
        self._strikes: list[Callable[[], None]] = [getattr(self, kind) for kind in kinds_drawn(rng)]
        self._every_s = self._rng.choice([3.0, 5.0, 8.0])
        self._message_fault_frac = self._rng.choice([0.1, 0.3, 0.6])

    def also(self, *strikes: Callable[[], None]) -> None:
        """Strike in these ways as well."""
        self._strikes += strikes

    def start(self) -> None:
        """Begin to strike."""
        self._network.fault_frac = self._message_fault_frac
        self._again()
        self._admin_looks()

    def heal(self) -> None:
        """End every fault."""
        self._is_over = True
        self._network.fault_frac = 0.0
        self._network.is_down = False
        self._network.cut.clear()
        self._control.heal()
        for machine in self._machines:
            machine.heal()
        self._time.after(1.0, self._restart_overtaken)  # what was forged has arrived by then
        self._trace.add("HEALED")

    def _again(self) -> None:
        if self._is_over:
            return
        self._rng.choice(self._strikes)()
        self._time.after(self._every_s * (0.5 + self._rng.random()), self._again)

    def _admin_looks(self) -> None:
        """Let an admin start agents anew that are not heard, now and then."""
        if not self._is_over:
            self._restart_overtaken()
            self._time.after(ADMIN_EVERY_S, self._admin_looks)

    def _restart_overtaken(self) -> None:
        for machine in self._machines:
            if machine.server_id in self._network.overtaken and machine.agent is not None:
                machine.kill_agent()
                machine.start_agent()
        self._network.overtaken.clear()

    def _for_a_while(self, most_s: float, end: Callable[[], None]) -> float:
        seconds = 1.0 + most_s * self._rng.random()
        self._time.after(seconds, lambda: None if self._is_over else end())
        return seconds

    def _machine(self) -> Machine:
        return self._rng.choice(self._machines)

    def kill_agent(self) -> None:
        """KILL an agent; it is started again after a while."""
        machine = self._machine()
        if machine.agent is None:
            return
        self._trace.fault("kill_agent", machine.name)
        machine.kill_agent()
        self._for_a_while(20.0, machine.start_agent)

    def pause_agent(self) -> None:
        """STOP an agent for up to three leases."""
        machine = self._machine()
        seconds = 1.0 + 3 * TTL_S * self._rng.random()
        self._trace.fault("pause_agent", machine.name, round(seconds))
        machine.pause_agent(seconds)

    def kill_supervisor(self) -> None:
        """KILL a supervisor."""
        at_work = [(machine, pid) for machine in self._machines for pid in sorted(machine.supervisors)]
        if at_work:
            machine, pid = self._rng.choice(at_work)
            self._trace.fault("kill_supervisor", machine.name, machine.supervisors[pid].attempt_id[-4:])
            machine.kill_supervisor(pid)

    def kill_trainer(self) -> None:
        """KILL a training process."""
        trainers = [
            (supervisor.attempt_id, supervisor.trainer)
            for machine in self._machines
            for _, supervisor in sorted(machine.supervisors.items())
            if supervisor.trainer is not None
        ]
        if trainers:
            attempt_id, trainer = self._rng.choice(trainers)
            self._trace.fault("kill_trainer", attempt_id[-4:])
            trainer.signal(signal.SIGKILL)

    def reboot(self) -> None:
        """Cut the power; it comes back after a moment or after more than a lease."""
        machine = self._machine()
        if self._rng.random() >= HEAVY_FRAC:
            return
        self._trace.fault("reboot", machine.name)
        machine.power_off()
        self._time.after(3.0 + 90.0 * self._rng.random() ** 3, machine.power_on)

    def disk_full(self) -> None:
        """Fill the disk of a server."""
        machine = self._machine()
        self._trace.fault("disk_full", machine.name)
        machine.is_disk_full = True
        self._for_a_while(40.0, lambda: setattr(machine, "is_disk_full", False))

    def wall_jump(self) -> None:
        """Set a wall clock wrong, by minutes, an hour or ten years."""
        clocks = [machine.clock for machine in self._machines] + [self._control.first.clock]
        clock = self._rng.choice(clocks)
        offset_s = self._rng.choice([60.0, 240.0, 660.0, 3600.0, 10 * YEAR_S]) * self._rng.choice([1, -1])
        self._trace.fault("wall_jump", clocks.index(clock), offset_s)
        clock.wall_offset_s = offset_s
        self._for_a_while(60.0, lambda: setattr(clock, "wall_offset_s", 0.0))

    def cut(self) -> None:
        """Cut the wire of a server, both ways or one way."""
        machine = self._machine()
        ways = self._rng.choice([("up",), ("down",), ("up", "down")])
        cut = {(machine.server_id, way) for way in ways}
        self._trace.fault("cut", machine.name, *ways)
        self._network.cut |= cut
        self._for_a_while(90.0, lambda: self._network.cut.difference_update(cut))

    def broker_down(self) -> None:
        """Take the broker away."""
        self._trace.fault("broker_down")
        self._network.is_down = True
        self._for_a_while(30.0, lambda: setattr(self._network, "is_down", False))

    def broker_flush(self) -> None:
        """Lose all that waits in the broker."""
        self._trace.fault("broker_flush")
        self._network.flush()

    def restart_scheduler(self) -> None:
        """KILL the scheduler; a new one knows nothing but the database."""
        if self._rng.random() >= HEAVY_FRAC:
            return
        self._trace.fault("restart_scheduler")
        self._control.first.stop()
        self._time.after(1.0 + 30.0 * self._rng.random() ** 2, self._control.first.start)

    def pause_scheduler(self) -> None:
        """STOP the scheduler for up to three leases."""
        seconds = 1.0 + 3 * TTL_S * self._rng.random() ** 2
        self._trace.fault("pause_scheduler", round(seconds))
        self._control.first.paused_until_s = self._time.now_s + seconds

    def crash_before_send(self) -> None:
        """Let schedulers die between a commit and what it leaves to send."""
        self._trace.fault("crashes_before_send")
        self._control.crash_frac = 0.3
        self._for_a_while(15.0, lambda: setattr(self._control, "crash_frac", 0.0))

    def second_scheduler(self) -> None:
        """Start a second scheduler beside the first."""
        if self._control.second.engine is None:
            self._trace.fault("second_scheduler")
            self._control.second.start()
            self._for_a_while(90.0, self._control.second.stop)

    def process_goes_at_statement(self) -> None:
        """Kill schedulers and web processes at some statement, in the middle of their transactions or right after."""
        self._storm("process_goes_at_statement", self._control.statements.process_goes)

    def statement_fails(self) -> None:
        """Let the database refuse single statements."""
        self._storm("statement_fails", self._control.statements.statement_fails)

    def database_goes_at_statement(self) -> None:
        """Restart the database in the middle of transactions."""
        self._storm("database_goes_at_statement", self._control.statements.database_goes)

    def broker_goes_at_statement(self) -> None:
        """Restart the broker, empty, in the middle of transactions."""

        def strike() -> None:
            self._network.flush()
            self._network.is_down = True
            self._for_a_while(5.0, lambda: setattr(self._network, "is_down", False))

        self._storm("broker_goes_at_statement", strike)

    def _storm(self, kind: str, strike: Callable[[], None]) -> None:
        self._control.statements.storm(kind, strike)
        self._for_a_while(15.0, self._control.statements.calm)
