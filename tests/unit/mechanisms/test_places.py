"""The second program of Opt: where what the first one divided comes from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.cpu_memory_bounds import needs_of
from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.fill import fill
from scheduler.mechanisms.places import best_places, placed
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of
from tests.support.suite.examples import tried


@tried(60)
@given(
    gpus=st.lists(st.integers(1, 8), min_size=1, max_size=16),
    num_servers=st.integers(1, 4),
    seed=st.integers(0, 999),
)
def test_at_most_three_jobs_a_server_are_split(gpus: list[int], num_servers: int, seed: int) -> None:
    """GPUs, cores and memory of S servers split at most 3 S jobs; all jobs are placed, and no server gives too much."""
    rng = np.random.default_rng(seed)
    amounts = np.stack((gpus, rng.uniform(1, 24, len(gpus)), rng.uniform(10, 500, len(gpus))), axis=1)
    total = np.array([8.0, 24.0, 500.0]) * num_servers
    amounts *= np.minimum(1.0, total / amounts.sum(axis=0))
    capacity = np.tile([8.0, 24.0, 500.0], (num_servers, 1))

    places = best_places(amounts, capacity, [0] * len(gpus), time_limit_s=10.0)

    assert places is not None
    assert places.on_server.sum(axis=1) == pytest.approx(np.ones(len(gpus)))
    assert (places.on_server.T @ amounts <= capacity * (1 + 1e-6)).all()
    assert places.whole().count(NO_ROW) <= 3 * num_servers


def test_there_may_be_no_places() -> None:
    """More GPUs than there are."""
    assert best_places(np.array([[9.0]]), np.array([[8.0]]), [0], time_limit_s=10.0) is None


def test_jobs_stay_at_home_when_they_can() -> None:
    """Two and two would fit in any order; each is left where it is."""
    amounts, capacity = np.ones((4, 1)), np.full((2, 1), 2.0)

    for home in ([0, 0, 1, 1], [1, 0, 0, 1]):
        places = best_places(amounts, capacity, home, time_limit_s=10.0)
        assert places is not None
        assert places.whole() == home


def _draft(jobs: list[JobRow], servers: list[ServerRow], seats: list[int], movable: set[int]) -> Draft:
    snapshot = snapshot_of(jobs, servers)
    room = [server.num_gpus for server in servers]
    for row, server in enumerate(seats):
        room[server] -= 0 if row in movable else jobs[row].num_gpus
    return Draft(
        jobs=snapshot.jobs,
        servers=snapshot.servers,
        needs=needs_of(snapshot.jobs, snapshot.servers, trims=True, insists=False),
        seats={row: ((server, jobs[row].num_gpus),) for row, server in enumerate(seats)},
        movable=frozenset(movable),
        room=tuple(room),
    )


def test_demanding_jobs_part_and_the_others_stay() -> None:
    """Two jobs of nine cores on a server of twelve: one is split, so the packing finds it the other server."""
    hungry, modest = JobRow(demand_cpus=9, demand_memory_bytes=1.0), JobRow(demand_cpus=1, demand_memory_bytes=1.0)
    servers = [ServerRow(num_gpus=4, num_cpus=12)] * 2
    draft = _draft([hungry, hungry, modest, modest], servers, [0, 0, 0, 1], {0, 1, 2, 3})

    settled = placed(draft, draft.needs, time_limit_s=10.0)
    grants = fill(settled, sort_by_demand=True)

    assert len(settled.movable) == 1
    assert settled.movable < {0, 1}
    assert [settled.seats[row][0][0] for row in (2, 3)] == [0, 1]
    assert sorted(grants.server[grants.job < 2].tolist()) == [0, 1]
    assert grants.cpus.tolist() == [9, 9, 1, 1]


def test_a_split_gang_is_left_to_the_packing() -> None:
    """Three gangs of two GPUs on two servers of three: one is split, and no server has room: nothing changes."""
    gang = JobRow(num_gpus=2, demand_cpus=2, demand_memory_bytes=1.0)
    servers = [ServerRow(num_gpus=3, num_cpus=12)] * 2
    draft = _draft([gang] * 3, servers, [0, 1, 1], {0, 1, 2})

    assert placed(draft, draft.needs, time_limit_s=10.0) is draft


def test_who_may_not_move_does_not() -> None:
    """Without movable jobs there is nothing to place."""
    draft = _draft([JobRow(), JobRow()], [ServerRow()], [0, 0], set())

    assert placed(draft, draft.needs, time_limit_s=10.0) is draft
