"""Whatever goes wrong in whatever order: nothing starts twice, nothing runs out of its lease, and all is well after
healing.

The real life cycle and the real supervision on a virtual clock; the faults are drawn by Hypothesis, which also shrinks
them.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.core.events import Tick
from agents.protocol.desired_state import Wanted
from tests.support.agents.fake_job import Job
from tests.support.agents.fakes import STEP_S, Crash, FakeHost
from tests.support.agents.server import wanted
from tests.support.suite.examples import tried

TTL_S = 8.0
# What a process manager takes to start the agent again.
RESTARTED_AFTER_S = 1.0
WISHES: tuple[Wanted, ...] = ("preempt", "suspend", "cancel")


@dataclass
class World:
    """A host, a scheduler's memory, and messages that are still under way."""

    host: FakeHost = field(default_factory=lambda: FakeHost(lease_ttl_s=TTL_S))
    is_agent_up: bool = False
    down_s: float = 0.0
    is_memory_lost: bool = False
    is_ahead: bool = False  # whether it may have sent numbers above what its clock says
    under_way: list[str] = field(default_factory=list)
    granted_until_s: float = 0.0

    def agent(self, act: Callable[[], None]) -> None:
        """Let the agent do something; it may be killed meanwhile."""
        if not self.is_agent_up:
            return
        try:
            act()
        except Crash:
            self.is_agent_up = False

    def start(self) -> None:
        """Start the agent unless it runs."""
        if not self.is_agent_up:
            self.is_agent_up = True
            self.down_s = 0.0
            self.agent(self.host.start)

    def send(self, message: str) -> None:
        """Put a message on its way. The scheduler acknowledges its newest report in it, so a lease may be granted."""
        newest = self.host.newest_report
        self.granted_until_s = max(self.granted_until_s, self.host.sent_at_s.get(newest, -1e9) + TTL_S)
        self.under_way.append(message)

    def run(self, seconds: float) -> None:
        """Let time go by, checking at every step."""
        for _ in range(round(seconds / STEP_S)):
            if self.is_agent_up:
                self.agent(lambda: self.host.run(STEP_S))
            else:
                self.host.run(STEP_S, with_agent=False)
                self.down_s += STEP_S
                if self.down_s > RESTARTED_AFTER_S:
                    self.start()
            self.tick()
            self.check()

    def tick(self) -> None:
        """Let the agent's second pass now and then."""
        if round(self.host.clock.mono_s() / STEP_S) % 10 == 0:
            self.agent(lambda: self.host.tell(Tick()))

    def check(self) -> None:
        """Hold what must hold at every moment."""
        host = self.host
        assert len(host.starts) == len(set(host.starts)), "an attempt was started twice"
        now_s = host.clock.mono_s()
        for supervisor in host.processes.supervisors.values():
            job = supervisor.job
            if job is not None and job.exit is None and not job.is_stopped:
                assert now_s <= self.granted_until_s + 2 * STEP_S, "a job runs out of its lease"

    def running(self) -> set[str]:
        """Return the attempts whose job is alive."""
        supervisors = self.host.processes.supervisors.values()
        return {one.attempt_id for one in supervisors if one.job is not None and one.job.exit is None}


# What becomes of a message at once; whatever is left under way may still arrive later, in any order.
FATES = st.sampled_from(["arrives", "arrives", "arrives", "arrives twice", "stays under way", "is lost"])
CHANGES = st.one_of(
    st.tuples(st.just("launch"), FATES, st.booleans(), st.sampled_from([2.0, 100.0])),
    st.tuples(st.just("launch"), FATES, st.booleans(), st.sampled_from([2.0, 100.0])),
    st.tuples(st.just("stop"), FATES, st.integers(0, 3), st.sampled_from(WISHES)),
    st.tuples(st.just("omit"), FATES, st.integers(0, 3)),
    st.tuples(st.just("renew"), FATES),
)
FAULTS = st.one_of(
    st.tuples(st.just("late"), st.integers(0, 5)),
    st.tuples(st.just("crash"), st.integers(0, 6)),
    st.tuples(st.just("kill supervisor"), st.integers(0, 3)),
    st.tuples(st.just("full disk"), st.sampled_from([0.0, 0.5])),
    st.tuples(st.just("slow disk"), st.booleans()),
    st.tuples(st.just("no process"), st.sampled_from([0.0, 0.5])),
    st.tuples(st.just("clock"), st.sampled_from([-3600.0, 3600.0])),
    st.tuples(st.just("memory lost")),
)
WAITS = st.tuples(st.just("wait"), st.sampled_from([0.1, 0.5, 2.0, 2.0, 9.0]))
# Several changes, then perhaps a fault, then time passes: so each meets a system in which something goes on.
ACTS = st.tuples(st.lists(CHANGES, min_size=1, max_size=2), st.lists(FAULTS, max_size=1), WAITS).map(
    lambda parts: [*parts[0], *parts[1], parts[2]]
)


def send(world: World, message: str, fate: object) -> None:
    """Send a message to its fate."""
    world.send(message)
    if fate in ("arrives", "arrives twice"):
        world.agent(lambda: world.host.deliver(message))
    if fate in ("arrives", "is lost"):
        world.under_way.remove(message)


