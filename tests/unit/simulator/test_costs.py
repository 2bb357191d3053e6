"""What reconfiguring costs under restart, concurrent and concurrent-cancel."""

import pytest

from benchmarks.models.reconfigurations import Change, coalesced, thrashing_replay
from scheduler.choices import build_config
from scheduler.core.model.profile import scaling
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.costs import Manager, ReconfigurationCosts
from scheduler.simulator.study.cluster import Cluster, QueueSpec, ServerGroup, queue_table, server_table
from tests.support.simulator.elastic import afs_profile

VGG = afs_profile("vgg16-256")


def _costs(manager: Manager, *, debounce_s: float = 0.0) -> ReconfigurationCosts:
    return ReconfigurationCosts(manager=manager, debounce_s=debounce_s)


def _run(manager: Manager, changes: list[Change], until_s: float = 600.0) -> dict[str, float]:
    progress = thrashing_replay(
        changes, lambda gpus: scaling(VGG, gpus), _costs(manager), start_gpus=4, until_s=until_s
    )
    return {
        "work": progress.work,
        "paused_s": progress.paused_s,
        "carried_out": progress.carried_out,
        "cancelled": progress.cancelled,
    }


def test_a_stale_change_is_cancelled_without_a_pause() -> None:
    """AFS example 5: expand 4 to 8 at 0, back to 4 at 10. Cancelled in time the job never stops.

    Restarting pays both start-ups and both switch-overs: 30 + 10 for 8 GPUs, 30 + 8 for 4.
    """
    changes = [(0.0, 8), (10.0, 4)]

    cancelled = _run(Manager.CONCURRENT_CANCEL, changes)
    assert (cancelled["paused_s"], cancelled["carried_out"], cancelled["cancelled"]) == (0.0, 0, 1)
    assert cancelled["work"] == pytest.approx(600 * scaling(VGG, 4))
    assert _run(Manager.RESTART, changes)["paused_s"] == (30 + 10) + (30 + 8)
    assert _run(Manager.CONCURRENT, changes)["paused_s"] == 10 + 8


def test_a_newer_target_replaces_the_one_in_preparation() -> None:
    """AFS example 5: 4 to 8 at 0 and to 6 at 10: only the second is carried out, after its own start-up."""
    costs = _costs(Manager.CONCURRENT_CANCEL)
    progress = thrashing_replay([(0.0, 8), (10.0, 6)], float, costs, start_gpus=4, until_s=600.0)

    switch_s = costs.switch_over_s(6)
    assert [(s.begin_s, s.num_gpus) for s in progress.stretches] == [
        (0.0, 4),
        (10 + 0.5 + 30, 0),
        (10 + 0.5 + 30 + switch_s, 6),
    ]
    assert (progress.carried_out, progress.cancelled) == (1, 1)


def test_a_switch_over_that_has_begun_is_not_cancelled() -> None:
    """Once the workers are up the change goes through; the newer one follows it."""
    progress = thrashing_replay(
        [(0.0, 8), (31.0, 4)], float, _costs(Manager.CONCURRENT_CANCEL), start_gpus=4, until_s=600.0
    )
    assert [(s.begin_s, s.num_gpus) for s in progress.stretches] == [(0.0, 4), (30.0, 0), (40.0, 0), (48.0, 4)]
    assert (progress.carried_out, progress.cancelled) == (2, 0)


def test_a_burst_hurts_restarts_most() -> None:
    """Twelve changes 10 s apart: restart does least work, cancelling most."""
    burst = [(10.0 * number, 8 if number % 2 else 4 + number % 3) for number in range(1, 13)]
    work = {manager: _run(manager, burst)["work"] for manager in Manager}

    assert work[Manager.RESTART] < work[Manager.CONCURRENT] < work[Manager.CONCURRENT_CANCEL]


def test_shrinking_needs_no_new_workers() -> None:
    """From 8 to 4 a concurrent manager pauses for the switch-over alone."""
    progress = thrashing_replay([(5.0, 4)], float, _costs(Manager.CONCURRENT), start_gpus=8, until_s=100.0)

    assert [(s.begin_s, s.num_gpus) for s in progress.stretches] == [(0.0, 8), (5.0, 0), (13.0, 4)]


def test_changes_within_a_second_are_one() -> None:
    """The last of the changes that come within the window counts, at its end."""
    assert coalesced([(0.0, 8), (0.4, 2), (0.9, 6), (1.0, 4)], 1.0) == [(1.0, 6), (2.0, 4)]
    progress = thrashing_replay(
        [(0.0, 8), (0.5, 4)],
        float,
        _costs(Manager.RESTART, debounce_s=1.0),
        start_gpus=4,
        until_s=60.0,
    )
    assert (progress.paused_s, progress.carried_out) == (0.0, 0)


@pytest.mark.parametrize(("manager", "grow_s", "shrink_s"), [("restart", 40.0, 38.0), ("concurrent", 25.0, 8.0)])
def test_pauses_of_a_replay(manager: str, grow_s: float, shrink_s: float) -> None:
    """4 to 8 GPUs and back; growing misses half of 30 s meanwhile; resuming starts anew, a first start is free."""
    costs = ReconfigurationCosts(manager=Manager(manager))

    assert costs.pause_s(first=True, before_gpus=0, num_gpus=8) == 0.0
    assert costs.pause_s(first=False, before_gpus=0, num_gpus=8) == 40.0
    assert costs.pause_s(first=False, before_gpus=4, num_gpus=8) == grow_s
    assert costs.pause_s(first=False, before_gpus=8, num_gpus=4) == shrink_s


def test_measured_costs_are_those_of_the_runtime() -> None:
    """What was measured is complete and sane: a switch is far cheaper than a start, and shares are debounced."""
    costs = ReconfigurationCosts.measured(Manager.RESTART)

    assert costs.manager == Manager.RESTART
    assert 0 < costs.switch_over_s(2) < costs.init_s
    assert costs.debounce_s == 1.0


def test_moved_job_pays_its_start_up_as_one_that_resumes() -> None:
    """A short gang takes its server, and it goes on elsewhere at once: its workers start anew."""
    jobs = [
        SimJob(arrival_s=0.0, num_gpus=2, run_s=50.0),
        SimJob(arrival_s=0.0, num_gpus=2, run_s=1_000.0),
        SimJob(arrival_s=100.0, num_gpus=4, run_s=10.0, max_servers=1),
    ]
    groups = tuple(ServerGroup(count=1, gpus=gpus, cpus=3.0 * gpus, memory_bytes=64e9) for gpus in (2, 4))
    servers = server_table(Cluster(groups=groups, queues=(QueueSpec(name="all"),)))
    config = build_config(policy="srtf", mechanism="proportional")
    costs = ReconfigurationCosts(manager=Manager.CONCURRENT)
    records = simulate(
        Replay(jobs, servers, queue_table((QueueSpec(name="all"),), cluster_gpus=6), config, costs=costs)
    ).records

    assert records.moves.tolist() == [0, 1, 0]
    assert records.end_s[1] == 1_000.0 + 30.0 + costs.switch_over_s(2)
