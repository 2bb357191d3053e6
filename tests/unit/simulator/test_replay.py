"""Small workloads replayed: worked examples of the papers, and what a replay must always be."""

import csv
import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.changes import Changes
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.profile import Profile, parse_profile
from scheduler.core.operations.failures import RetryRules
from scheduler.simulator.incremental.single_queue_rounds import SingleQueueRounds
from scheduler.simulator.incremental.walks.single_queue_walk import SingleQueueWalk
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.saving import States, UnusableStateError
from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.state.begun import Begun, jobs_of
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.state.retries import ByRules
from scheduler.simulator.state.world import World
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

PROFILES = {
    name: parse_profile(data)
    for name, data in json.loads(Path("fixtures/profiles/synergy.json").read_text(encoding="utf-8")).items()
}
# Tiresias example A: (GPUs, run time)
TALK = {"J1": (2, 2.0), "J2": (1, 8.0), "J3": (2, 6.0)}


def run(
    jobs: list[SimJob],
    servers: list[ServerRow],
    policy: str,
    *,
    mechanism: str = "proportional",
    options: dict[str, object] | None = None,
    round_s: float | None = None,
    restart_s: float = 0.0,
    leave_s: float = 0.0,
) -> Outcome:
    """Replay a workload on one queue."""
    tables = snapshot_of([], servers, [QueueRow()])
    config = build_config(policy=policy, policy_options=options, mechanism=mechanism)
    what = (jobs, tables.servers, tables.queues, config)
    return simulate(Replay(*what, round_s=round_s, restart_s=restart_s, leave_s=leave_s))


def _gpus(count: int) -> ServerRow:
    return ServerRow(num_gpus=count, num_cpus=3.0 * count, memory_bytes=62.5e9 * count)


def _job(arrival_s: float, num_gpus: int, run_s: float, profile: Profile | None = None) -> SimJob:
    return SimJob(arrival_s=arrival_s, num_gpus=num_gpus, run_s=run_s, profile=profile or Profile())


def test_what_still_runs_holds_its_gpus_until_the_end() -> None:
    """A replay that is cut off is drawn to its last moment, whatever changed last before it."""
    tables = snapshot_of([], [_gpus(4)], [QueueRow()])
    what = ([_job(0.0, 2, 10.0), _job(0.0, 1, 9_000.0)], tables.servers, tables.queues, build_config(policy="fifo"))
    outcome = simulate(Replay(*what, round_s=60.0, until_s=600.0, keep_series=True))
    series = outcome.series

    assert series is not None
    assert (series.at_s[-1], series.allocated_gpus[-1]) == (outcome.until_s, 1.0)
    assert float((series.allocated_gpus[:-1] * np.diff(series.at_s)).sum()) == outcome.records.service_gpu_s.sum()


@pytest.mark.parametrize(
    ("order", "average"),
    [
        (("J1", "J2", "J3"), 10.00),
        (("J1", "J3", "J2"), 10.00),
        (("J3", "J1", "J2"), 10.67),
        (("J2", "J1", "J3"), 11.33),
        (("J2", "J3", "J1"), 12.00),
        (("J3", "J2", "J1"), 12.00),
    ],
)
def test_the_tiresias_example_in_every_order_of_arrival(order: tuple[str, ...], average: float) -> None:
    """Tiresias example A: discretized 2D-LAS with K=2 and Q=4 on two GPUs."""
    jobs = [_job(0.0, *TALK[name]) for name in order]

    outcome = run(jobs, [_gpus(2)], "las", options={"queue_limits_gpu_s": [4]})

    assert round(summarize(outcome)["avg_jct_s"], 2) == average


def test_the_tiresias_example_step_by_step() -> None:
    """Tiresias example A: J1 [0,2), J2 [2,6), J3 [6,8), J2 [8,12), J3 [12,16)."""
    outcome = run([_job(0.0, *TALK[name]) for name in TALK], [_gpus(2)], "las", options={"queue_limits_gpu_s": [4]})

    assert outcome.records.end_s.tolist() == [2, 12, 16]
    assert outcome.records.first_start_s.tolist() == [0, 2, 6]
    assert outcome.records.preemptions.tolist() == [0, 1, 1]


