"""A planner for checks: an incremental planner held against ``plan_round``, and its grants against the invariants.

``manage.py simulate --check`` uses it, and so do replays that record reasons of waiting, which only ``plan_round``
knows.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scheduler.core.model.changes import Changes, Grant, placements
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.tables import QueueTable, ServerTable, Snapshot
from scheduler.core.round.invariants import check_grants
from scheduler.simulator.incremental.planner import Planner
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.state.world import World


class CheckedRounds:
    """Incremental rounds, checked.

    Attributes:
        compared: Rounds planned from scratch as well so far.
    """

    def __init__(
        self, incremental: Planner, whole: WholeRounds, servers: ServerTable, queues: QueueTable, *, every: int
    ) -> None:
        """Hold the first round and every ``every``-th one after it against a round from scratch."""
        self._incremental, self._whole, self._servers, self._queues = incremental, whole, servers, queues
        self._every, self._planned = every, 0
        self.compared = 0

    @property
    def unsettled(self) -> bool:
        """Return whether the next round may change something although nothing arrives or ends before it."""
        return self._incremental.unsettled

    def plan(self, world: World) -> Changes:
        """Return what the round changes.

        Raises:
            PlanInvariantError: If the changes break a safety rule, or differ from those of a round from scratch.
        """
        changes = self._incremental.plan(world)
        self._check(world, changes)
        if self._planned % self._every == 0:
            expected = self._whole.plan(world)
            self.compared += 1
            if changes != expected:
                raise PlanInvariantError(
                    f"the incremental round at {world.now_s} s differs from a round from scratch: "
                    f"{_first_difference(changes, expected)}"
                )
        self._planned += 1
        return changes

    def _check(self, world: World, changes: Changes) -> None:
        """Hold what jobs have after the round against the rules of ``scheduler.core.round.invariants``."""
        after = {row: grant for row, grant in world.seats.items() if row not in changes.stopped}
        after |= changes.started
        after |= changes.amended
        rows = world.columns.active
        before, grants = placements(world.seats), placements(after)
        snapshot = Snapshot(
            now_s=world.now_s,
            jobs=world.columns.look(rows, world.now_s),
            servers=self._servers,
            queues=self._queues,
            held=replace(before, job=np.searchsorted(rows, before.job)),
        )
        try:
            check_grants(replace(grants, job=np.searchsorted(rows, grants.job)), snapshot)
        except PlanInvariantError as error:
            raise PlanInvariantError(f"the incremental round at {world.now_s} s: {error}") from None

    def rests_s(self, world: World) -> float:
        """Return for how long nothing changes by itself, seconds."""
        return self._incremental.rests_s(world)

    def restore(self, world: World) -> None:
        """Go on from a state."""
        self._incremental.restore(world)


def _first_difference(changes: Changes, expected: Changes) -> str:
    """Return the first job for which two changes differ, and how."""
    kinds: tuple[tuple[str, Mapping[int, Grant], Mapping[int, Grant]], ...] = (
        ("starts with", changes.started, expected.started),
        ("gets other cores or memory,", changes.amended, expected.amended),
    )
    for verb, ours, theirs in kinds:
        for row in sorted({*ours, *theirs}):
            if ours.get(row) != theirs.get(row):
                return f"job {row} {verb} {ours.get(row, 'nothing')}, from scratch {theirs.get(row, 'nothing')}"
    for row in sorted({*changes.stopped, *expected.stopped}):
        if changes.stopped.get(row) != expected.stopped.get(row):
            told = (each.stopped.get(row, "no") for each in (changes, expected))
            return "job {} is stopped by (rule, job): {}, from scratch {}".format(row, *told)
    return f"{changes}, from scratch {expected}"
