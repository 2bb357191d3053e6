"""Philly's levels of locality: worked example 2 and the rules around it."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.profile import parse_profile
from scheduler.core.model.tables import Snapshot
from scheduler.core.packing.free_gpus import Gang
from scheduler.core.round.capabilities import ChangesBySelf
from scheduler.core.round.plan_round import plan_round
from scheduler.placement.relax import ANYWHERE, FEWEST, RACK, TWICE, Relax
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.support.simulator.spaces import counts, gang_of, space_of
from tests.support.simulator.strategies import JobRow, ServerRow, job_table, snapshot_of

EXAMPLE = [8, 6, 4, 4, 3, 2, 2, 1, 1, 1]


def gang(num_gpus: int, level: float, *, max_servers: int = 0) -> Gang:
    """Return a gang on a level."""
    return gang_of(num_gpus, max_servers=max_servers, kind=(level,))


def test_philly_example_2_level_by_level() -> None:
    """Sixteen GPUs: two servers are not enough; up to four servers give 8 + 6 + 2, the 2 from a server with just 2."""
    space = space_of(EXAMPLE)

    assert Relax().seats(space, gang(16, FEWEST)) == ()
    assert counts(space, Relax().seats(space, gang(16, TWICE))) == [(8, 8), (6, 6), (2, 2)]


def test_philly_example_2_waits_810_seconds() -> None:
    """Three tries of 150 s with 120 s between: the job reaches the next level after 810 s of waiting, not before."""
    jobs = job_table([JobRow(num_gpus=16, waited_s=waited_s) for waited_s in (0.0, 809.9, 810.0, 1_620.0, 9e9)])

    assert Relax().kinds(jobs, 0.0)[0].tolist() == [FEWEST, FEWEST, TWICE, RACK, ANYWHERE]
    assert Relax().next_change_s(jobs).tolist() == pytest.approx([810, 0.1, 810, 810, math.inf])
    assert isinstance(Relax(), ChangesBySelf)


def test_the_numbers_of_tries_are_options() -> None:
    """Two tries of 60 s without pause: a level lasts two minutes; a running job has none to wait for."""
    relax = Relax(acquire_timeout_s=60.0, back_off_s=0.0, tries_per_level=2)
    jobs = job_table([JobRow(waited_s=125.0), JobRow(num_gpus=1, waited_s=0.0, seats=((0, 1),))])

    assert relax.kinds(jobs, 0.0)[0].tolist() == [1, 0]
    assert relax.next_change_s(jobs).tolist() == [115.0, math.inf]


def test_racks_are_left_last() -> None:
    """Until the last level all servers are of one rack; then the rest of the cluster counts too."""
    space = space_of([4, 4, 3, 3, 3], gpus=[4] * 5, racks=[0, 0, 1, 1, 1])

    def seats(num_gpus: int, level: float) -> list[int]:
        found = Relax().seats(space, gang_of(num_gpus, least_servers=-(-num_gpus // 4), kind=(level,)))
        return [server for server, _ in found]

    assert seats(8, FEWEST) == [0, 1]
    assert seats(9, RACK) == [2, 3, 4]
    assert seats(12, RACK) == []
    assert seats(12, ANYWHERE) == [0, 1, 2, 3]


def test_the_rack_with_the_most_free_gpus_comes_first() -> None:
    """A small job goes to the fullest server of the emptiest rack; ties go to the rack with the lowest number."""
    busy_first = space_of([1, 8, 3, 8], racks=[0, 0, 1, 1])
    tied = space_of([4, 4], racks=[7, 3])

    assert Relax().seats(busy_first, gang(1, FEWEST)) == ((2, 1),)
    assert Relax().seats(tied, gang(4, FEWEST)) == ((1, 4),)


def test_another_rack_is_tried_where_the_freest_is_scattered() -> None:
    """The rack with the most free GPUs has no server with four; the other one has."""
    assert Relax().seats(space_of([3, 3, 3, 4], racks=[0, 0, 0, 1]), gang(4, FEWEST)) == ((3, 4),)


def test_a_job_never_uses_more_servers_than_it_may() -> None:
    """A relaxed level does not overrule the bound that the owner gave."""
    space = space_of(EXAMPLE)

    assert Relax().seats(space, gang(16, ANYWHERE, max_servers=2)) == ()
    assert len(Relax().seats(space, gang(16, ANYWHERE, max_servers=3))) == 3


def _cluster(waited_s: float) -> Snapshot:
    blockers = [JobRow(num_gpus=8 - free, seats=((row, 8 - free),)) for row, free in enumerate(EXAMPLE) if free < 8]
    job = JobRow(num_gpus=16, max_servers=0, waited_s=waited_s)
    return snapshot_of([*blockers, job], [ServerRow()] * len(EXAMPLE))


def test_a_round_waits_for_locality_and_says_so() -> None:
    """Before 810 s the gang waits because of fragmentation, although 32 GPUs are free; then it starts on 3 servers."""
    config = build_config(policy="fifo", locality="relax", mechanism="proportional")
    early, late = plan_round(_cluster(800.0), config), plan_round(_cluster(810.0), config)

    assert [(entry.job, entry.reason) for entry in early.waiting] == [(9, WaitReason.FRAGMENTATION)]
    assert sorted(late.grants.num_gpus[late.grants.job == 9].tolist()) == [2, 6, 8]


def test_a_replay_plans_again_when_a_level_is_reached() -> None:
    """Nothing arrives or ends between, and yet the job starts after 810 s, on twice its fewest servers."""
    tables = snapshot_of([], [ServerRow()] * 3)
    config = build_config(policy="fifo", locality="relax", mechanism="proportional")
    jobs = [SimJob(arrival_s=0.0, num_gpus=5, run_s=10_000.0) for _ in range(3)]
    jobs.append(SimJob(arrival_s=1.0, num_gpus=6, run_s=100.0))

    outcome = simulate(Replay(jobs, tables.servers, tables.queues, config))

    assert outcome.records.first_start_s[3] == pytest.approx(811.0)


def test_racks_of_the_snapshot_reach_the_locality() -> None:
    """Two servers of four GPUs in different racks hold a gang of eight on the last level only."""
    config = build_config(policy="fifo", locality="relax", mechanism="proportional")
    for waited_s, runs in ((0.0, False), (2_429.0, False), (2_430.0, True)):
        snapshot = snapshot_of(
            [JobRow(num_gpus=8, max_servers=0, waited_s=waited_s)], [ServerRow(num_gpus=4, num_cpus=12)] * 2
        )
        snapshot = replace(snapshot, servers=replace(snapshot.servers, rack=np.array([0, 1])))

        assert bool(len(plan_round(snapshot, config).grants)) is runs


def test_philly_example_4() -> None:
    """Sixteen GPUs for ten hours: on two servers 10 h; on eight, two GPUs on each, 15.29 h, but it begins at once."""
    profile = parse_profile(json.loads(Path("fixtures/profiles/philly.json").read_text(encoding="utf-8"))["wide"])
    servers = snapshot_of([], [ServerRow()] * 8)
    others = [SimJob(arrival_s=0.0, num_gpus=6, max_servers=1, run_s=5 * 3600.0) for _ in range(8)]
    wide = SimJob(arrival_s=1.0, num_gpus=16, run_s=10 * 3600.0, profile=profile)

    def times_h(locality: str) -> tuple[float, float]:
        config = build_config(policy="fifo", locality=locality, mechanism="proportional")
        records = simulate(Replay([*others, wide], servers.servers, servers.queues, config)).records
        return float(records.queueing_s[8]) / 3600, float(records.jct_s[8] - records.queueing_s[8]) / 3600

    assert times_h("any") == pytest.approx((0.0, 15.29), abs=0.01)
    assert 16 * (times_h("any")[1] - 10) == pytest.approx(84.6, abs=0.05)  # more GPU-hours for the earlier end
    assert times_h("relax") == pytest.approx((2 * 810 / 3600, 15.29), abs=0.01)
    patient = build_config(
        policy="fifo", locality="relax", locality_options={"tries_per_level": 100}, mechanism="proportional"
    )
    records = simulate(Replay([*others, wide], servers.servers, servers.queues, patient)).records
    assert (records.queueing_s[8] + 1.0) / 3600 == pytest.approx(5.0)
    assert records.end_s[8] == pytest.approx(15 * 3600.0)
