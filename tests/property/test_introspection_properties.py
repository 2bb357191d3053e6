"""What introspection keeps, whatever it tries: plans are safe, and nothing that was measured worse stays."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations
from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.model.trial import TrialKind, Verdict
from scheduler.core.round.config import Introspection, SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection import INTROSPECTIONS
from scheduler.introspection.growth import Growth
from scheduler.introspection.migration import Migration
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.live.turns import Clock, Speed, introspective
from tests.support.simulator.strategies import JobRow, ServerRow, carried_out, snapshot_of, snapshots
from tests.support.suite.examples import tried

SETS = [*chain.from_iterable(combinations(INTROSPECTIONS, size) for size in (1, 2, 4))]
PATIENT: dict[str, Introspection] = {
    "slicing": Slicing(),
    "packing": Packing(),
    "migration": Migration(move_s=0.0),
    "growth": Growth(idle_s=60.0),
}


@st.composite
def _elastic(draw: st.DrawFn) -> Snapshot:
    """A snapshot in which some jobs can use more GPUs or do with fewer, and most that run report a speed."""
    snapshot = draw(snapshots())
    jobs = snapshot.jobs
    factor = draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=len(jobs), max_size=len(jobs)))
    rates = draw(st.lists(st.sampled_from([1.0, 0.7, 0.3, float("nan")]), min_size=len(jobs), max_size=len(jobs)))
    shrinks = draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs)))
    min_gpus = np.where(np.array(shrinks, dtype=np.bool_), 1, jobs.num_gpus)
    max_gpus = jobs.num_gpus * np.array(factor, dtype=np.int64)
    rate = np.array(rates, dtype=np.float64)
    return replace(snapshot, jobs=replace(jobs, min_gpus=min_gpus, max_gpus=max_gpus, rate=rate))


def _next(snapshot: Snapshot, plan: Plan, rates: list[float]) -> Snapshot:
    after = carried_out(snapshot, plan)
    rate = np.array([rates[(row * 7 + len(plan.riding)) % len(rates)] for row in range(len(after.jobs))])
    return replace(after, trials=plan.trials, jobs=replace(after.jobs, rate=np.where(after.jobs.running, rate, np.nan)))


@pytest.mark.parametrize("names", SETS, ids="+".join)
@settings(parent=tried(12), suppress_health_check=[HealthCheck.too_slow])
@given(
    data=st.data(),
    policy=st.sampled_from(sorted(POLICIES)),
    locality=st.sampled_from(sorted(LOCALITIES)),
    mechanism=st.sampled_from(sorted(set(MECHANISMS) - {"opt"})),
)
def test_every_set_is_safe_with_everything(
    names: tuple[str, ...], data: st.DataObject, policy: str, locality: str, mechanism: str
) -> None:
    """Eight rounds of anything with anything: no plan breaks a rule (``plan_round`` checks them), and plans repeat."""
    snapshot = data.draw(_elastic())
    rates = data.draw(st.lists(st.sampled_from([1.0, 0.9, 0.5, 2.0]), min_size=3, max_size=5))
    config = SchedulerConfig(
        policy=POLICIES[policy](),
        locality=LOCALITIES[locality](),
        mechanism=MECHANISMS[mechanism](),
        introspection=tuple(PATIENT[name] for name in names),
    )
    for _ in range(8):
        plan = plan_round(snapshot, config)
        again = plan_round(snapshot, config)

        assert (plan.plan_hash, plan.trials, plan.again_at_s) == (again.plan_hash, again.trials, again.again_at_s)
        assert plan.again_at_s > snapshot.now_s
        snapshot = _next(snapshot, plan, rates)


def _crowded(chance: Random) -> Snapshot:
    """Return servers with scattered running jobs, some of which can use more GPUs, and jobs that wait or none."""
    gpus = [chance.choice([4, 8]) for _ in range(3)]
    free = list(gpus)
    rows = []
    for _ in range(chance.randint(3, 8)):
        size = chance.choice([1, 1, 2, 2, 4])
        servers = [server for server in range(3) if free[server] * chance.choice([1, 2]) >= size and free[server]]
        seats: list[tuple[int, int]] = []
        for server in servers:
            part = min(free[server], size - sum(count for _, count in seats))
            seats += [(server, part)] if part else []
        if sum(count for _, count in seats) == size:
            for server, count in seats:
                free[server] -= count
            top = size * chance.choice([1, 2, 4])
            rows.append(JobRow(num_gpus=size, max_gpus=top, max_servers=0, rate=0.8, seats=tuple(seats)))
    waiting = chance.choice([0, 0, 4, 10])
    rows += [JobRow(num_gpus=chance.choice([1, 1, 2, 4]), max_servers=1, arrival_s=1.0) for _ in range(waiting)]
    return snapshot_of(rows, [ServerRow(num_gpus=count) for count in gpus])


@pytest.mark.parametrize("names", [("slicing", "packing"), ("migration",), ("growth",), tuple(PATIENT)], ids="+".join)
def test_nothing_that_measured_worse_stays(names: tuple[str, ...]) -> None:
    """Speeds are drawn for every pair, place and size: after each trial only what gained is still in force."""
    tried = 0
    for seed in range(25):
        clock = Clock(_crowded(Random(seed)), introspective(*(PATIENT[name] for name in names)), speed=_speed(seed))
        for _ in range(30):
            seen = clock.snapshot
            clock.tick()
            _check_in_force(clock.plan, clock.snapshot, seen=seen)
            tried += sum(trial.verdict is Verdict.UNDONE for trial in clock.plan.trials)

    assert tried > 0, "nothing was ever taken back: the test shows nothing"


def _speed(seed: int) -> Speed:
    def speed(plan: Plan, row: int) -> float:
        partner = {**plan.riding, **{host: guest for guest, host in plan.riding.items()}}.get(row, -1)
        mine = plan.grants.job == row
        key = (seed, row, partner, int(plan.grants.num_gpus[mine].sum()), plan.grants.server[mine].tolist())
        chance = np.random.default_rng(crc32(repr(key).encode()))
        return float(chance.uniform(0.5, 1.0) if partner < 0 else chance.uniform(0.2, 0.7))

    return speed


def _check_in_force(plan: Plan, snapshot: Snapshot, *, seen: Snapshot) -> None:
    """Check the speeds that the plan has seen against those before, of everything that is kept.

    ``snapshot`` is what the plan made of what it has ``seen``: a pair whose turn ends may be somewhere else there.
    """
    row_of: Mapping[int, int] = {job: row for row, job in enumerate(snapshot.jobs.job_id.tolist())}
    rate, before_s = seen.jobs.rate, seen.now_s
    for trial in plan.trials:
        rows = [row_of[job] for job in trial.jobs if job in row_of]
        running = all(snapshot.jobs.running[row] for row in rows)
        if trial.kind is TrialKind.PACK and trial.verdict is Verdict.UNDONE:
            host, guest = rows
            assert plan.riding.get(guest) != host
        elif trial.kind is TrialKind.PACK and trial.verdict is Verdict.KEPT and running:
            if trial.until_s == before_s + Packing().check_s:  # looked at just now
                assert sum(rate[row] / alone for row, alone in zip(rows, trial.values, strict=True)) > 1.05 - 1e-9
        elif trial.kind is TrialKind.GROW and trial.verdict is Verdict.UNDONE and running:
            held = int(plan.grants.num_gpus[plan.grants.job == rows[0]].sum())
            assert held <= trial.values[1]
        elif trial.kind is TrialKind.MOVE and trial.verdict is Verdict.TRYING:
            assert trial.until_s > before_s
