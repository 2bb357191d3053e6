"""A clock for introspection: jobs that never end, rounds at a fixed pace, speeds that the test decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Placements, Snapshot
from scheduler.core.round.config import Introspection, SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.fifo import Fifo
from tests.support.simulator.strategies import carried_out

# Speed of a job by row, given the plan in force.
Speed = Callable[[Plan, int], float]


def introspective(*parts: Introspection) -> SchedulerConfig:
    """Return first in, first out with these introspections."""
    return SchedulerConfig(policy=Fifo(), locality=Consolidate(), mechanism=Proportional(), introspection=tuple(parts))


@dataclass
class Clock:
    """A cluster that does what the plans say.

    Attributes:
        snapshot: The present.
        plan: The newest plan.
        ran_s: Seconds that each job ran, by row.
    """

    snapshot: Snapshot
    config: SchedulerConfig
    speed: Speed = lambda plan, row: 1.0
    plan: Plan = field(init=False)
    ran_s: dict[int, float] = field(default_factory=dict)

    def tick(self, step_s: float = 60.0) -> Plan:
        """Plan a round, carry it out, let time pass."""
        self.plan = plan = plan_round(self.snapshot, self.config)
        after = carried_out(self.snapshot, plan, after_s=step_s)
        rate = np.full(len(after.jobs), np.nan)
        for row in np.flatnonzero(after.jobs.running).tolist():
            rate[row] = self.speed(plan, row)
            self.ran_s[row] = self.ran_s.get(row, 0.0) + step_s
        self.snapshot = replace(after, jobs=replace(after.jobs, rate=rate), trials=plan.trials)
        return plan

    def servers_of(self, row: int) -> list[int]:
        """Return the servers on which a job sits."""
        held: Placements = self.snapshot.held
        return [int(server) for server in held.server[held.job == row]]


def by_pair(rates: Mapping[tuple[int, int], float], *, alone: float = 1.0) -> Speed:
    """Return the speed of a row by (row, row on the same GPUs)."""

    def speed(plan: Plan, row: int) -> float:
        for guest, host in plan.riding.items():
            if row in (guest, host):
                other = host if row == guest else guest
                return rates.get((row, other), alone)
        return alone

    return speed
