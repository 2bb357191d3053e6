"""Replay a workload, round after round, through the same decisions as the live cluster. Deterministic."""

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from scheduler.simulator.incremental.checked_rounds import CheckedRounds
from scheduler.simulator.incremental.planner import DUST_S, Planner
from scheduler.simulator.incremental.replay_plan import replay_plan
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.replay.records import records_of
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import Setting, States, load, save, setting_of
from scheduler.simulator.state.begun import Begun
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.early_figures import EarlyFigures
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.state.tally import Tally
from scheduler.simulator.state.waits import WaitTimes
from scheduler.simulator.state.world import World

# Planned rounds between two calls of ``progress``, or two checks whether to save.
_PROGRESS_EVERY = 32


def simulate(
    replay: Replay,
    *,
    states: States | None = None,
    progress: Callable[[int, int], None] | None = None,
    early: EarlyFigures | None = None,
) -> Outcome:
    """Return what happens to the jobs. Jobs that nothing will ever start are left over: their end is +inf.

    Args:
        replay: The jobs, the cluster, and how it is run.
        states: Files with the state of the replay, to interrupt it and go on. After going on, series and stays begin at
            the interruption.
        progress: Called every few dozen rounds with the number of jobs done and of all jobs.
        early: Tells figures while the replay goes on.

    Raises:
        ValueError: If the replay cannot be interrupted because a file does not hold all of its state: what
            introspection tries, or where suspended jobs may resume quickly.
        UnusableStateError: If the state to go on from cannot be read, or is that of another replay.
        PlanInvariantError: If a plan breaks a safety rule, or two that must be the same differ: a defect.
    """
    states = states or States()
    interrupted = bool(states.save_to or states.continue_from)
    if interrupted and (replay.config.introspection or replay.resume_s is not None):
        raise ValueError("a replay with introspection or resume_s cannot be interrupted")
    cpu_s = time.process_time()
    world, tally = _world(replay)
    columns = world.columns
    whole = WholeRounds(replay.servers, replay.queues, replay.config)
    planner, why = _planner(replay, columns, whole, interrupted=interrupted or replay.begun is not None)
    loop = _RoundLoop(replay, world, planner, waits=(tally.waits, whole) if tally.waits else None)
    saver = _Saver(states, setting_of(replay, columns) if interrupted else {})
    if states.continue_from:
        loop.restore(states.continue_from, saver.setting)
    if replay.begun:
        loop.begin(replay.begun, tally)
    with _workload_not_collected():
        loop.run(progress, saver, early)
    num_gpus = int(replay.servers.num_gpus.sum())
    return Outcome(
        records=records_of(columns, world.now_s, num_gpus=num_gpus, waits=tally.waits),
        series=tally.series(world.now_s),
        stays=tally.stays(world.seats, world.now_s),
        num_gpus=num_gpus,
        rounds=_rounds(columns, replay.round_s, loop.planned),
        planned=loop.planned,
        plan_hash=loop.digest.hex(),
        cpu_s=time.process_time() - cpu_s,
        planner=why,
        checked=loop.planned - loop.planned_before if planner is whole or isinstance(planner, CheckedRounds) else 0,
        compared=planner.compared if isinstance(planner, CheckedRounds) else 0,
        until_s=world.now_s,
        holding=tuple(sorted(world.seats)),
        is_continued=replay.begun is not None,
    )


def _planner(replay: Replay, columns: Columns, whole: WholeRounds, *, interrupted: bool) -> tuple[Planner, str]:
    """Return what plans the rounds, and why."""
    if not replay.incremental:
        return whole, "every round is planned from scratch: the replay asks for it"
    held = replay.begun.snapshot.held if replay.begun else None
    planner, why = replay_plan(
        replay.config, columns, replay.servers, replay.queues, interrupted=interrupted, held=held, whole=whole
    )
    every = 1 if replay.keep_reasons else replay.check_every
    if planner is not whole and every:
        planner = CheckedRounds(planner, whole, replay.servers, replay.queues, every=every)
    return planner, why


def _world(replay: Replay) -> tuple[World, Tally]:
    """Return the simulated cluster before the first round, and what records it."""
    columns = Columns(replay.jobs)
    if replay.begun:
        replay.begun.fill(columns)
    tally = Tally(
        replay.servers,
        columns.queue,
        num_queues=len(replay.queues),
        wants_series=replay.keep_series,
        wants_stays=replay.keep_stays,
        wants_reasons=replay.keep_reasons,
    )
    world = World(
        replay.jobs,
        tally=tally,
        columns=columns,
        restart_s=replay.restart_s,
        resume_s=replay.resume_s,
        leave_s=replay.leave_s,
        checkpoint_s=replay.checkpoint_s,
        costs=replay.costs,
        retries=replay.retries,
        round_s=replay.beat_s if replay.round_s is None else replay.round_s,
    )
    return world, tally


