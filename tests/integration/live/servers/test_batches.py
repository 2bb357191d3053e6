"""Reports of many servers that are written together write what each writes by itself, and one costs no other."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.protocol.server_report import AttemptReport
from scheduler.core.model.lifecycle import JobState
from scheduler.live import engine
from scheduler.live.engine import Engine
from scheduler.live.reports.apply_report import AppliedReport
from scheduler.live.reports.batches import batch_apply
from scheduler.live.reports.intake import Taken
from scheduler.live.reports.progress import ProgressWrites, progress_take
from scheduler.models import Attempt, Event, Gang, GangMember, Gpu, Job, Lease, LeaseGpu, Server
from scheduler.services.many_rows import RowChange
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

Batch = Callable[..., dict[str, AppliedReport]]
TABLES = (Server, Gpu, Job, Attempt, Lease, LeaseGpu, Gang, GangMember)


def one_by_one(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
    """Leave every report to be applied by itself."""
    return {}


def rows() -> list[Any]:
    """Return every row that a report can change, and what the events say."""
    found: list[Any] = [list(table.objects.order_by("pk").values()) for table in TABLES]
    events = Event.objects.order_by("job_id", "number", "server_id", "kind", "pk")
    return [*found, list(events.values("at", "kind", "job_id", "number", "server_id", "reason", "data"))]


def outcome(world: World, messages: list[tuple[str, str]], apply: Batch, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the rows that the messages lead to, and which servers are told; it is all taken back."""
    world.transport.desired.clear()
    with monkeypatch.context() as patched, transaction.atomic():
        patched.setattr(engine, "batch_apply", apply)
        Engine(world.ports).take(messages)
        found = rows(), {server: len(sent) for server, sent in world.transport.desired.items()}
        transaction.set_rollback(True)
    world.transport.desired.clear()
    return found


def misbehave(rng: Random, agent: FakeAgent, others: list[FakeAgent]) -> None:
    """Let one thing happen on a server that a report tells of; most times only progress."""
    attempts = list(agent.attempts.values())
    if not attempts or rng.random() < 0.5:
        return
    attempt = rng.choice(attempts)
    ends = [("completed", 0), ("exit_code", 1), ("tired", None), ("preempted", None)]
    match rng.randrange(9):
        case 0:
            attempt.phase, (attempt.cause, attempt.exit_code) = "ended", rng.choice(ends)
        case 1:
            attempt.checkpoint_step = attempt.step
        case 2:
            attempt.step = rng.randrange(50)
        case 3:
            attempt.extra = rng.choice([{}, {"loss": 1e17}, {"total_steps": 90, "loss": 0.5}, {"first_step": 2**61}])
        case 4:
            agent.broken = {rng.randrange(agent.slots)} if rng.random() < 0.5 else set()
        case 5:
            agent.attempts.pop(attempt.wanted.attempt_id)
        case 6:
            attempt.phase = rng.choice(["frozen", "stopping", "running", "starting"])
        case 7:
            agent.num_cpus = rng.choice([2, 4, 6, 3_999])
        case _:
            rng.choice(others).attempts[attempt.wanted.attempt_id] = attempt