def test_a_victim_that_fits_elsewhere_was_moved_and_not_stopped() -> None:
    """Each job is alone on a server when a gang needs a whole one: the longer goes to the other at once."""
    gang = replace(_job(20.0, 4, 5.0), max_servers=1)
    jobs = [_job(0.0, 1, 500.0), _job(0.0, 3, 10.0), _job(1.0, 1, 1000.0), gang]
    moved = run(jobs, [_gpus(4), _gpus(4)], "srtf").records
    assert (moved.preemptions.tolist(), moved.moves.tolist()) == ([0, 0, 1, 0], [0, 0, 1, 0])
    assert moved.queueing_s.tolist() == [0.0] * 4

    stopped = run([_job(0.0, 4, 100.0), gang], [_gpus(4)], "srtf").records
    assert (stopped.preemptions.tolist(), stopped.moves.tolist()) == ([1, 0], [0, 0])


def test_a_promoted_job_begins_again_at_the_top() -> None:
    """Tiresias example C: after 600 s of running and 1200 s of waiting it runs again beside newer jobs."""
    jobs = [_job(0, 1, 10_000.0), *[_job(600.0 * n, 1, 600.0) for n in range(1, 12)]]

    never = run(jobs, [_gpus(1)], "las", options={"queue_limits_gpu_s": [600]})
    promoted = run(jobs, [_gpus(1)], "las", options={"queue_limits_gpu_s": [600], "promote_after": 2})

    assert never.records.queueing_s[1:].max() == 0
    assert promoted.records.preemptions[0] > never.records.preemptions[0]
    assert promoted.records.first_start_s[3] == 1_800 + 600


@pytest.mark.parametrize(("mechanism", "seconds"), [("proportional", 2_400.0), ("tune", 1_000.0)])
def test_synergy_example_b_runs_its_jobs_faster(mechanism: str, seconds: float) -> None:
    """Synergy example B: two ResNet18 of 2400 s run at 2.4 times their speed under tune, the others at 1."""
    names = ["resnet18"] * 2 + ["gnmt"] * 3 + ["lstm"] * 3
    jobs = [_job(0.0, 1, 2_400.0 if name == "resnet18" else 1_000.0, PROFILES[name]) for name in names]

    outcome = run(jobs, [ServerRow()], "fifo", mechanism=mechanism)

    assert summarize(outcome)["makespan_s"] == pytest.approx(seconds)


def test_shortest_first_beats_first_come_on_average() -> None:
    """A long and three short jobs on one GPU: FIFO and SRTF by hand."""
    jobs = [_job(0, 1, 100), _job(1, 1, 10), _job(1, 1, 20), _job(1, 1, 30)]

    fifo, srtf = run(jobs, [_gpus(1)], "fifo"), run(jobs, [_gpus(1)], "srtf")

    assert fifo.records.end_s.tolist() == [100, 110, 130, 160]
    assert srtf.records.end_s.tolist() == [160, 11, 31, 61]
    assert srtf.records.preemptions[0] == 1


def test_rounds_start_jobs_at_their_boundaries() -> None:
    """With a period jobs start at its multiples only; they end whenever they are done."""
    outcome = run([_job(10, 1, 100), _job(20, 1, 100)], [_gpus(1)], "fifo", round_s=300)

    assert [*zip(outcome.records.first_start_s, outcome.records.end_s, strict=True)] == [(300, 400), (600, 700)]


def test_an_order_that_always_moves_is_looked_at_on_every_beat_only() -> None:
    """On a live cluster nobody looks between two beats unless something arrives or ends."""
    tables = snapshot_of([], [_gpus(1)], [QueueRow()])
    jobs = [_job(0.0, 1, 20_000.0), _job(10.0, 1, 20_000.0)]
    outcome = simulate(
        Replay(jobs, tables.servers, tables.queues, build_config(policy="ftf"), beat_s=300.0, keep_stays=True)
    )

    assert np.isfinite(outcome.records.end_s).all()
    assert outcome.planned <= 40_000 / 300 + 5
    assert outcome.stays is not None
    turns = outcome.stays.begin_s[2:]
    assert len(turns)
    assert all(begin_s % 300 == 0 or begin_s in outcome.records.end_s for begin_s in turns.tolist())


