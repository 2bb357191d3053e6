"""Jobs stay off servers on which a machine failed under them, as long as there are others."""

from dataclasses import replace
from itertools import product

import pytest

from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

NAMES = [("srtf", *rest) for rest in product(LOCALITIES, MECHANISMS)]
NAMES += [(policy, "consolidate", "tune") for policy in POLICIES if policy != "srtf"]
every_part = pytest.mark.parametrize("names", NAMES, ids="-".join)
FIRST, SECOND = 1, 2  # ids of jobs and servers; rows are one less


def _servers_of(snapshot: Snapshot, names: tuple[str, str, str]) -> list[int]:
    """Return the rows of the servers on which the first job gets its GPUs."""
    policy, locality, mechanism = names
    config = SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES[locality](), mechanism=MECHANISMS[mechanism]()
    )
    grants = plan_round(snapshot, config).grants
    found: list[int] = grants.server[grants.job == 0].tolist()
    return found


def _job(gpus: int, *, max_servers: int = 1, seats: tuple[tuple[int, int], ...] = ()) -> JobRow:
    return JobRow(
        num_gpus=gpus,
        max_servers=max_servers,
        remaining_s=900.0,
        total_s=900.0,
        preemptible=not seats,
        first_start_s=0.0 if seats else float("inf"),
        seats=seats,
    )


@every_part
@pytest.mark.parametrize("avoided", [FIRST, SECOND])
def test_job_starts_on_another_server(names: tuple[str, str, str], avoided: int) -> None:
    """Whichever of two empty servers it stays off."""
    jobs = [_job(2), _job(6)]
    snapshot = replace(snapshot_of(jobs, [ServerRow(), ServerRow()]), avoids=((FIRST, avoided),))

    assert _servers_of(snapshot, names) == [2 - avoided]


@every_part
def test_job_without_another_place_goes_where_it_failed(names: tuple[str, str, str]) -> None:
    """Its server is the last choice; waiting would help nobody."""
    jobs = [_job(2), _job(7, seats=((1, 7),))]
    snapshot = replace(snapshot_of(jobs, [ServerRow(), ServerRow()]), avoids=((FIRST, FIRST),))

    assert _servers_of(snapshot, names) == [0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("locality", LOCALITIES)
def test_gang_stays_off_with_all_its_ranks(locality: str, mechanism: str) -> None:
    """Two servers of three hold it; the third is the one that failed."""
    jobs = [_job(4, max_servers=3)]
    snapshot = replace(snapshot_of(jobs, [ServerRow(num_gpus=2)] * 3), avoids=((FIRST, SECOND),))

    assert _servers_of(snapshot, ("fifo", locality, mechanism)) == [0, 2]


def test_servers_that_are_gone_are_forgotten() -> None:
    """The plan is the one without them."""
    snapshot = snapshot_of([_job(2)], [ServerRow()])
    config = SchedulerConfig(
        policy=POLICIES["fifo"](), locality=LOCALITIES["any"](), mechanism=MECHANISMS["proportional"]()
    )
    plans = [plan_round(each, config) for each in (snapshot, replace(snapshot, avoids=((FIRST, 99),)))]

    assert plans[0].plan_hash == plans[1].plan_hash
