"""Jobs that take turns come back to their own servers, whatever the selection and the mechanism think of others."""

from dataclasses import replace

import pytest

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW
from scheduler.core.model.trial import Trial, TrialKind
from scheduler.core.round.config import Mechanism, SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection.slicing import Slicing
from scheduler.mechanisms.opt import Opt
from scheduler.mechanisms.proportional import Proportional
from scheduler.mechanisms.tune import Tune
from scheduler.placement.consolidate import Consolidate
from scheduler.policies.fifo import Fifo
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

GIB = 2.0**30


def _turn(
    jobs: list[JobRow],
    servers: list[ServerRow],
    homes: tuple[int, ...],
    mechanism: Mechanism,
    avoids: tuple[tuple[int, int], ...] = (),
) -> Plan:
    """Return the plan for a new turn of jobs that were suspended on these servers, by number."""
    ids = tuple(range(1, len(jobs) + 1))
    turn = Trial(
        kind=TrialKind.SLICE, jobs=ids, servers=homes, values=(0.0,) * len(jobs), began_s=0.0, until_s=60.0
    )  # fmt: skip
    config = SchedulerConfig(
        policy=Fifo(), locality=Consolidate(), mechanism=mechanism, introspection=(Slicing(quantum_s=60.0),)
    )
    return plan_round(replace(snapshot_of(jobs, servers, now_s=60.0), trials=(turn,), avoids=avoids), config)


def _seats(plan: Plan) -> dict[int, int]:
    return dict(zip(plan.grants.job.tolist(), plan.grants.server.tolist(), strict=True))


def test_jobs_that_stop_make_room_for_those_that_were_suspended_there() -> None:
    """The first to come is of the second server and the last to go of the first: they would be seated crosswise."""
    jobs = [
        JobRow(executed_s=24.0, first_start_s=0.0, waited_s=60.0),
        JobRow(executed_s=60.0, first_start_s=0.0, waited_s=60.0),
        JobRow(executed_s=120.0, first_start_s=0.0, seats=((1, 1),)),
        JobRow(executed_s=150.0, first_start_s=0.0, seats=((0, 1),)),
    ]
    plan = _turn(jobs, [ServerRow(num_gpus=1)] * 2, (2, 1, 2, 1), Proportional())

    assert _seats(plan) == {0: 1, 1: 0}
    assert {preemption.job for preemption in plan.preemptions} == {2, 3}


@pytest.mark.parametrize("mechanism", [Tune(), Opt(), Proportional()])
def test_who_was_suspended_comes_home_where_its_demand_does_not_fit_any_more(mechanism: Mechanism) -> None:
    """What keeps its memory there takes some of the server's, so that each has a little less than its share."""
    jobs = [
        JobRow(executed_s=60.0, first_start_s=0.0, waited_s=60.0, demand_memory_bytes=64.2 * GIB, demand_cpus=3.0),
        JobRow(executed_s=60.0, first_start_s=0.0, waited_s=60.0, demand_memory_bytes=64.1 * GIB, demand_cpus=3.0),
    ]
    servers = [ServerRow(num_gpus=1, num_cpus=3.0, memory_bytes=64.0 * GIB)] * 2

    assert _seats(_turn(jobs, servers, (2, 1), mechanism)) == {0: 1, 1: 0}
    assert _seats(_turn(jobs, servers, (1, 2), mechanism)) == {0: 0, 1: 1}


def test_nobody_changes_places_with_a_job_that_stays_off_the_server() -> None:
    """A machine failed under the newcomer on the first server: who was suspended on the second one moves instead."""
    jobs = [
        JobRow(executed_s=24.0, first_start_s=0.0, waited_s=60.0),
        JobRow(executed_s=60.0, first_start_s=0.0, waited_s=60.0),
    ]
    newcomer_first = (NO_ROW, 2)

    assert _seats(_turn(jobs, [ServerRow(num_gpus=1)] * 2, newcomer_first, Proportional())) == {0: 0, 1: 1}
    stays_off = _turn(jobs, [ServerRow(num_gpus=1)] * 2, newcomer_first, Proportional(), avoids=((1, 1),))
    assert _seats(stays_off) == {0: 1, 1: 0}
