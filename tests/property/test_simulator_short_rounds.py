"""Rounds made from what changed give what rounds from scratch give, to the hash."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.profile import Profile
from scheduler.core.round.capabilities import FillsGroups, Steady
from scheduler.mechanisms import MECHANISMS
from scheduler.policies import POLICIES
from scheduler.simulator.incremental.moving_order_rounds import MovingOrderRounds
from scheduler.simulator.incremental.queue_rounds import QueueRounds
from scheduler.simulator.incremental.replay_plan import replay_plan
from scheduler.simulator.incremental.single_queue_rounds import SingleQueueRounds
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.outcome import Outcome
from tests.support.simulator.strategies import GIB, QueueRow, ServerRow, snapshot_of
from tests.support.suite.examples import tried

quick = tried(4)

HUNGRY = Profile(
    cpus_per_gpu=(1.0, 3.0, 9.0),
    memory_bytes_per_gpu=(16 * GIB, 64 * GIB),
    relative_speed=((0.3, 0.4), (0.9, 1.0), (1.5, 2.0)),
    skew=0.6,
)
MODEST = Profile(cpus_per_gpu=(1.0,), memory_bytes_per_gpu=(16 * GIB,), relative_speed=((1.0,),))
OPTIONS: dict[str, dict[str, object]] = {
    "las": {"queue_limits_gpu_s": [200, 1500]},
    "gittins": {"queue_limits_gpu_s": [600], "history_gpu_s": [60, 150, 400, 1000]},
    "priority": {"preemptive": True},
}
# What a replay of one queue makes from what changed.
SHORT = {
    "policies": {"fifo", "priority", "srtf", "srsf", "las", "gittins", "fair", "drf"},
    "mechanisms": {"proportional", "tune"},
    "localities": {"consolidate", "any", "skew"},
}


@st.composite
def histories(draw: st.DrawFn) -> list[SimJob]:
    """Two to thirty jobs of a few users, more than the servers can hold at once; some insist on cores."""
    jobs = []
    tight = draw(st.sampled_from([False, False, True]))
    weight = {owner: draw(st.sampled_from([1.0, 1.0, 0.5, 2.0])) for owner in range(draw(st.integers(1, 4)))}
    for _ in range(draw(st.integers(2, 30))):
        failures = (Failure(after_s=25.0, cause="user"),) if draw(st.integers(0, 7)) == 0 else ()
        num_gpus = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 8, 12]))
        insists = tight and draw(st.booleans())
        jobs.append(
            SimJob(
                arrival_s=float(draw(st.integers(0, 900))),
                num_gpus=num_gpus,
                min_cpus=draw(st.sampled_from([1.0, 4.0, 7.5])) * num_gpus if insists else 0.0,
                min_memory_bytes=draw(st.sampled_from([0, 70, 130])) * float(GIB * num_gpus) if insists else 0.0,
                run_s=draw(st.sampled_from([20.0, 45.5, 120.0, 333.3, 1000.0])),
                max_servers=draw(st.sampled_from([0, 1, 2])),
                priority=float(draw(st.integers(0, 2))),
                profile=draw(st.sampled_from([Profile(), HUNGRY, MODEST])),
                failures=failures,
                owner=(owner := draw(st.sampled_from(sorted(weight)))),
                weight=weight[owner],
            )
        )
    return jobs


@st.composite
def servers(draw: st.DrawFn) -> list[ServerRow]:
    """One to three servers."""
    sizes = draw(st.lists(st.sampled_from([4, 8]), min_size=1, max_size=3))
    return [ServerRow(num_gpus=size, num_cpus=3.0 * size, memory_bytes=64 * GIB * size) for size in sizes]


def replay(
    jobs: list[SimJob], rows: list[ServerRow], names: tuple[str, str, str], *, round_s: float | None, skip: bool
) -> Outcome:
    """Replay on one queue."""
    policy, locality, mechanism = names
    tables = snapshot_of([], rows, [QueueRow()])
    config = build_config(policy=policy, policy_options=OPTIONS.get(policy), locality=locality, mechanism=mechanism)
    return simulate(
        Replay(jobs, tables.servers, tables.queues, config, round_s=round_s, restart_s=5.0, incremental=skip)
    )


@pytest.mark.parametrize("mechanism", sorted(SHORT["mechanisms"]))
@pytest.mark.parametrize("locality", sorted(SHORT["localities"]))
@pytest.mark.parametrize("policy", sorted(SHORT["policies"]))
@quick
@given(jobs=histories(), rows=servers(), round_s=st.sampled_from([30.0, 60.0, None]))
def test_skipping_changes_nothing(
    policy: str, locality: str, mechanism: str, jobs: list[SimJob], rows: list[ServerRow], round_s: float | None
) -> None:
    """Starts, ends, preemptions and every change of every plan are the same when all rounds are planned whole."""
    names = (policy, locality, mechanism)
    short, whole = (replay(jobs, rows, names, round_s=round_s, skip=skip) for skip in (True, False))

    assert short.plan_hash == whole.plan_hash
    assert short.records.end_s.tolist() == whole.records.end_s.tolist()
    assert short.records.first_start_s.tolist() == whole.records.first_start_s.tolist()
    assert short.records.preemptions.tolist() == whole.records.preemptions.tolist()
    assert short.records.service_gpu_s.tolist() == whole.records.service_gpu_s.tolist()
    assert short.rounds == whole.rounds or round_s is None
    assert short.planned <= whole.planned


MOVING: list[tuple[str, dict[str, object]]] = [
    ("ftf", {}),
    ("ftf", {"lease_s": 0}),
    ("ftf", {"lease_s": 150}),
    ("fair", {"preemptive": True}),
    ("drf", {"by": "job"}),
    ("drf", {"credit_s": 300}),
    ("tetris", {"score": "alignment"}),
    ("tetris", {"fairness": 0.25}),
]


@pytest.mark.parametrize("mechanism", sorted(SHORT["mechanisms"]))
@pytest.mark.parametrize(("policy", "options"), MOVING)
@quick
@given(
    jobs=histories(),
    rows=servers(),
    locality=st.sampled_from(sorted(SHORT["localities"])),
    preempt=st.sampled_from([True, True, False]),
)
def test_an_order_made_anew_changes_nothing(
    policy: str,
    options: dict[str, object],
    mechanism: str,
    jobs: list[SimJob],
    rows: list[ServerRow],
    locality: str,
    preempt: bool,
) -> None:
    """Where the line moves by itself the walk from what changed gets another order in each round. Same plans."""
    tables = snapshot_of([], rows, [QueueRow()])
    config = build_config(policy=policy, policy_options=options, locality=locality, mechanism=mechanism)
    config = replace(config, preempt=preempt)
    what = (tables.servers, tables.queues, config)
    insists = any(job.min_cpus or job.min_memory_bytes for job in jobs)
    if config.policy.preemptive and preempt and not insists:
        planner, why = replay_plan(config, Columns(jobs), tables.servers, tables.queues)
        assert isinstance(planner, MovingOrderRounds)
        assert "not single-queue rounds: " in why
    short, whole = (
        simulate(Replay(jobs, *what, round_s=60.0, restart_s=5.0, until_s=20_000.0, incremental=s))
        for s in (True, False)
    )

    assert short.plan_hash == whole.plan_hash
    assert short.records.end_s.tolist() == whole.records.end_s.tolist()
    assert short.records.preemptions.tolist() == whole.records.preemptions.tolist()
    assert short.planned <= whole.planned


def test_short_rounds_are_really_used() -> None:
    """One queue without limits, a steady policy and a mechanism by server: no whole round is planned."""
    tables = snapshot_of([], [ServerRow()], [QueueRow()])
    columns = Columns([SimJob(arrival_s=0.0, num_gpus=1, run_s=10.0)])
    for policy in SHORT["policies"]:
        assert isinstance(POLICIES[policy](), Steady | FillsGroups)
        for mechanism in SHORT["mechanisms"]:
            config = build_config(policy=policy, mechanism=mechanism)
            planner, _ = replay_plan(config, columns, tables.servers, tables.queues)
            assert isinstance(planner, SingleQueueRounds)
    for mechanism in set(MECHANISMS) - SHORT["mechanisms"]:
        config = build_config(policy="srtf", mechanism=mechanism)
        planner, why = replay_plan(config, columns, tables.servers, tables.queues)
        assert isinstance(planner, WholeRounds)
        assert f"{mechanism} gives cores and memory over all servers at once" in why


def test_what_binds_beside_gpus_is_left_to_the_general_walk() -> None:
    """A quota, a limit, cores that a gang insists on where it may use only so many servers."""
    config = build_config(policy="srtf", mechanism="proportional")
    job = SimJob(arrival_s=0.0, num_gpus=1, run_s=10.0)
    for queue, jobs, told in (
        (QueueRow(quota_gpus=4), [job], "the queue has a quota"),
        (QueueRow(max_gpus=4), [job], "the queue may not hold all GPUs"),
        (QueueRow(), [replace(job, min_cpus=20.0, max_servers=2)], "jobs insist on cores or memory"),
    ):
        tables = snapshot_of([], [ServerRow()], [queue])
        planner, why = replay_plan(config, Columns(jobs), tables.servers, tables.queues)
        assert isinstance(planner, QueueRounds | WholeRounds)
        assert f"not single-queue rounds: {told}" in why
        assert f"not moving-order rounds: {told}" in why
    assert math.isfinite(simulate(Replay([job], tables.servers, tables.queues, config)).records.end_s[0])


@pytest.mark.parametrize(("policy", "kind"), [("srtf", SingleQueueRounds), ("ftf", MovingOrderRounds)])
def test_cores_that_bind_need_no_whole_round(policy: str, kind: type) -> None:
    """In one queue such jobs are looked at as any: those that arrive, and those behind jobs that left."""
    job = SimJob(arrival_s=0.0, num_gpus=1, run_s=10.0, min_cpus=20.0)
    tables = snapshot_of([], [ServerRow()], [QueueRow()])
    planner, _ = replay_plan(build_config(policy=policy), Columns([job]), tables.servers, tables.queues)
    assert type(planner) is kind


@pytest.mark.parametrize(("weight", "kind"), [(2.0, SingleQueueRounds), (3.0, MovingOrderRounds)])
def test_lines_of_groups_are_kept_where_sums_are_exact(weight: float, kind: type) -> None:
    """A share that depends on the order in which it is summed up is computed as the policy does it."""
    config = build_config(policy="drf", mechanism="proportional")
    jobs = [SimJob(arrival_s=at_s, num_gpus=4, run_s=100.0, owner=int(at_s), weight=weight) for at_s in (0.0, 1.0, 2.0)]
    tables = snapshot_of([], [ServerRow()], [QueueRow()])
    planner, _ = replay_plan(config, Columns(jobs), tables.servers, tables.queues)

    assert type(planner) is kind


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "ftf", "drf"])
@tried(5)
@given(jobs=histories(), rows=servers(), at_s=st.integers(0, 2000))
def test_an_interrupted_replay_ends_as_one_in_one_piece(
    tmp_path_factory: pytest.TempPathFactory, policy: str, jobs: list[SimJob], rows: list[ServerRow], at_s: int
) -> None:
    """A state that is written and taken up again changes nothing, to the hash."""
    tables = snapshot_of([], rows, [QueueRow()])
    config = build_config(policy=policy, policy_options=OPTIONS.get(policy), mechanism="tune")
    path = tmp_path_factory.mktemp("state") / "replay.npz"
    what = (jobs, tables.servers, tables.queues, config)
    whole = simulate(Replay(*what, round_s=60.0))
    simulate(Replay(*what, round_s=60.0, until_s=float(at_s)), states=States(save_to=path))
    continued = simulate(Replay(*what, round_s=60.0), states=States(continue_from=path))

    assert continued.plan_hash == whole.plan_hash
    assert continued.records.end_s.tolist() == whole.records.end_s.tolist()
    assert continued.records.queueing_s.tolist() == whole.records.queueing_s.tolist()
    assert continued.records.rho == pytest.approx(whole.records.rho, nan_ok=True)


@pytest.mark.parametrize("policy", ["srtf", "ftf", "drf"])
def test_what_a_neighbour_left_is_given_out_after_an_interruption(tmp_path: Path, policy: str) -> None:
    """A job ends between the last round and the moment of the interruption: its cores go to the other one."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=4, run_s=run_s, profile=HUNGRY) for run_s in (50.0, 1000.0)]
    tables = snapshot_of([], [ServerRow(num_gpus=8, num_cpus=24.0, memory_bytes=512 * GIB)], [QueueRow()])
    what = (jobs, tables.servers, tables.queues, build_config(policy=policy, mechanism="tune"))
    whole = simulate(Replay(*what, round_s=60.0))
    early_s = float(whole.records.end_s.min())
    simulate(Replay(*what, round_s=60.0, until_s=early_s + 1.0), states=States(save_to=tmp_path / "replay.npz"))
    continued = simulate(Replay(*what, round_s=60.0), states=States(continue_from=tmp_path / "replay.npz"))

    assert early_s % 60.0 < 58.0
    assert continued.plan_hash == whole.plan_hash
    assert continued.records.end_s.tolist() == whole.records.end_s.tolist()


