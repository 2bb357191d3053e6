"""Replays a workload through the decision that rules the live cluster. Deterministic."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.incremental.planning import DUST_S, Planner, WholeRounds
from scheduler.simulator.incremental.replay_plan import planner_of
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.records import records_of
from scheduler.simulator.replay.saving import Setting, load, save, setting_of
from scheduler.simulator.state.begun import Begun
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.state.tally import Tally
from scheduler.simulator.state.waits import WaitTimes
from scheduler.simulator.state.world import Costs, Retries, World

# Rounds planned between two calls of ``progress``, or looks at the clock.
_PROGRESS_EVERY = 256


def simulate(
    jobs: Sequence[SimJob],
    servers: ServerTable,
    queues: QueueTable,
    config: SchedulerConfig,
    *,
    round_s: float | None = None,
    beat_s: float | None = None,
    restart_s: float = 0.0,
    resume_s: float | None = None,
    checkpoint_s: float = math.inf,
    costs: Costs | None = None,
    retries: Retries | None = None,
    until_s: float = math.inf,
    until_started: Iterable[int] = (),
    skip: bool = True,
    series: bool = False,
    stays: bool = False,
    reasons: bool = False,
    check: bool = False,
    progress: Callable[[int, int], None] | None = None,
    save_to: Path | None = None,
    save_every_s: float = math.inf,
    continue_from: Path | None = None,
    begun: Begun | None = None,
) -> Outcome:
    """Return what happens to the jobs. Jobs that nothing will ever start are left over: their end is +inf.

    Args:
        jobs: The workload.
        servers: The cluster.
        queues: Its queues.
        config: How rounds decide.
        round_s: Seconds between rounds, counted from 0; None for a round whenever something changes.
        beat_s: Where ``round_s`` is None: seconds between the rounds that come without an arrival or an end, as on a
            live cluster; what changes by itself is seen then. None for at once. Introspection says itself when.
        restart_s: Seconds without progress that every start after a job's first costs.
        resume_s: The same on the servers from which the scheduler took the job last, where its state still is; None for
            no difference.
        checkpoint_s: Run time between two checkpoints; a failed attempt loses the work since the last. A job that is
            preempted saves its state first.
        costs: What starts and resizes cost instead of ``restart_s``.
        retries: What happens after a failed attempt; without it the job joins the line again at once.
        until_s: The replay stops here at the latest.
        until_started: Rows of jobs; it stops when the last of them has been given its place; empty for no such stop.
        skip: Whether rounds that cannot change anything are left out, and the others are made from what changed where
            that can be done. Without it every round is planned from scratch. The outcome is the same.
        series: Whether the cluster over time is noted.
        stays: Whether it is noted who was where.
        reasons: Whether it is noted how long each job waited for which reason; every planned round is planned from
            scratch then, so it takes much longer. The outcome is the same otherwise.
        check: Whether every planned round is planned from scratch as well, and compared.
        progress: Called now and then with the number of jobs done and of all jobs.
        save_to: Where the state at the end is written, to go on from there.
        save_every_s: Seconds of CPU time after which it is written before the end too.
        continue_from: A state that was saved with the same workload, cluster and configuration. Series and stays begin
            there.

    Raises:
        ValueError: If a state is to be saved or taken up that a file does not hold: what introspection tries, or where
            suspended jobs may resume quickly.
        UnusableStateError: If ``continue_from`` cannot be read, or is the state of another replay.
        PlanInvariantError: If a plan breaks a safety rule, or two that must be the same differ: a defect.
    """
    if (save_to or continue_from) and (config.introspection or resume_s is not None):
        raise ValueError("a replay with introspection or resume_s cannot be interrupted")
    cpu_s = time.process_time()
    columns = Columns(jobs)
    if begun:
        begun.fill(columns)
    tally = Tally(
        servers,
        columns.queue,
        num_queues=len(queues),
        wants_series=series,
        wants_stays=stays,
        wants_reasons=reasons,
    )
    world = World(
        jobs,
        tally=tally,
        columns=columns,
        restart_s=restart_s,
        resume_s=resume_s,
        checkpoint_s=checkpoint_s,
        costs=costs,
        retries=retries,
        round_s=beat_s if round_s is None else round_s,
    )
    whole = WholeRounds(servers, queues, config)
    planner: Planner = whole
    if skip:
        interrupted = bool(save_to or continue_from or begun)
        planner = planner_of(
            columns, servers, queues, config, whole=whole, interrupted=interrupted, compared=reasons or check
        )
    noted = (tally.waits, whole) if tally.waits else None
    beat_s = None if config.introspection else beat_s
    replay = _Replay(world, planner, round_s=round_s, beat_s=beat_s, skip=skip, noted=noted)
    states = _States(save_to, save_every_s, {})
    if save_to or continue_from:
        how = (round_s, restart_s, checkpoint_s, costs, retries, reasons)
        states.setting = setting_of(jobs, columns, servers, queues, config, how)
    if continue_from:
        replay.restore(continue_from, states.setting)
    if begun:
        replay.begin(begun, tally)
    with _workload_not_collected():
        replay.run(until_s, set(until_started), progress, states)
    num_gpus = int(servers.num_gpus.sum())
    return Outcome(
        records=records_of(columns, world.now_s, num_gpus=num_gpus, waits=tally.waits),
        series=tally.series(),
        stays=tally.stays(world.seats, world.now_s),
        num_gpus=num_gpus,
        rounds=_rounds(columns, round_s, replay.planned),
        planned=replay.planned,
        plan_hash=replay.digest.hex(),
        cpu_s=time.process_time() - cpu_s,
    )


@contextmanager
def _workload_not_collected() -> Iterator[None]:
    """Keep the collector from going through the whole workload now and then, a tenth of the time of a replay.

    What is young is still collected, so cycles that a library leaves in a round are freed.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 10, 2**31 - 1)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class _States:
    """Where the state of a replay is written, and when."""

    def __init__(self, path: Path | None, every_s: float, setting: Setting) -> None:
        self.path, self.setting = path, setting
        self._every_s, self._saved_s = every_s, time.process_time()

    def due(self) -> bool:
        """Return whether it is time to write it before the end; it is not due again for a while."""
        if self.path is None:
            return False
        now_s = time.process_time()
        if now_s < self._saved_s + self._every_s:
            return False
        self._saved_s = now_s
        return True