def test_a_restart_costs_what_it_costs() -> None:
    """Every start after the first loses restart_s; the first costs nothing."""
    jobs = [_job(0, 1, 100), _job(10, 1, 10)]

    assert run(jobs, [_gpus(1)], "srtf", restart_s=30).records.end_s[0] == 140


def test_job_waits_until_the_stopped_one_has_left() -> None:
    """A job begins 4 s after its place is taken from another; a place that is free costs nothing."""
    jobs = [_job(0, 1, 100), _job(10, 1, 10), _job(10, 1, 5)]

    on_one = run(jobs[:2], [_gpus(1)], "srtf", restart_s=30, leave_s=4).records
    assert on_one.end_s.tolist() == [144, 24]
    on_two = run([_job(0, 1, 200), *jobs], [_gpus(1), _gpus(1)], "srtf", leave_s=4).records
    assert on_two.end_s.tolist() == [214, 109, 24, 19]


@pytest.mark.parametrize("skip", [True, False])
def test_a_moment_missed_by_dust_ends_no_replay(*, skip: bool) -> None:
    """Without a grid: the second gang is promoted 50 s after 477.3 s, which floats put 5.7e-14 s after 527.3 s."""
    jobs = [_job(94.0, 1, 333.3), _job(248.0, 8, 100.0), _job(364.0, 8, 333.3)]
    tables = snapshot_of([], [_gpus(8)], [QueueRow(quota_gpus=7)])
    config = build_config(policy="las", policy_options={"queue_limits_gpu_s": [200.0], "promote_after": 2.0})

    outcome = simulate(Replay(jobs, tables.servers, tables.queues, config, incremental=skip))

    assert np.isfinite(outcome.records.end_s).all()


def test_the_same_workload_gives_the_same_plans() -> None:
    """Deterministic to the hash of every plan."""
    jobs = [_job(float(7 * n % 50), 1 + n % 4, 40.0 + n) for n in range(20)]

    first, second = (run(jobs, [_gpus(4)] * 2, "las", mechanism="tune") for _ in range(2))

    assert first.plan_hash == second.plan_hash
    assert first.records.end_s.tolist() == second.records.end_s.tolist()
    assert first.planned > 10


def test_jobs_that_can_never_run_are_counted() -> None:
    """A gang wider than the cluster is left over, the replay ends and says so."""
    for round_s in (None, 60.0):
        outcome = run([_job(0, 16, 10), _job(0, 1, 10)], [_gpus(8)], "fifo", round_s=round_s)

        assert (summarize(outcome)["finished"], summarize(outcome)["unfinished"]) == (1, 1)
        assert outcome.records.end_s.tolist() == [float("inf"), 10.0]


def test_service_is_conserved() -> None:
    """Waiting plus running is the completion time; without profiles running is the run time."""
    jobs = [_job(float(n % 5), 1 + n % 3, 10.0 + n) for n in range(30)]
    for policy in ("fifo", "srtf", "las"):
        outcome = run(jobs, [_gpus(4)], policy)
        run_s = [job.run_s for job in jobs]
        assert outcome.records.jct_s == pytest.approx(outcome.records.queueing_s + run_s)


