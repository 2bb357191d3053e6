"""One history through the simulator and through the live engine: every job starts, moves and ends at the same times."""

from collections import Counter
from random import Random

import pytest

from scheduler.choices import build_config
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Attempt, Cluster, Job
from scheduler.models.job import AttemptState
from scheduler.services.cluster.settings import cluster_row
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from tests.support.live.world import World

ROUND_S = 10
# Agents report at the very second in which a job ends, and else this often: no server looks lost.
REPORTS_EVERY_S = 5
# (first start, end, preemptions), seconds since the first submission
History = list[tuple[float, float, int]]


def _workload(seed: int) -> list[SimJob]:
    rng = Random(seed)
    return [
        SimJob(
            arrival_s=float(ROUND_S * rng.randrange(12)),
            num_gpus=rng.choice([1, 1, 2, 3]),
            run_s=float(rng.randrange(20, 200)),
            max_servers=1,
        )
        for _ in range(14)
    ]


def _live(world: World, jobs: list[SimJob]) -> History:
    """Play the workload on the live engine: rounds on the grid alone, jobs that end when their work is done."""
    start_s = world.clock.now().timestamp()
    submitted: dict[str, SimJob] = {}
    done_s: Counter[str] = Counter()
    second = 0
    while len(submitted) < len(jobs) or Job.objects.exclude(state__in=sorted(TERMINAL)).exists():
        if second % ROUND_S == 0:
            for job in jobs:
                if job.arrival_s == second:
                    submitted[world.submit(gpus=job.num_gpus).pk] = job
            world.round()
            _settle(world)
        for job_pk in _held():
            done_s[job_pk] += 1
        world.clock.advance(1.0)
        second += 1
        ended = [job_pk for job_pk in _held() if done_s[job_pk] == submitted[job_pk].run_s]
        for job_pk in ended:
            world.agent_of(Job.objects.get(pk=job_pk)).end(job_pk, cause="completed", exit_code=0)
        if ended or second % REPORTS_EVERY_S == 0:
            _exchange(world)
        world.bell.round_begins()
    rows = Job.objects.order_by("number")
    return [
        (
            row.first_started_at.timestamp() - start_s if row.first_started_at else -1.0,
            row.ended_at.timestamp() - start_s if row.ended_at else -1.0,
            row.preemptions,
        )
        for row in rows
    ]


def _held() -> list[str]:
    open_attempts = Attempt.objects.filter(wanted="run").exclude(state=AttemptState.ENDED)
    return list(open_attempts.order_by("job__number").values_list("job_id", flat=True))


def _exchange(world: World) -> None:
    """Let every agent read, start what it is given at once, and report, in no time."""
    for agent in world.agents.values():
        agent.read()
        agent.work(0.0)
        agent.send()
    world.do(lambda: world.engine.take(world.transport.receive_reports(world.engine.server_ids(), timeout_s=0)))
    world.do(world.engine.tick)


def _settle(world: World) -> None:
    """Let those who leave leave and those who wait for them start, at the very moment of the round."""
    for _ in range(4):
        _exchange(world)
        world.rounds()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(("policy", "mechanism"), [("fifo", "proportional"), ("las", "tune")])
def test_simulator_and_live_engine_make_the_same_history(world: World, policy: str, mechanism: str, seed: int) -> None:
    """Both are thin shells around one decision."""
    options = {"queue_limits_gpu_s": [60.0]} if policy == "las" else {}
    Cluster.objects.update(policy=policy, policy_options=options, mechanism=mechanism)
    # With preemption one server: on several, where a job lands depends on who of those that leave is gone first.
    for number, slots in enumerate([6] if policy == "las" else [3, 3]):
        world.server(f"server-{number}", slots=slots)
    tables = snapshot_read(cluster_row(), at=world.clock.now()).tables
    jobs = sorted(_workload(seed), key=lambda job: job.arrival_s)
    config = build_config(policy=policy, policy_options=options, mechanism=mechanism)
    simulated = simulate(Replay(jobs, tables.servers, tables.queues, config, round_s=float(ROUND_S)))
    lived = _live(world, jobs)

    records = simulated.records
    assert lived == [*zip(records.first_start_s, records.end_s, records.preemptions, strict=True)]
    assert bool(records.preemptions.any()) == (policy == "las")
