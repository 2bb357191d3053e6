"""What a server tries that was taken over: it has its key and the rights of its broker user, and lies about itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.core.records import encode
from agents.protocol.server_report import AttemptReport
from agents.protocol.signing import Stamp
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Event, Gpu, Job, Lease, Server
from scheduler.notify import use_bell
from tests.support.live.ports import FakeAttempt
from tests.support.live.world import World

CELERY = json.dumps(
    {
        "body": "W1tdLCB7fSwgeyJjYWxsYmFja3MiOiBudWxsfV0=",
        "content-type": "application/json",
        "headers": {"task": "scheduler.tasks.round", "id": "1", "callbacks": [{"task": "agents.tasks.receive"}]},
        "properties": {"delivery_info": {"routing_key": "scheduler"}, "body_encoding": "base64"},
    }
)


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """A cluster with one queue and no server."""
    made = World()
    made.queue("vision")
    yield made
    use_bell(None)


class Pair:
    """A server that tells the truth and runs a job, and one that lies."""

    def __init__(self, world: World) -> None:
        self.world = world
        first, second = world.server("alpha"), world.server("beta")
        self.job = world.submit()
        world.until_state(self.job, JobState.RUNNING)
        self.honest = world.agent_of(self.job)
        self.liar = second if self.honest is first else first

    def say(self, message: str) -> None:
        """Let the scheduler take a message of the liar."""
        self.world.do(lambda: self.world.engine.take([(self.liar.server_id, message)]))

    def sealed(self, **changes: Any) -> str:
        """Return the liar's next report with other words in it, signed with its own key."""
        content = json.loads(json.loads(self.liar.report())["content"])
        stamp = Stamp(**{name: content[name] for name in ("epoch", "generation", "sequence")})
        return self.liar.seal(stamp, {**content["body"], **changes})


@pytest.fixture
def pair(world: World) -> Pair:
    """Both servers."""
    return Pair(world)


def rows() -> list[Any]:
    """Return all that a report may change."""
    return [list(model.objects.order_by("pk").values()) for model in (Job, Attempt, Lease, Gpu)]


def test_celery_message_among_reports_runs_nothing(pair: Pair) -> None:
    """Callbacks in a message would be sent on with the rights of its reader; reports are never Celery's."""
    before = rows()
    pair.say(CELERY)

    assert rows() == before
    assert Event.objects.get(kind="report_rejected").reason == "malformed"


def test_server_ends_no_job_of_others(pair: Pair) -> None:
    """It names the attempt as its own, ended or with progress of its choice."""
    before = rows()
    order = pair.honest.attempt_of(pair.job.pk).wanted
    for phase, cause in (("ended", "completed"), ("ended", "exit_code"), ("parked", ""), ("running", "")):
        pair.liar.attempts = {order.attempt_id: FakeAttempt(wanted=order, phase=phase, cause=cause, step=9)}
        pair.say(pair.liar.report())

    assert rows()[:3] == before[:3]
    assert Event.objects.get(kind="report_rejected").reason == "foreign_attempt"


def test_thousands_of_strange_attempts_are_counted_at_the_price_of_one(
    pair: Pair, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """As many as a report may name; one more and it is refused whole."""
    strange = [
        json.loads(encode(AttemptReport(attempt_id=f"01JD{number:022d}", phase="running", step=number)))
        for number in range(4_096)
    ]
    message = pair.sealed(attempts=strange)
    with django_assert_max_num_queries(25):
        pair.say(message)
    pair.say(pair.sealed(attempts=[*strange, strange[0]]))

    assert Server.objects.get(pk=pair.liar.server_id).rejected_reports == 4_096 + 1


@pytest.mark.parametrize(
    "words",
    [
        {"num_cpus": 10**9},
        {"num_cpus": -1},
        {"memory_bytes": 2**70},
        {"cpu_frac": 1e300},
        {"device_kind": "toaster"},
        {"devices": [{}]},
        {"devices": "none"},
        {"agent_version": "x" * 1_000},
        {"boot_id": "\x00"},
        {"address": ["10.0.0.1"]},
        {"attempts": {"a": 1}},
    ],
    ids=str,
)
def test_words_that_no_server_says_are_refused_whole(pair: Pair, words: dict[str, Any]) -> None:
    """Nothing of such a report is kept, and the next good one counts."""
    before = rows()
    pair.say(pair.sealed(**words))

    assert rows() == before
    assert Event.objects.get(kind="report_rejected").reason == "malformed"
    pair.world.pass_time(2)
    assert Server.objects.get(pk=pair.liar.server_id).rejected_reports == 1
    assert Server.objects.get(pk=pair.liar.server_id).state == "up"


def test_devices_of_others_are_only_a_name(pair: Pair) -> None:
    """A server that claims the GPUs of another takes none of them away."""
    theirs = list(Gpu.objects.filter(server=pair.honest.server_id).order_by("index").values_list("uuid", flat=True))
    devices = [
        {"index": index, "uuid": uuid, "model": "mine", "memory_bytes": 0, "healthy": True}
        for index, uuid in enumerate(theirs)
    ]
    pair.say(pair.sealed(devices=devices))
    pair.world.pass_time(3)

    own = Gpu.objects.filter(server=pair.honest.server_id).order_by("index")
    assert list(own.values_list("uuid", "healthy")) == [(uuid, True) for uuid in theirs]
    assert pair.world.state(pair.job) == JobState.RUNNING


@pytest.mark.parametrize("measured", [{}, {"rates": 1}, {"rates": [[1, 1.0]]}, [], "fast", 7], ids=str)
def test_measurement_of_a_wrong_shape_costs_only_itself(pair: Pair, measured: Any) -> None:
    """The rest of the report counts: the server is heard and its jobs go on."""
    agent = pair.honest
    attempt = agent.attempt_of(pair.job.pk)
    attempt.extra = {"measured": measured}
    attempt.step = 77
    pair.world.do(lambda: pair.world.engine.take([(agent.server_id, agent.report())]))

    assert Server.objects.get(pk=agent.server_id).rejected_reports == 0
    assert Job.objects.get(pk=pair.job.pk).step == 77