@pytest.mark.parametrize("lease_s", [150.0, 600.0])
@pytest.mark.parametrize("mechanism", sorted(SHORT["mechanisms"]))
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_in_waves_of_many_jobs(seed: int, mechanism: str, lease_s: float) -> None:
    """How weak a job gets under leases depends on how many others there are: a hundred come at once, and go again."""
    draw = random.Random(seed)
    jobs = [
        SimJob(
            arrival_s=wave * 3_000.0 + draw.uniform(0.0, 900.0),
            num_gpus=draw.choice([1, 1, 2, 4, 8]),
            run_s=draw.choice([60.0, 300.0, 1_500.0]) * draw.uniform(0.5, 1.5),
            profile=draw.choice([Profile(), HUNGRY, MODEST]),
        )
        for wave in range(4)
        for _ in range(draw.choice([10, 100]))
    ]
    rows = [ServerRow(num_gpus=8, num_cpus=24.0, memory_bytes=512 * GIB) for _ in range(4)]
    tables = snapshot_of([], rows, [QueueRow()])
    config = build_config(policy="ftf", policy_options={"lease_s": lease_s}, mechanism=mechanism)
    short, whole = (
        simulate(Replay(jobs, tables.servers, tables.queues, config, round_s=60.0, restart_s=20.0, incremental=skip))
        for skip in (True, False)
    )

    assert short.records.preemptions.sum() > 0
    assert short.plan_hash == whole.plan_hash