def test_a_public_trace_gives_the_published_completion_times() -> None:
    """60 jobs of the Tiresias simulator on 16 GPUs: 190.7 s on average under discretized 2D-LAS, makespan 3271 s."""
    path = Path("fixtures/traces/tiresias_60_job.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    jobs = [_job(float(row["submit_time"]), int(row["num_gpu"]), float(row["duration"])) for row in rows]

    outcome = run(jobs, [_gpus(4)] * 4, "las", options={"queue_limits_gpu_s": [3250, 7200, 18_000]})

    assert summarize(outcome)["avg_jct_s"] == pytest.approx(190.7, rel=0.03)
    assert summarize(outcome)["makespan_s"] == pytest.approx(3271, rel=0.03)


def _busy(count: int = 60) -> list[SimJob]:
    """Jobs of one to eight GPUs that arrive faster than two servers of four serve them; some fail once."""
    failing = (Failure(after_s=30.0, cause="network"),)
    return [
        replace(_job(13.0 * n, (1, 2, 4, 3, 8)[n % 5], 60.0 + 37.0 * (n % 7)), failures=failing if n % 9 == 4 else ())
        for n in range(count)
    ]


@pytest.mark.parametrize(("policy", "round_s"), [("fifo", 60.0), ("las", None), ("srtf", 60.0), ("afs-l", 60.0)])
def test_reasons_of_waiting_add_up_and_change_nothing(policy: str, round_s: float | None) -> None:
    """Every second without GPUs has one reason; plans and figures are those of a replay without them."""
    tables = snapshot_of([], [_gpus(4)] * 2, [QueueRow()])
    what = (_busy(), tables.servers, tables.queues, build_config(policy=policy, mechanism="proportional"))
    retries = ByRules(rules=RetryRules())
    bare = simulate(Replay(*what, round_s=round_s, retries=retries))
    told = simulate(Replay(*what, round_s=round_s, retries=retries, keep_reasons=True))
    records = told.records

    assert (told.plan_hash, told.planned, told.rounds) == (bare.plan_hash, bare.planned, bare.rounds)
    assert records.queueing_s.tolist() == bare.records.queueing_s.tolist()
    assert sum(records.waited_s.values()) == pytest.approx(records.queueing_s)
    assert bare.records.waited_s == {}
    assert records.waited_s["backoff"].max() > 0
    assert ("new" in records.waited_s) == (round_s is not None)


def test_each_second_of_waiting_has_its_own_reason() -> None:
    """One GPU is free on each of two servers, a job needs two on one: fragmentation; all are needed: the order."""
    jobs = [
        *(_job(0, 3, run_s) for run_s in (100, 300)),
        replace(_job(10, 2, 50), max_servers=1),
        _job(120, 8, 10),
    ]

    outcome = run_told(jobs, [_gpus(4)] * 2)

    waited_s = {reason: waited.tolist() for reason, waited in outcome.records.waited_s.items()}
    assert waited_s == {"fragmentation": [0, 0, 90, 0], "behind_policy_order": [0, 0, 0, 180]}


def run_told(jobs: list[SimJob], servers: list[ServerRow]) -> Outcome:
    """Replay under fifo with the reasons of waiting."""
    tables = snapshot_of([], servers, [QueueRow()])
    config = build_config(policy="fifo", mechanism="proportional")
    return simulate(Replay(jobs, tables.servers, tables.queues, config, keep_reasons=True))


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "maxmin"])
@pytest.mark.parametrize("mechanism", ["proportional", "tune"])
def test_every_round_can_be_checked(policy: str, mechanism: str) -> None:
    """Each planned round is also planned from scratch, with its invariants; the outcome is the same."""
    tables = snapshot_of([], [_gpus(4)] * 2, [QueueRow()])
    what = (_busy(), tables.servers, tables.queues, build_config(policy=policy, mechanism=mechanism))

    checked, bare = (simulate(Replay(*what, round_s=60.0, check_every=every)) for every in (1, 0))

    assert (checked.plan_hash, checked.planned) == (bare.plan_hash, bare.planned)