class _Replay:
    """The loop over the rounds.

    Attributes:
        planned: Rounds planned so far.
        digest: Digest over all changes so far.
    """

    def __init__(
        self,
        world: World,
        planner: Planner,
        *,
        round_s: float | None,
        beat_s: float | None,
        skip: bool,
        noted: tuple[WaitTimes, WholeRounds] | None,
    ) -> None:
        self._world, self._planner, self._skip = world, planner, skip
        self._round_s, self._beat_s = round_s, beat_s
        self._noted = noted
        self.planned = 0
        self.digest = b""
        self._round_at_s = _on_grid(world.now_s, round_s)

    def _save(self, states: _States) -> None:
        if states.path:
            save(
                states.path,
                self._world,
                setting=states.setting,
                waits=self._noted[0] if self._noted else None,
                round_at_s=self._round_at_s,
                planned=self.planned,
                digest=self.digest,
            )

    def restore(self, path: Path, setting: Setting) -> None:
        """Take up the state of a file."""
        waits = self._noted[0] if self._noted else None
        self._round_at_s, self.planned, self.digest = load(path, self._world, setting=setting, waits=waits)
        self._planner.restore(self._world)

    def begin(self, begun: Begun, tally: Tally) -> None:
        """Take up the state of a cluster; the first round is now."""
        begun.seat(self._world, tally)
        self._round_at_s = self._world.now_s
        self._planner.restore(self._world)

    def run(
        self, until_s: float, pending: set[int], progress: Callable[[int, int], None] | None, states: _States
    ) -> None:
        """Plan round after round until nothing is left, nothing will change any more, ``until_s`` has come, or all
        rows of ``pending`` have started.
        """
        world, planner = self._world, self._planner
        while self._round_at_s <= until_s and self._round_at_s < math.inf:
            world.advance(self._round_at_s)
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
            if self._noted:
                waits, whole = self._noted
                waits.planned(whole.waiting, world.now_s)
            self._round_at_s = self._next_round_s()
            if self.planned % _PROGRESS_EVERY == 0:
                if progress:
                    progress(int(world.columns.ended.sum()), len(world.columns))
                if states.due():
                    self._save(states)
        last_end_s = world.next_end_s()
        while last_end_s <= until_s and last_end_s < math.inf:  # nobody waits for what these leave
            world.advance(last_end_s)
            last_end_s = world.next_end_s()
        self._save(states)
        if progress:
            progress(int(world.columns.ended.sum()), len(world.columns))

    def _next_round_s(self) -> float:
        world, round_s = self._world, self._round_s
        event_s = min(world.next_arrival_s(), world.next_end_s())
        if round_s is None:
            rests_s = self._planner.rests_s(world)
            by_itself_s = world.now_s + (max(rests_s, DUST_S) if rests_s > 0 else rests_s)
            return min(event_s, by_itself_s if self._beat_s is None else _beat(by_itself_s, world.now_s, self._beat_s))
        if not self._skip:
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