@pytest.mark.parametrize("seed", range(3))
def test_batches_write_the_same_rows_as_reports_one_by_one(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random jobs, gangs, ends, odd numbers, lost messages and broken devices: each step is taken in both ways."""
    rng = Random(seed)
    for number in range(5):
        world.server(f"server-{number}", slots=3)
    together = 0

    def counted(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
        nonlocal together
        applied = batch_apply(batch, at=at)
        together += len(applied)
        return applied

    for _ in range(25):
        if rng.random() < 0.5:
            size: dict[str, Any] = rng.choice([{}, {"resources": {"gpus": 2, "max_servers": 2}}])
            world.submit(**size)
        world.clock.advance(1.0)
        messages: list[tuple[str, str]] = []
        agents = list(world.agents.values())
        for agent in agents:
            if rng.random() < 0.8:
                agent.read()
            agent.work(1.0 if rng.random() < 0.7 else 0.0)
            misbehave(rng, agent, agents)
            messages += [(agent.server_id, agent.report()) for _ in range(rng.choice([0, 1, 1, 1, 2]))]
        kept = {server: list(sent) for server, sent in world.transport.desired.items()}
        apart = outcome(world, messages, one_by_one, monkeypatch)
        assert outcome(world, messages, counted, monkeypatch) == apart
        world.transport.desired.update(kept)
        world.do(partial(world.engine.take, messages))
        world.do(world.engine.tick)
        world.round()

    assert together > 20


def running(world: World, *, servers: int) -> list[Job]:
    """Return one running job on each of so many servers."""
    for number in range(servers):
        world.server(f"server-{number}", slots=1)
    jobs = [world.submit() for _ in range(servers)]
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in jobs))
    return jobs


def reports(world: World) -> list[tuple[str, str]]:
    """Return the next report of every server, of which each job took some steps."""
    for agent in world.agents.values():
        agent.work(3)
    return [(agent.server_id, agent.report()) for agent in world.agents.values()]


def steps(world: World, jobs: list[Job]) -> tuple[list[int | None], list[int | None]]:
    """Return the steps of the jobs as the database and as the agents know them."""
    known = [Job.objects.get(pk=job.pk).step for job in jobs]
    return known, [world.agent_of(job).attempt_of(job.pk).step for job in jobs]


def test_reports_of_many_servers_cost_no_more_statements_than_of_one(world: World) -> None:
    """Statements are most of what a report costs."""
    jobs = running(world, servers=6)
    messages = reports(world)
    counts = []
    for batch in (messages[:1], messages[1:]):
        with CaptureQueriesContext(connection) as seen:
            world.do(partial(world.engine.take, batch))
        counts.append(len(seen))

    assert counts[1] == counts[0]
    known, real = steps(world, jobs)
    assert known == real


def test_report_that_changes_nothing_writes_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its server's row notes that it was heard."""
    running(world, servers=2)
    world.do(lambda: world.engine.take(reports(world)))
    same = [(agent.server_id, agent.report()) for agent in world.agents.values()]
    with CaptureQueriesContext(connection) as seen:
        world.do(lambda: world.engine.take(same))

    written = re.findall(r'(?:UPDATE|INSERT INTO) "(\w+)"', " ".join(query["sql"] for query in seen))
    assert written == ["scheduler_server"]


def test_report_that_breaks_its_batch_costs_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a row that cannot be written nor a defect in reading one keeps the others from being heard."""
    jobs = running(world, servers=5)
    write = ProgressWrites.write

    def breaks(self: ProgressWrites) -> None:
        def is_odd(change: RowChange) -> bool:
            return change[0] == jobs[3].pk and "step" in change[1]

        if any(is_odd(change) for change in self.of_jobs):
            raise OverflowError("a value that the database cannot hold")
        write(self)

    monkeypatch.setattr(ProgressWrites, "write", breaks)
    before = Job.objects.get(pk=jobs[3].pk).step
    world.do(lambda: world.engine.take(reports(world)))

    known, real = steps(world, jobs)
    assert known == [*real[:3], before, *real[4:]]
    sequences = {agent.server_id: agent.sequence for agent in world.agents.values()}
    assert dict(Server.objects.values_list("pk", "report_sequence")) == sequences
    assert Event.objects.get(kind="report_unusable").job_id == jobs[3].pk


def test_defect_in_one_report_leaves_the_batch_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is written once, without it."""
    jobs = running(world, servers=3)

    def breaks(attempt: Attempt, said: AttemptReport, *arguments: Any, **named: Any) -> None:
        if attempt.job_id == jobs[0].pk and said.step is not None:
            raise ZeroDivisionError("a defect")
        progress_take(attempt, said, *arguments, **named)

    together: list[set[str]] = []

    def counted(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
        applied = batch_apply(batch, at=at)
        together.append(set(applied))
        return applied

    monkeypatch.setattr("scheduler.live.reports.apply_report.progress_take", breaks)
    monkeypatch.setattr(engine, "batch_apply", counted)
    world.do(lambda: world.engine.take(reports(world)))

    odd = world.agent_of(jobs[0]).server_id
    assert together == [{agent.server_id for agent in world.agents.values()} - {odd}]
    known, real = steps(world, jobs)
    assert known[1:] == real[1:]


def test_leases_are_renewed_between_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many reports arrive at once, no server waits for its renewal until the last of them."""
    running(world, servers=4)
    monkeypatch.setattr(engine, "REPORTS_A_BATCH", 1)
    sent: list[int] = []

    def slow(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
        sent.append(sum(map(len, world.transport.desired.values())))
        world.clock.advance(8.0)
        return batch_apply(batch, at=at)

    monkeypatch.setattr(engine, "batch_apply", slow)
    messages = reports(world)
    world.transport.desired.clear()
    world.do(lambda: world.engine.take(messages))

    assert sent == sorted(set(sent)), "a batch began without a renewal before it"


@pytest.mark.parametrize("odd", [1, 4])
def test_odd_attempts_cost_in_proportion_to_all(world: World, odd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many attempts on a server, of which some cannot be used, cost twice as many rows, not four times."""
    bad: set[int] = set()
    read: list[str] = []

    def breaks(attempt: Attempt, said: AttemptReport, *arguments: Any, **named: Any) -> None:
        if attempt.job.number in bad and said.step is not None:
            raise ZeroDivisionError("a defect")
        progress_take(attempt, said, *arguments, **named)

    real = Lease.from_db

    def counted(*arguments: Any) -> Lease:
        lease = real(*arguments)
        read.append(lease.attempt_id)
        return lease

    monkeypatch.setattr("scheduler.live.reports.apply_report.progress_take", breaks)
    counts = []
    world.queue("wide", quota_gpus=40)
    for name, slots in (("small", 8), ("large", 16)):
        agent = world.server(name, slots=slots)
        jobs = [world.submit("wide") for _ in range(slots)]
        world.until(lambda: Job.objects.exclude(state=JobState.RUNNING).count() == 0)
        bad.update(job.number for job in jobs[:odd])
        agent.work(1)
        with monkeypatch.context() as patched:
            patched.setattr(Lease, "from_db", counted)
            world.do(partial(world.engine.take, [(agent.server_id, agent.report())]))
        counts.append(len(read))
        read.clear()
        bad.clear()

    assert counts[1] < 2.5 * counts[0], counts


def test_gangs_that_go_on_are_written_with_all_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their processes on several servers are one job, whose memory is the sum of all of them; both ways agree."""
    for number in range(4):
        world.server(f"server-{number}", slots=2)
    world.queue("wide", quota_gpus=8)
    jobs = [world.submit("wide", resources={"gpus": 4, "max_servers": 2}) for _ in range(2)]
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in jobs))
    world.pass_time(3)
    taken: list[set[str]] = []

    def counted(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
        applied = batch_apply(batch, at=at)
        taken.append(set(applied))
        return applied

    for number, agent in enumerate(world.agents.values()):
        for attempt in agent.attempts.values():
            attempt.peak_memory_bytes += (number + 1) * 2**20
    messages = reports(world)
    apart = outcome(world, messages, one_by_one, monkeypatch)

    assert outcome(world, messages, counted, monkeypatch) == apart
    assert taken == [{agent.server_id for agent in world.agents.values()}]
