"""Rounds of many queues made on a board that is kept give what rounds from scratch give, to the hash."""

import math
from dataclasses import replace
from unittest.mock import Mock, patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.preemption.room import PreemptionRoom
from scheduler.core.packing.selection import Selection
from scheduler.core.round.claim_order import Line
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.policies import POLICIES
from scheduler.policies.las import Las
from scheduler.simulator.incremental.orders import waiting_lines
from scheduler.simulator.incremental.orders.overtaking import Overtaking
from scheduler.simulator.incremental.queue_rounds import QueueRounds
from scheduler.simulator.incremental.replay_plan import replay_plan
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.state.world import World
from tests.property.test_simulator_short_rounds import HUNGRY, MODEST
from tests.support.simulator.strategies import GIB, QueueRow, ServerRow, queue_rows, snapshot_of
from tests.support.suite.examples import tried

quick = tried(6)

OPTIONS: dict[str, list[dict[str, object]]] = {
    "fifo": [{}, {"backfill": False}],
    "fair": [{}, {"preemptive": True}],
    "priority": [{}, {"preemptive": True}, {"backfill": False}, {"preemptive": True, "backfill": False}],
    "las": [{"queue_limits_gpu_s": [200, 1500]}, {"queue_limits_gpu_s": [200], "promote_after": 2}],
    "gittins": [{"queue_limits_gpu_s": [600], "history_gpu_s": [60, 150, 400, 1000]}],
    "drf": [{}, {"by": "job"}, {"credit_s": 300}],
}
ORDERS = sorted(name for name, policy in POLICIES.items() if not isinstance(policy(), SharePolicy))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[SimJob], list[ServerRow], list[QueueRow]]:
    """A few servers, a forest of queues, and more jobs than fit at once; in some clusters jobs insist on cores."""
    tight = draw(st.sampled_from([False, False, True]))
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=4))
    rows = [ServerRow(num_gpus=size, num_cpus=3.0 * size, memory_bytes=64 * GIB * size) for size in sizes]
    queues = draw(queue_rows(sum(sizes)))
    jobs = []
    for _ in range(draw(st.integers(2, 24))):
        failures = (Failure(after_s=25.0, cause="user"),) if draw(st.integers(0, 7)) == 0 else ()
        num_gpus = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 8, 12]))
        insists = tight and draw(st.booleans())
        jobs.append(
            SimJob(
                arrival_s=float(draw(st.integers(0, 900))),
                min_cpus=draw(st.sampled_from([1.0, 4.0, 7.5])) * num_gpus if insists else 0.0,
                min_memory_bytes=draw(st.sampled_from([0, 70, 130])) * float(GIB * num_gpus) if insists else 0.0,
                queue=draw(st.integers(0, len(queues) - 1)),
                owner=draw(st.integers(0, 2)),
                num_gpus=num_gpus,
                run_s=draw(st.sampled_from([20.0, 45.5, 120.0, 333.3, 1000.0])),
                max_servers=draw(st.sampled_from([0, 1, 2])),
                priority=float(draw(st.integers(0, 2))),
                profile=draw(st.sampled_from([Profile(), HUNGRY, MODEST])),
                failures=failures,
            )
        )
    return jobs, rows, queues


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[SimJob], list[ServerRow], list[QueueRow]]:
    """Queues side by side that lend each other GPUs, with lines of jobs that ask for the same, some for two servers."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3))
    rows = [ServerRow(num_gpus=size, num_cpus=3.0 * size, memory_bytes=64 * GIB * size) for size in sizes]
    quotas = draw(st.lists(st.integers(0, sum(sizes) // 2), min_size=2, max_size=4))
    queues = [QueueRow(quota_gpus=quota, weight=float(max(1, quota)), max_gpus=10_000) for quota in quotas]
    widths = [width for width in (1, 1, 1, 2, 4, 6, 12) if width <= sum(sizes)]
    jobs = [
        SimJob(
            arrival_s=float(draw(st.integers(0, 600))),
            queue=draw(st.integers(0, len(queues) - 1)),
            num_gpus=draw(st.sampled_from(widths)),
            run_s=draw(st.sampled_from([45.5, 120.0, 333.3])),
            priority=float(draw(st.integers(0, 2))),
        )
        for _ in range(draw(st.integers(20, 50)))
    ]
    return jobs, rows, queues


def replay(
    cluster: tuple[list[SimJob], list[ServerRow], list[QueueRow]],
    config: SchedulerConfig,
    *,
    round_s: float | None,
    skip: bool,
) -> Outcome:
    """Replay; endless stalls are cut off."""
    jobs, rows, queues = cluster
    tables = snapshot_of([], rows, queues)
    return simulate(
        Replay(
            jobs,
            tables.servers,
            tables.queues,
            config,
            round_s=round_s,
            restart_s=5.0,
            until_s=20_000.0,
            incremental=skip,
        )
    )


@pytest.mark.parametrize("mechanism", ["proportional", "tune"])
@pytest.mark.parametrize("policy", ORDERS)
@quick
@given(data=st.data(), cluster=clusters(), round_s=st.sampled_from([30.0, 60.0, None]))
def test_a_kept_board_changes_nothing(
    policy: str,
    mechanism: str,
    data: st.DataObject,
    cluster: tuple[list[SimJob], list[ServerRow], list[QueueRow]],
    round_s: float | None,
) -> None:
    """Starts, ends, preemptions and every change of every plan are the same when all rounds are planned whole."""
    config = build_config(
        policy=policy,
        policy_options=data.draw(st.sampled_from(OPTIONS.get(policy, [{}]))),
        locality=data.draw(st.sampled_from(["consolidate", "any", "skew"])),
        mechanism=mechanism,
    )
    config = replace(
        config,
        preempt=data.draw(st.sampled_from([True, True, True, False])),
        reclaim_after_s=data.draw(st.sampled_from([0.0, 0.0, 100.0])),
        min_run_s=data.draw(st.sampled_from([0.0, 0.0, 90.0])),
    )
    kept, whole = (replay(cluster, config, round_s=round_s, skip=skip) for skip in (True, False))

    assert kept.plan_hash == whole.plan_hash
    assert kept.records.end_s.tolist() == whole.records.end_s.tolist()
    assert kept.records.first_start_s.tolist() == whole.records.first_start_s.tolist()
    assert kept.records.preemptions.tolist() == whole.records.preemptions.tolist()
    assert kept.planned <= whole.planned


@pytest.mark.parametrize("fewest", [1, 3])
@pytest.mark.parametrize("policy", ["fifo", "fair", "priority", "srtf", "srsf", "las", "gittins", "tetris"])
@tried(12)
@given(cluster=crowds(), round_s=st.sampled_from([30.0, None]), preempt=st.sampled_from([True, True, False]))
def test_the_first_of_a_line_decide_for_all(
    policy: str,
    fewest: int,
    cluster: tuple[list[SimJob], list[ServerRow], list[QueueRow]],
    round_s: float | None,
    preempt: bool,
) -> None:
    """Rounds that look at the first jobs of each line, or at no running job, decide as rounds that look at all."""
    options = OPTIONS.get(policy, [{}])[0]
    config = replace(build_config(policy=policy, policy_options=options), preempt=preempt)
    with patch.object(waiting_lines, "_FEWEST", fewest):
        kept, whole = (replay(cluster, config, round_s=round_s, skip=skip) for skip in (True, False))

    assert kept.plan_hash == whole.plan_hash
    assert kept.records.end_s.tolist() == whole.records.end_s.tolist()
    assert kept.records.preemptions.tolist() == whole.records.preemptions.tolist()


@pytest.mark.parametrize(
    ("policy", "shorter_s", "quota_gpus", "nested", "most"),
    [
        ("fifo", 0.0, 4, False, 0),
        ("fair", 0.0, 4, False, 0),
        ("srtf", 0.0, 4, False, 0),
        ("srtf", 4.0, 4, False, 0),
        ("srtf", 4.0, 1, False, 0),
        ("srtf", 0.0, 4, True, 8 + 2 * 2 * waiting_lines._FEWEST),
        ("fair", 0.0, 4, True, 8 + 2 * 2 * waiting_lines._FEWEST),
    ],
)
def test_a_round_looks_at_few_of_many_that_wait(
    policy: str, shorter_s: float, quota_gpus: int, nested: bool, most: int
) -> None:
    """However long the lines are: at their heads, and in queues inside others also at running jobs."""
    jobs = [
        SimJob(arrival_s=float(row), num_gpus=1, run_s=1000.0 - shorter_s * row, queue=row % 2 + nested)
        for row in range(200)
    ]
    queue = QueueRow(quota_gpus=quota_gpus, max_gpus=10_000, parent=0 if nested else NO_ROW)
    above = [QueueRow(quota_gpus=8, max_gpus=10_000)] if nested else []
    tables = snapshot_of([], [ServerRow()], [*above, queue, queue])
    numbers: list[int] = []
    seated = QueueRounds._seated

    def noted(
        self: QueueRounds, world: World, rows: IntArray, behind: IntArray | None = None
    ) -> tuple[Line, Selection]:
        numbers.append(len(rows))
        return seated(self, world, rows, behind)

    with patch.object(QueueRounds, "_seated", noted):
        outcome = simulate(Replay(jobs, tables.servers, tables.queues, build_config(policy=policy), round_s=60.0))
    numbers.sort()

    assert outcome.records.preemptions.any() == bool(shorter_s)
    assert numbers[len(numbers) // 2] <= most if nested else not numbers


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
def test_a_round_that_seats_all_jobs_on_free_gpus_walks_over_none(policy: str) -> None:
    """Also where the order may stop jobs, and where queues ask for more than their quota."""
    jobs = [SimJob(arrival_s=30.0 * (row // 4), num_gpus=1, run_s=45.5 + row % 20, queue=row % 2) for row in range(200)]
    tables = snapshot_of([], [ServerRow(num_gpus=16)], [QueueRow(quota_gpus=3, max_gpus=10_000)] * 2)
    with patch.object(QueueRounds, "_seated", side_effect=AssertionError("a walk over all jobs")):
        outcome = simulate(Replay(jobs, tables.servers, tables.queues, build_config(policy=policy), round_s=60.0))

    assert np.isfinite(outcome.records.end_s).all()


@pytest.mark.parametrize("policy", ["srsf", "srtf"])
def test_one_gpu_is_taken_from_a_weaker_job_without_a_search(policy: str) -> None:
    """The weakest job of the queues it may be taken from is known."""
    jobs = [SimJob(arrival_s=float(row), num_gpus=1, run_s=1000.0 - 4.0 * row, queue=row % 2) for row in range(100)]
    tables = snapshot_of([], [ServerRow()], [QueueRow(quota_gpus=3, max_gpus=10_000)] * 2)
    with patch.object(PreemptionRoom, "rows", side_effect=AssertionError("a search")):
        outcome = simulate(Replay(jobs, tables.servers, tables.queues, build_config(policy=policy), round_s=60.0))

    assert outcome.records.preemptions.any()


def test_rounds_of_a_policy_that_promotes_no_job_look_for_none() -> None:
    """``las`` without ``promote_after``: the cost of a round does not grow with all jobs that ever arrive."""
    jobs = [SimJob(arrival_s=float(row), num_gpus=1, run_s=5000.0, queue=row % 2) for row in range(20)]
    tables = snapshot_of([], [ServerRow()], [QueueRow(quota_gpus=3, max_gpus=10_000)] * 2)
    with patch.object(Las, "promoted", side_effect=AssertionError("looked at all jobs")):
        outcome = simulate(Replay(jobs, tables.servers, tables.queues, build_config(policy="las"), round_s=60.0))

    assert np.isfinite(outcome.records.end_s).all()


def test_no_overtaking_is_forecast_where_keys_do_not_follow_the_time_that_remains() -> None:
    """Keys of all jobs tell it once, with all of their work to do and with none."""
    jobs = [SimJob(arrival_s=float(row), num_gpus=1, run_s=900.0 - row, queue=row % 2) for row in range(60)]
    tables = snapshot_of([], [ServerRow()], [QueueRow(quota_gpus=3, max_gpus=10_000)] * 2)
    after_s, found = Overtaking.after_s, list[float]()

    def looks_at_none(overtaking: Overtaking, world: World, rows: object = None) -> float:
        found.append(after_s(overtaking, world, Mock(side_effect=AssertionError("looked at jobs"))))
        return found[-1]

    with patch.object(Overtaking, "after_s", looks_at_none):
        simulate(Replay(jobs, tables.servers, tables.queues, build_config(policy="fifo"), round_s=60.0))

    assert set(found) == {math.inf}


def test_many_queues_are_really_served_by_a_kept_board() -> None:
    """Quotas, limits, drifting keys and cores that bind need no whole round; other mechanisms and introspection do."""
    job = SimJob(arrival_s=0.0, num_gpus=1, run_s=10.0)
    tables = snapshot_of([], [ServerRow()], [QueueRow(quota_gpus=4), QueueRow(max_gpus=2, may_borrow=False)])
    what = (tables.servers, tables.queues)
    for policy in ORDERS:
        config = build_config(policy=policy, mechanism="tune")
        planner, why = replay_plan(config, Columns([job]), *what)
        assert isinstance(planner, QueueRounds)
        assert "not single-queue rounds: there are 2 queues" in why
        assert isinstance(replay_plan(config, Columns([replace(job, min_cpus=20.0)]), *what)[0], QueueRounds)
    config = build_config(policy="srtf", mechanism="proportional")
    for chosen, jobs, told in (
        (build_config(policy="srtf", mechanism="opt"), [job], "opt gives cores and memory over all servers at once"),
        (build_config(policy="srtf", introspection=("growth",)), [job], "introspection tries changes"),
    ):
        planner, why = replay_plan(chosen, Columns(jobs), *what)
        assert isinstance(planner, WholeRounds)
        assert told in why


@pytest.mark.parametrize("policy", ["fifo", "srtf", "ftf"])
@quick
@given(cluster=clusters(), at_s=st.integers(0, 2000))
def test_an_interrupted_replay_of_many_queues_ends_as_one_in_one_piece(
    tmp_path_factory: pytest.TempPathFactory,
    policy: str,
    cluster: tuple[list[SimJob], list[ServerRow], list[QueueRow]],
    at_s: int,
) -> None:
    """A state that is written and taken up again changes nothing, to the hash."""
    jobs, rows, queues = cluster
    tables = snapshot_of([], rows, queues)
    config = build_config(policy=policy, mechanism="tune")
    path = tmp_path_factory.mktemp("state") / "replay.npz"
    what = (jobs, tables.servers, tables.queues, config)
    whole = simulate(Replay(*what, round_s=60.0, until_s=20_000.0))
    simulate(Replay(*what, round_s=60.0, until_s=float(at_s)), states=States(save_to=path))
    continued = simulate(Replay(*what, round_s=60.0, until_s=20_000.0), states=States(continue_from=path))

    assert continued.plan_hash == whole.plan_hash
    assert continued.records.end_s.tolist() == whole.records.end_s.tolist()
    assert np.array_equal(continued.records.preemptions, whole.records.preemptions)


@pytest.mark.parametrize(
    ("policy", "quota_gpus", "min_run_s", "reclaim_after_s"), [("srtf", 0, 90.0, 0.0), ("fifo", 8, 0.0, 100.0)]
)
def test_rounds_are_not_skipped_when_a_right_begins(
    policy: str, quota_gpus: int, min_run_s: float, reclaim_after_s: float
) -> None:
    """A job that was too young to be stopped, and a quota that may be taken back after a while, are seen to in time."""
    long, short = (
        SimJob(arrival_s=0.0, num_gpus=8, run_s=9000.0),
        SimJob(arrival_s=30.0, num_gpus=8, run_s=10.0, queue=1),
    )
    tables = snapshot_of([], [ServerRow()], [QueueRow(), QueueRow(quota_gpus=quota_gpus)])
    config = build_config(policy=policy, mechanism="proportional")
    config = replace(config, min_run_s=min_run_s, reclaim_after_s=reclaim_after_s)
    outcomes = [
        simulate(Replay([long, short], tables.servers, tables.queues, config, round_s=30.0, incremental=skip))
        for skip in (True, False)
    ]

    assert outcomes[0].plan_hash == outcomes[1].plan_hash
    assert 90.0 <= outcomes[0].records.first_start_s[1] <= 180.0
