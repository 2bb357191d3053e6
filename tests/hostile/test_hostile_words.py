"""Whatever a job or a server says, by the tens of thousands: it is read or left out, and everything goes on.

What a job writes reaches the scheduler through three readers: the supervisor's of lines, the agent's of the state file,
the scheduler's of reports. What they leave goes to the engine as reports of a server with a hundred jobs. ``make test``
takes one seed of each, ``make test-all`` the others: 52,000 lines, 20,000 bodies of reports and as many orders.
"""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from agents.core.attempt_facts import AttemptFacts
from agents.core.records import SupervisorState, WrittenLine, encode
from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.errors import ProtocolError
from agents.protocol.server_report import AttemptReport, DeviceReport, ServerReport
from scheduler import notify
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, Queue, Server
from scheduler.services.jobs.experiments import experiment_submit
from tests.support.agents.odd_lines import NUMBERS, OTHERS, odd_line, odd_value
from tests.support.live.world import World
from tests.support.rows.experiments import experiment_body

ATTEMPT = "01KK4BCTN00000000000000004"
LINES = BODIES = 2_000  # a seed
LINE_SEEDS = 27
JOBS = 100  # whose kept words are one report of their server
TURNS, TURNS_SHORT = 150, 15


def seeds(most: int) -> list[Any]:
    """Return the seeds from 0 on; all but the first are for the complete suite."""
    return [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, most))]


def kept(seed: int) -> Iterator[AttemptReport]:
    """Yield what a supervisor knows of its job after each odd line that it reads."""
    rng, facts = Random(seed), AttemptFacts(ATTEMPT)
    for number in range(LINES):
        line = WrittenLine.parse(odd_line(rng))
        if line is not None:
            facts.told(line, now_s=float(number))
            yield facts.report


@pytest.mark.parametrize("seed", seeds(LINE_SEEDS))
def test_every_line_of_a_job_becomes_a_report_that_is_read_whole(seed: int) -> None:
    """What the supervisor keeps of odd lines, the agent and the scheduler read again without leaving anything out."""
    read = 0
    for report in kept(seed):
        read += 1
        state = SupervisorState(supervisor=None, trainer=None, report=report)

        assert SupervisorState.parse(encode(state)) == state
        assert AttemptReport.parse_usable(json.loads(encode(report))) == report

    assert read > 0.35 * LINES, "too few lines look like a report"


def report_body() -> dict[str, Any]:
    """Return a good report of a server with two devices and two attempts."""
    measured = {"rates": [[1, 1.0], [2, 1.5]], "free_cores": 4, "took_s": 1.0}
    attempt = json.loads(encode(AttemptReport(attempt_id=ATTEMPT, phase="running", step=7, loss=0.5)))
    slot = DeviceReport(index=0, uuid="cpu-slot-0", model="CPU slot", memory_bytes=0, healthy=True)
    device = json.loads(encode(slot))
    return {
        "agent_version": "1",
        "boot_id": "b",
        "device_kind": "cpu_slot",
        "isolation": "none",
        "num_cpus": 4,
        "memory_bytes": 2**33,
        "cpu_frac": 0.5,
        "used_memory_bytes": 2**30,
        "devices": [device, {**device, "index": 1, "uuid": "cpu-slot-1"}],
        "attempts": [attempt, {**attempt, "attempt_id": ATTEMPT[:-1] + "5", "measured": measured}],
    }


def desired_body() -> dict[str, Any]:
    """Return a good order for a server with one attempt."""
    wanted = AttemptWanted(
        attempt_id=ATTEMPT,
        job_id=ATTEMPT,
        wanted="run",
        generation=1,
        gpu_indexes=(0,),
        gpu_uuids=("cpu-slot-0",),
        cpu_ids=(0, 1),
        memory_bytes=2**30,
        disk_bytes=2**30,
        log_bytes=2**20,
        command=("python", "job.py"),
        env={"NAME": "value"},
        files={"job.py": "pass"},
        grace_s=5.0,
        max_duration_s=60.0,
        resume_attempt_id=ATTEMPT,
        resume_name="step-000007.pt",
    )
    return DesiredState(lease_ttl_s=30.0, acknowledged_sequence=1, attempts=(wanted,)).to_json()


READERS: tuple[tuple[type[ServerReport | DesiredState], Callable[[], dict[str, Any]]], ...] = (
    (ServerReport, report_body),
    (DesiredState, desired_body),
)


def spoil(rng: Random, data: Any) -> None:
    """Change one thing somewhere in JSON data."""
    while True:
        keys = list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else []
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(data[key], dict | list) and data[key] and rng.random() < 0.8:
            data = data[key]
            continue
        if isinstance(data, dict) and rng.random() < 0.1:
            del data[key]
        elif isinstance(data, list) and rng.random() < 0.2:
            data.append(data[key])
        else:
            data[key] = odd_value(rng)
        return


@pytest.mark.parametrize("seed", seeds(11))
def test_every_body_of_a_server_is_read_or_refused(seed: int) -> None:
    """Nothing but a refusal comes out of the readers, and what is read can be sent on."""
    for reader, good_body in READERS:
        rng, good, read = Random(seed), json.dumps(good_body()), 0
        for _ in range(BODIES):
            body = json.loads(good)
            for _ in range(rng.randrange(1, 4)):
                spoil(rng, body)
            try:
                found = reader.parse(body)
            except ProtocolError:
                continue
            read += 1
            json.dumps(found.to_json(), allow_nan=False)

        assert read > BODIES // 20, (reader.__name__, read)