def test_a_short_round_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that forgets to look again at who waits is caught in the round where it matters."""
    tables = snapshot_of([], [_gpus(4)], [QueueRow()])
    what = (_busy(), tables.servers, tables.queues, build_config(policy="srtf", mechanism="proportional"))
    monkeypatch.setattr(SingleQueueWalk, "wait", lambda *_: None)

    assert not np.isfinite(simulate(Replay(*what)).records.end_s).any()
    with pytest.raises(PlanInvariantError, match="differs from a round from scratch: job 0 starts with"):
        simulate(Replay(*what, check_every=1))


def test_a_round_that_breaks_a_safety_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds between two comparisons are held against the rules, too."""
    tables = snapshot_of([], [_gpus(4)], [QueueRow()])
    what = (_busy(), tables.servers, tables.queues, build_config(policy="srtf", mechanism="proportional"))
    plan, rounds = SingleQueueRounds.plan, count()

    def half_a_gang(planner: SingleQueueRounds, world: World) -> Changes:
        changes = plan(planner, world)
        if next(rounds):
            changes.started = dict.fromkeys(changes.started, ((0, 1, 0.0, 0.0),))
        return changes

    monkeypatch.setattr(SingleQueueRounds, "plan", half_a_gang)

    with pytest.raises(PlanInvariantError, match="gang is not whole"):
        simulate(Replay(*what, check_every=1_000))


def test_a_state_is_taken_up_by_the_same_replay_only(tmp_path: Path) -> None:
    """Another workload, cluster or configuration is refused, however alike; so is a file of another kind."""
    tables, wide = (snapshot_of([], [_gpus(4)] * count, [QueueRow()]) for count in (2, 3))
    jobs, other_jobs = _busy(), [*_busy()[:-1], _job(1000.0, 1, 61.0)]
    config = build_config(policy="las", mechanism="proportional")
    other = build_config(policy="las", mechanism="proportional", policy_options={"promote_after": 4})
    path, text = tmp_path / "state", tmp_path / "text"
    text.write_text("no state")
    whole = simulate(Replay(jobs, tables.servers, tables.queues, config, round_s=60.0, keep_reasons=True))
    simulate(
        Replay(jobs, tables.servers, tables.queues, config, round_s=60.0, keep_reasons=True, until_s=400.0),
        states=States(save_to=path),
    )

    def go_on(jobs=jobs, tables=tables, config=config, round_s=60.0, reasons=True, path=path) -> Outcome:  # type: ignore[no-untyped-def]  # one default each
        return simulate(
            Replay(jobs, tables.servers, tables.queues, config, round_s=round_s, keep_reasons=reasons),
            states=States(continue_from=path),
        )

    continued = go_on()

    assert continued.plan_hash == whole.plan_hash
    assert continued.records.waited_s.keys() == whole.records.waited_s.keys()
    for reason, waited_s in whole.records.waited_s.items():
        assert continued.records.waited_s[reason] == pytest.approx(waited_s)
    for changed, says in (
        ({"jobs": other_jobs}, "another workload"),
        ({"tables": wide}, "another cluster"),
        ({"config": other}, "another configuration"),
        ({"round_s": 30.0}, "another configuration"),
        ({"reasons": False}, "another configuration"),
        ({"path": text}, "is not the state of a replay"),
        ({"path": tmp_path / "none"}, "cannot be read: No such file"),
    ):
        with pytest.raises(UnusableStateError, match=says):
            go_on(**changed)


@pytest.mark.parametrize("queues", [[QueueRow()], [QueueRow(), QueueRow(quota_gpus=4)]], ids=["one", "many"])
def test_what_runs_at_the_begin_on_a_server_that_became_too_small_has_to_leave(queues: list[QueueRow]) -> None:
    """Both insist on 6 of its 8 cores: one goes on and the other waits for it, as in the next live round."""
    rows = [JobRow(seats=((0, 1),), first_start_s=1.0, min_cpus=6.0, remaining_s=100.0) for _ in range(2)]
    live = snapshot_of(rows, [ServerRow(num_gpus=4, num_cpus=8.0)], queues)
    left_s = live.jobs.remaining_s
    config = build_config(policy="fifo", locality="consolidate", mechanism="proportional")
    begun = Begun(snapshot=live, remaining_s=left_s)

    outcome = simulate(Replay(jobs_of(live, left_s), live.servers, live.queues, config, begun=begun, check_every=1))

    assert (outcome.records.end_s - live.now_s).tolist() == [100.0, 200.0]