@contextmanager
def _workload_not_collected() -> Iterator[None]:
    """Keep Python's garbage collector from scanning the whole workload, a tenth of the time of a replay.

    Young objects are still collected, so cycles that a library leaves in a round are freed.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 10, 2**31 - 1)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class _Saver:
    """Decides when the state of a replay is written before its end."""

    def __init__(self, states: States, setting: Setting) -> None:
        self.path, self.setting = states.save_to, setting
        self._every_s, self._saved_s = states.save_every_s, time.process_time()

    def due(self) -> bool:
        """Return whether to write the state now; after True it is not due again for a while."""
        if self.path is None:
            return False
        now_s = time.process_time()
        if now_s < self._saved_s + self._every_s:
            return False
        self._saved_s = now_s
        return True


class _RoundLoop:
    """The loop over the rounds.

    Attributes:
        planned: Rounds planned so far.
        planned_before: Those of them that were planned before the state was saved from which the replay goes on.
        digest: Digest over all changes so far.
    """

    def __init__(
        self, replay: Replay, world: World, planner: Planner, *, waits: tuple[WaitTimes, WholeRounds] | None
    ) -> None:
        self._world, self._planner, self._skips = world, planner, replay.incremental
        self._round_s = replay.round_s
        self._beat_s = None if replay.config.introspection else replay.beat_s
        self._until_s, self._until_started = replay.until_s, set(replay.until_started)
        self._waits = waits
        self.planned = self.planned_before = 0
        self.digest = b""
        self._round_at_s = _on_grid(world.now_s, self._round_s)

    def _save(self, saver: _Saver) -> None:
        if saver.path:
            save(
                saver.path,
                self._world,
                setting=saver.setting,
                waits=self._waits[0] if self._waits else None,
                round_at_s=self._round_at_s,
                planned=self.planned,
                digest=self.digest,
            )

    def restore(self, path: Path, setting: Setting) -> None:
        """Go on from the state of a file."""
        waits = self._waits[0] if self._waits else None
        self._round_at_s, self.planned, self.digest = load(path, self._world, setting=setting, waits=waits)
        self.planned_before = self.planned
        self._planner.restore(self._world)

    def begin(self, begun: Begun, tally: Tally) -> None:
        """Go on from the state of a cluster; the first round is now."""
        begun.seat(self._world, tally)
        self._round_at_s = self._world.now_s
        self._planner.restore(self._world)

    def run(
        self, progress: Callable[[int, int], None] | None, saver: _Saver, early: EarlyFigures | None = None
    ) -> None:
        """Plan round after round until no job is left, nothing can change any more, or the replay is to stop."""
        world, planner, until_s, pending = self._world, self._planner, self._until_s, self._until_started
        while self._round_at_s <= until_s and self._round_at_s < math.inf:
            world.advance(self._round_at_s)
            if early and early.next_s <= world.now_s:
                early.take(world.columns, world.now_s)
            changes = planner.plan(world)
            self.planned += 1
            world.lend(changes.lent)
            if changes:
                self.digest = changes.digest(self.digest, world.now_s)
                world.carry_out(changes)
                if pending:
                    pending.difference_update(changes.started)
                    if not pending:
                        return
            if self._waits:
                waits, whole = self._waits
                waits.planned(whole.waiting, world.now_s)
            self._round_at_s = self._next_round_s()
            if self.planned % _PROGRESS_EVERY == 0:
                if progress:
                    progress(int(world.columns.ended.sum()), len(world.columns))
                if saver.due():
                    self._save(saver)
        last_end_s = world.next_end_s()
        while last_end_s <= until_s and last_end_s < math.inf:  # no job waits for the GPUs of these
            world.advance(last_end_s)
            last_end_s = world.next_end_s()
        self._save(saver)
        if progress:
            progress(int(world.columns.ended.sum()), len(world.columns))

    def _next_round_s(self) -> float:
        world, round_s = self._world, self._round_s
        event_s = min(world.next_arrival_s(), world.next_end_s())
        if round_s is None:
            rests_s = self._planner.rests_s(world)
            by_itself_s = world.now_s + (max(rests_s, DUST_S) if rests_s > 0 else rests_s)
            return min(event_s, by_itself_s if self._beat_s is None else _beat(by_itself_s, world.now_s, self._beat_s))
        if not self._skips:
            if not world.columns.num_active:
                return _on_grid(world.next_arrival_s(), round_s)
            if event_s == math.inf and not self._planner.unsettled and self._planner.rests_s(world) == math.inf:
                return math.inf
            return _after(world.now_s, round_s)
        if self._planner.unsettled:
            return _after(world.now_s, round_s)
        # Policies round up to whole seconds, so the order may be another up to a second before.
        rests_s = max(0.0, self._planner.rests_s(world) - 1.0)
        return max(_after(world.now_s, round_s), _on_grid(min(event_s, world.now_s + rests_s), round_s))


def _on_grid(time_s: float, round_s: float | None) -> float:
    """Return the first round at or after a time."""
    return time_s if round_s is None or math.isinf(time_s) else math.ceil(time_s / round_s - 1e-9) * round_s


def _beat(time_s: float, now_s: float, beat_s: float) -> float:
    """Return the first beat at or after a time and after now."""
    return max(_on_grid(time_s, beat_s), (math.floor(now_s / beat_s + 1e-9) + 1) * beat_s)


def _after(time_s: float, round_s: float) -> float:
    """Return the round after the one at ``time_s``."""
    return (round(time_s / round_s) + 1) * round_s


def _rounds(columns: Columns, round_s: float | None, planned: int) -> int:
    finished = columns.end_s[np.isfinite(columns.end_s)]
    if round_s is None:
        return planned
    if not len(finished):
        return 0
    return math.floor(float(finished.max()) / round_s) - math.ceil(float(columns.arrival_s.min()) / round_s - 1e-9) + 1