OF_A_JOB = (
    *("first_step", "total_steps", "loss", "cached_frac", "measured"),
    *("gang_version", "gang_size", "switch_s"),
)
FINITE = tuple(one for one in (*NUMBERS, *OTHERS) if one == one and one not in (float("inf"), float("-inf")))
PATHS = (
    *("/api/v1/jobs", "/api/v1/overview", "/api/v1/queues", "/api/v1/queues/vision/loans", "/api/v1/experiments"),
    *("/", "/jobs", "/queues/vision", "/experiments", "/cluster", "/metrics", "/readyz"),
)
OF_ONE_JOB = ("/api/v1/jobs/{}", "/api/v1/jobs/{}/explain", "/api/v1/jobs/{}/series", "/jobs/{}")


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """A cluster with an experiment of liars and one honest neighbour."""
    made = World()
    notify.use_bell(made.bell)
    made.queue("vision", quota_gpus=8)
    yield made
    notify.use_bell(None)


def say_odd_things(world: World, rng: Random, honest: Job) -> None:
    """Let every other attempt report something odd."""
    for agent in world.agents.values():
        for attempt in agent.attempts.values():
            if attempt.wanted.job_id == honest.pk or attempt.phase != "running":
                continue
            attempt.extra = {name: rng.choice(FINITE) for name in rng.sample(OF_A_JOB, k=rng.randrange(4))}
            attempt.step = rng.choice((attempt.step, 0, 1, 2**53, 10**12, (attempt.step or 0) + 1))
            attempt.steps_per_s = rng.choice((0.0, 5e-324, 1e-9, 1.0, 1e9))
            if rng.random() < 0.2:
                attempt.checkpoint_step = rng.choice((0, 1, 10**12))


def pages_fail(client: Client, jobs: list[Job]) -> list[str]:
    """Return the pages and answers that are an error of ours."""
    cache.clear()  # or the rate limit answers
    paths = [*PATHS, *(path.format(f"J-{job.number}") for path in OF_ONE_JOB for job in jobs)]
    return [path for path in paths if client.get(path).status_code >= 500 and path != "/readyz"]


def assert_no_defect() -> None:
    """No step of the engine fails, no report met a defect of ours, and no server was lost."""
    assert Cluster.objects.get().failing_steps == {}
    assert not Event.objects.filter(kind="step").exists()
    assert set(Server.objects.values_list("state", flat=True)) == {"up"}
    assert not Event.objects.filter(kind="report_unusable", reason="defect").exists()
    assert not Event.objects.filter(kind="report_rejected", data__has_key="inconsistent").exists()


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long)], ids=["one seed", "the others"])
def test_whatever_lines_leave_is_taken_by_the_engine(world: World, first: int) -> None:
    """Each kept report is what one of a hundred jobs says, in reports of their server; rounds and checks go on."""
    Queue.objects.update(quota_gpus=JOBS)
    agent = world.server("alpha", slots=JOBS)
    early = {"early_stop": True, "total_steps": 100}
    jobs = [world.submit(progress=early) if number % 2 else world.submit() for number in range(JOBS)]
    world.until(lambda: Job.objects.filter(state=JobState.RUNNING).count() == JOBS)
    words = (report for seed in (range(1, LINE_SEEDS) if first else [0]) for report in kept(seed))
    taken = 0
    while batch := list(islice(words, JOBS)):
        for attempt, said in zip(agent.attempts.values(), batch, strict=False):
            attempt.said = said
        world.pass_time(1)
        taken += len(batch)

    assert taken > 0.35 * LINES * (LINE_SEEDS - 1 if first else 1)
    assert_no_defect()
    client = Client(raise_request_exception=False)
    client.force_login(world.admin)
    assert pages_fail(client, jobs[:3]) == []


@pytest.mark.parametrize("seed", seeds(3))
def test_odd_words_stop_no_turn_lose_no_server_and_break_no_page(world: World, seed: int) -> None:
    """Leases are renewed, the neighbour trains on, every page answers."""
    rng = Random(seed)
    agent = world.server("alpha", slots=6)
    early = {"early_stop": True, "total_steps": 100}
    body = experiment_body(configurations=3, sampler="random", seed=seed)
    world.do(lambda: experiment_submit(actor=world.admin, data=body, at=world.clock.now(), ids=world.ports.ids))
    jobs = [world.submit(progress=early), world.submit(), world.submit()]
    honest = jobs[-1]
    world.until(lambda: Job.objects.filter(state=JobState.RUNNING).count() >= 5)
    client = Client(raise_request_exception=False)
    client.force_login(world.admin)
    for number in range(TURNS if seed else TURNS_SHORT):
        say_odd_things(world, rng, honest)
        world.pass_time(1 + 11 * (rng.random() < 0.1))
        if number % 15 == 14:
            assert pages_fail(client, list(Job.objects.order_by("number"))) == []

    assert_no_defect()
    assert Job.objects.get(pk=honest.pk).step == agent.attempt_of(honest.pk).step