def change(world: World, what: tuple[object, ...]) -> None:
    """Let the scheduler want something else."""
    host = world.host
    orders = sorted(host.orders.values(), key=lambda order: order.attempt_id)
    match what:
        case ("launch", fate, bool(uses_runtime), float(run_s)):
            order = wanted(("train",), grace_s=1.0)
            host.jobs[order.attempt_id] = Job(uses_runtime=uses_runtime, run_s=run_s)
            send(world, host.want(*orders, order), fate)
        case ("stop", fate, int(index), str(wish)) if orders:
            one = orders[index % len(orders)]
            changed = [replace(order, wanted=wish) if order is one else order for order in orders]  # type: ignore[arg-type]
            send(world, host.want(*changed), fate)
        case ("omit", fate, int(index)) if orders:
            send(world, host.want(*(order for order in orders if order is not orders[index % len(orders)])), fate)
        case ("renew", fate):
            send(world, host.message(), fate)


def harm(world: World, what: tuple[object, ...]) -> None:
    """Let a fault strike."""
    host = world.host
    match what:
        case ("late", int(index)) if world.under_way:
            world.agent(lambda: host.deliver(world.under_way[index % len(world.under_way)]))
        case ("crash", int(after)):
            host.files.crash_after = after
        case ("kill supervisor", int(index)) if host.processes.supervisors:
            identities = sorted(host.processes.supervisors, key=lambda identity: identity.pid)
            host.processes.kill(identities[index % len(identities)])
        case ("full disk", float(seconds)):
            host.files.is_full = True
            send(world, host.message(), "arrives")
            world.run(seconds)
            host.files.is_full = False
        case ("slow disk", bool(is_slow)):
            host.is_disk_slow = is_slow
        case ("no process", float(seconds)):
            host.processes.cannot_spawn = True
            change(world, ("launch", "arrives", False, 2.0))
            world.run(seconds)
            host.processes.cannot_spawn = False
        case ("clock", float(jump_s)):
            host.clock.wall += timedelta(seconds=jump_s)
            world.is_ahead |= jump_s < 0
        case ("memory lost",) if not world.is_agent_up:
            host.files.own = None
            world.is_memory_lost = True
            # A start goes on above all that the run before might have sent, which leaves the clock behind for a while.
            sent = max((stamp.sequence for stamp, _ in host.reports), default=0)
            world.is_ahead |= sent > host.clock.now().timestamp() * 1000


def act(world: World, what: tuple[object, ...]) -> None:
    """Do one thing to the world."""
    if what[0] == "wait":
        assert isinstance(what[1], float)
        world.run(what[1])
    else:
        change(world, what)
        harm(world, what)


def heal(world: World) -> None:
    """Put everything right and let the scheduler repeat itself until the agent has taken it in."""
    host = world.host
    host.files.is_full = host.processes.cannot_spawn = host.is_disk_slow = False
    host.files.crash_after = None
    world.under_way.clear()
    world.start()
    for _ in range(8):
        world.run(1.5)
        world.send(host.message())
        message = world.under_way.pop()
        world.agent(lambda message=message: host.deliver(message))  # type: ignore[misc]
    world.run(3)


@settings(parent=tried(60), suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(ACTS, min_size=3, max_size=12))
@example(
    steps=[
        [("renew", "arrives"), ("crash", 0), ("wait", 0.1)],
        [("renew", "arrives"), ("crash", 1), ("wait", 2.0)],
        [("launch", "arrives", False, 2.0), ("memory lost",), ("wait", 0.1)],
    ]
)
def test_random_faults_break_nothing(steps: list[list[tuple[object, ...]]]) -> None:
    """At every moment: one start an attempt, no job out of lease. After healing: desired and actual state agree."""
    world = World()
    world.start()
    world.run(0.5)
    for what in itertools.chain.from_iterable(steps):
        act(world, what)
        world.check()
    heal(world)
    named = set(world.host.orders)
    reported = {report.attempt_id: report.phase for report in world.host.reports[-1][1].attempts}
    stopped = {order.attempt_id for order in world.host.orders.values() if order.wanted != "run"}

    assert world.running() <= named - stopped
    assert set(reported) == named
    assert {attempt for attempt, phase in reported.items() if phase == "running"} == world.running()
    assert set(reported.values()) <= {"running", "ended"}
    assert_journal_is_sound(world.host, world.running())
    stamps = [stamp for stamp, _ in world.host.reports]
    sequences = [stamp.sequence for stamp in stamps]
    assert len(sequences) == len(set(sequences))
    taken = [stamp.sequence for stamp in stamps if stamp.epoch]
    assert taken == sorted(taken)
    # Until it is told, a server without its memory has only its clock to begin above what it sent before.
    assert (world.is_memory_lost and world.is_ahead) or sequences == sorted(sequences)
    # A server that lost its memory begins anew; else what it works on only gets newer.
    assert world.is_memory_lost or [s.generation for s in stamps] == sorted(s.generation for s in stamps)


def assert_journal_is_sound(host: FakeHost, running: set[str]) -> None:
    """Each attempt: one start first, stop and continue in turn, at most one exit last."""
    events: dict[str, list[str]] = {}
    for _, event, attempt in host.journal:
        events.setdefault(attempt, []).append(event)
    for attempt, seen in events.items():
        assert seen[0] == "start"
        assert seen.count("start") == 1
        middle = [event for event in seen[1:] if event != "exit"]
        assert middle == ["stop", "continue"] * (len(middle) // 2) + ["stop"] * (len(middle) % 2)
        assert seen.count("exit") <= (0 if attempt in running else 1)
