"""Server affinity (Gandiva): worked example 3 and the order of the steps."""

import pytest

from scheduler.choices import build_config
from scheduler.core.round.plan_round import plan_round
from scheduler.placement.affinity import Affinity, size_class
from tests.support.simulator.spaces import gang_of, space_of
from tests.support.simulator.strategies import JobRow, ServerRow, carried_out, snapshot_of


@pytest.mark.parametrize(("gpus", "kind"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16)])
def test_sizes_count_in_powers_of_two(gpus: int, kind: int) -> None:
    """Three GPUs sit well beside four."""
    assert size_class(gpus) == kind


def test_gandiva_example_3() -> None:
    """Two servers of four GPUs; gangs of 1, 1, 4, 1 arrive: the small ones share the first server, all four run."""
    config = build_config(policy="fifo", locality="affinity", mechanism="proportional")
    jobs = [JobRow(num_gpus=gpus, arrival_s=float(row)) for row, gpus in enumerate((1, 1, 4, 1))]
    servers = [ServerRow(num_gpus=4, num_cpus=12)] * 2

    at_once = plan_round(snapshot_of(jobs, servers), config)
    running = carried_out(snapshot_of(jobs[:2], servers), plan_round(snapshot_of(jobs[:2], servers), config))

    assert at_once.grants.server.tolist() == [0, 0, 1, 0]
    assert running.held.server.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("sizes", "free", "num_gpus", "server"),
    [
        ([{4: 4}, {1: 2}, {}, {1: 4}], [4, 6, 8, 4], 1, 1),  # same class, least load
        ([{4: 4}, {1: 2}, {}, {1: 4}], [4, 6, 8, 4], 4, 0),
        ([{4: 4}, {1: 2}, {}, {1: 4}], [4, 6, 8, 4], 2, 2),  # an empty server
        ([{4: 4}, {1: 2}, {2: 8}, {1: 4}], [4, 6, 0, 4], 2, 1),  # other classes, least load
        ([{4: 4}, {1: 2}, {2: 8}, {1: 4}], [4, 6, 0, 4], 3, 0),  # three sit beside four
        ([{1: 3, 4: 4}, {2: 2}], [1, 6], 1, 1),  # the class with the most GPUs counts
        ([{1: 0, 4: 4}, {4: 4, 1: 4}], [4, 0], 1, 0),  # a size that left does not count
    ],
)
def test_steps_in_their_order(sizes: list[dict[int, int]], free: list[int], num_gpus: int, server: int) -> None:
    """Same class, then empty, then any other; inside a step the least load, then the lowest number."""
    assert Affinity().seats(space_of(free, sizes=sizes), gang_of(num_gpus)) == ((server, num_gpus),)


def test_wide_gangs_take_whole_servers_first() -> None:
    """Twelve GPUs take an empty server and the best fit for the rest; nothing when it may not be spread."""
    space = space_of([6, 8, 4], sizes=[{2: 2}, {}, {4: 4}])

    assert Affinity().seats(space, gang_of(12)) == ((1, 8), (2, 4))
    assert Affinity().seats(space, gang_of(12, max_servers=1)) == ()


def test_cores_count() -> None:
    """A server of the same class without the cores is passed over."""
    space = space_of([4, 4], sizes=[{1: 4}, {4: 4}])

    assert Affinity().seats(space, gang_of(1, fits=lambda server, gpus: server == 1)) == ((1, 1),)
    assert Affinity().seats(space, gang_of(1, fits=lambda server, gpus: False)) == ()


def test_departures_free_a_server_for_another_class() -> None:
    """When the small jobs of a server have been displaced by a wide one, it counts as empty or wide, not as small."""
    config = build_config(policy="srtf", locality="affinity", mechanism="proportional")
    small = [JobRow(num_gpus=1, remaining_s=9_000.0, seats=((0, 1),)) for _ in range(4)]
    late = JobRow(num_gpus=4, remaining_s=60.0)
    snapshot = snapshot_of([*small, late, late], [ServerRow(num_gpus=4, num_cpus=12)] * 2)

    plan = plan_round(snapshot, config)

    assert dict(zip(plan.grants.job.tolist(), plan.grants.server.tolist(), strict=True)) == {4: 1, 5: 0}
