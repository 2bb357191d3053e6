"""The planner that asks ``plan_round`` in every round. It serves every configuration."""

import math
from dataclasses import replace

import numpy as np

from scheduler.core.model.changes import Changes, changes_of, placements
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import QueueTable, ServerTable, Snapshot
from scheduler.core.round.capabilities import ChangesBySelf, Promotes
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.simulator.incremental.orders.overtaking import Overtaking
from scheduler.simulator.incremental.planner import promote, until_rights_change_s
from scheduler.simulator.state.world import World


class WholeRounds:
    """Every round planned from scratch.

    Attributes:
        unsettled: See ``Planner``.
        waiting: Jobs that wait after the last round, rows of the workload, and why.
    """

    def __init__(self, servers: ServerTable, queues: QueueTable, config: SchedulerConfig) -> None:
        self.unsettled = False
        # Shares may depend on anything, unless the policy says when they change.
        self._drifts = isinstance(config.policy, SharePolicy) and not isinstance(config.policy, ChangesBySelf)
        self._servers, self._queues, self._config = servers, queues, config
        self._overtaking = Overtaking(config.policy, servers, queues)
        self._trials: Plan | None = None
        self._riding: dict[int, int] = {}
        self.waiting: list[tuple[int, WaitReason]] = []

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        config, columns, now_s = self._config, world.columns, world.now_s
        rows = columns.active
        if isinstance(config.policy, Promotes):
            promote(columns, rows[config.policy.promoted(columns.look(rows, now_s))], now_s)
        world.arrived.clear()
        world.released.clear()
        held = placements(world.seats)
        snapshot = Snapshot(
            now_s=now_s,
            jobs=columns.table(rows, now_s),
            servers=self._servers,
            queues=self._queues,
            held=replace(held, job=np.searchsorted(rows, held.job)),
            trials=self._trials.trials if self._trials else (),
            round_s=world.round_s,
        )
        self._trials = plan = plan_round(snapshot, config)
        changes = changes_of(plan, snapshot.held, num_jobs=len(rows))
        number: list[int] = rows.tolist()
        self.waiting = [
            (number[row], reason)
            for row, (reason, _) in zip(plan.waiting.job.tolist(), plan.waiting.causes, strict=True)
        ]
        riding = {number[guest]: number[host] for guest, host in plan.riding.items()}
        before, self._riding = self._riding, riding
        # Started and stopped jobs have another place in the order now, and queues hold more or less.
        self.unsettled = bool(changes.started or changes.stopped) or (self._drifts and bool(world.seats))
        return Changes(
            started={number[row]: grant for row, grant in changes.started.items()},
            amended={number[row]: grant for row, grant in changes.amended.items()},
            stopped={number[row]: (rule, number[by] if by >= 0 else by) for row, (rule, by) in changes.stopped.items()},
            riding=None if riding == before else riding,
            lent=frozenset(number[row] for row in changes.lent),
        )

    def rests_s(self, world: World) -> float:
        """Return for how long the order of the policy and the kinds of the locality stay as they are, seconds."""
        config, columns = self._config, world.columns
        jobs = columns.look(columns.active, world.now_s)
        rests_s = self._trials.again_at_s - world.now_s if self._trials else math.inf
        if self.waiting:
            rests_s = min(rests_s, until_rights_change_s(config, jobs, world.now_s))
            rests_s = min(rests_s, self._overtaking.after_s(world) if world.seats else math.inf)
        # While no job runs although some wait, the order makes no difference.
        for part in (config.policy, config.locality) if world.seats else (config.locality,):
            if isinstance(part, ChangesBySelf):
                rests_s = min(rests_s, float(part.next_change_s(jobs).min(initial=np.inf)))
        return rests_s

    def restore(self, world: World) -> None:
        """Do nothing: no seats are kept from round to round."""
