"""What one job says, or one step of the engine does, never reaches the jobs and servers of others."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from agents.protocol.server_report import AttemptReport
from scheduler.core.model.lifecycle import JobState
from scheduler.live.observed.searches import searches_step
from scheduler.live.reports.progress import progress_take
from scheduler.live.rounds import desired
from scheduler.models import Cluster, Event, Job, Server
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

# What ends a naive reader: products overflow, quotients divide by zero, floats no longer tell two steps apart.
ODD: list[dict[str, Any]] = [
    {"measured": {"rates": [[1, 1e18], [2, 5e-324]], "free_cores": 4, "took_s": 1.0}},
    {"steps_per_s": 1e300},
    {"loss": 1e17},
    {"first_step": 2**61},
    {"total_steps": 2**61},
]


def say(world: World, agent: FakeAgent, job: Job, words: dict[str, Any]) -> None:
    """Let a job's report hold what no reader of ours would write."""
    attempt = agent.attempt_of(job.pk)
    attempt.steps_per_s = words.get("steps_per_s", attempt.steps_per_s)
    attempt.extra = {name: value for name, value in words.items() if name != "steps_per_s"}
    world.do(lambda: world.engine.take([(agent.server_id, agent.report())]))


@pytest.mark.parametrize("words", ODD, ids=str)
def test_odd_numbers_cost_only_the_job_that_says_them(world: World, words: dict[str, Any]) -> None:
    """Its server is heard, its neighbour goes on, and it reads what was wrong."""
    agent = world.server("alpha")
    odd, neighbour = world.submit(), world.submit()
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in (odd, neighbour)))
    agent.work(5)
    say(world, agent, odd, words)

    assert Job.objects.get(pk=neighbour.pk).step == agent.attempt_of(neighbour.pk).step
    assert Server.objects.get().rejected_reports == 0
    [told] = Event.objects.filter(job=odd, kind="report_unusable")
    assert (told.reason, told.data["error"]) == ("numbers", next(iter(words)))
    step = agent.attempt_of(odd.pk).step
    assert Job.objects.get(pk=odd.pk).step == step, "a number that is well was left out with the odd one"


def test_defect_in_taking_in_one_job_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is taken with what the agent itself knows of that job, which still ends."""
    agent = world.server("alpha")
    odd, neighbour = world.submit(), world.submit()
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in (odd, neighbour)))

    def breaks(attempt: Any, said: AttemptReport, *arguments: Any, **named: Any) -> None:
        if attempt.job_id == odd.pk and said.step is not None:
            raise ZeroDivisionError("a defect")
        progress_take(attempt, said, *arguments, **named)

    monkeypatch.setattr("scheduler.live.reports.apply_report.progress_take", breaks)
    world.pass_time(3)
    attempt = agent.attempt_of(odd.pk)
    attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
    world.pass_time(2)

    assert Job.objects.get(pk=neighbour.pk).step == agent.attempt_of(neighbour.pk).step
    assert world.state(odd) == JobState.COMPLETED
    assert Server.objects.get().state == "up"
    told = Event.objects.get(job=odd, kind="report_unusable")
    assert (told.reason, told.data) == ("defect", {"error": "ZeroDivisionError: a defect"})


def test_step_that_fails_stops_no_other_and_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are renewed, jobs run on, ``/readyz`` and every page say what fails, until it works again."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)

    def breaks(**_: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("scheduler.live.engine.searches_step", breaks)
    sent = agent.stamp.sequence
    world.pass_time(120)

    assert world.state(job) == JobState.RUNNING
    assert agent.stamp.sequence > sent, "no lease was renewed"
    assert set(Cluster.objects.get().failing_steps) == {"searches"}
    assert Event.objects.get(kind="step").data == {"step": "searches", "error": "ZeroDivisionError: a defect"}
    ready = Client().get("/readyz").json()["parts"]["steps"]
    assert not ready["ok"]
    assert "searches since" in ready["detail"]

    monkeypatch.setattr("scheduler.live.engine.searches_step", searches_step)
    world.pass_time(3)

    assert Cluster.objects.get().failing_steps == {}
    assert Event.objects.filter(kind="step").values_list("reason", flat=True)[0] == "well"


def test_step_that_the_database_refuses_for_long_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a lock that is never free looks like a deadlock at first, and is none after five in a row."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)

    def refuses(**_: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr("scheduler.live.engine.searches_step", refuses)
    sent = agent.stamp.sequence
    world.pass_time(3)
    assert Cluster.objects.get().failing_steps == {}, "a deadlock was told"

    world.pass_time(57)

    assert agent.stamp.sequence > sent, "no lease was renewed"
    assert world.state(job) == JobState.RUNNING
    [failing] = Event.objects.filter(kind="step")
    assert failing.data == {"step": "searches", "error": "OperationalError: disk full"}
    ready = Client().get("/readyz").json()["parts"]["steps"]
    assert not ready["ok"]
    assert "searches since" in ready["detail"]

    monkeypatch.setattr("scheduler.live.engine.searches_step", searches_step)
    world.pass_time(3)

    assert Client().get("/readyz").json()["parts"]["steps"]["ok"]
    assert Event.objects.filter(kind="step", reason="well").count() == 1


def test_leases_that_the_database_renews_for_no_server_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server is postponed by itself, so that none stops the others; one that works is enough to go on."""
    alpha = world.server("alpha")
    world.server("beta")
    world.pass_time(5)
    real = desired.desired_message
    refused = {alpha.server_id}

    def refuses(orders: desired.ServerOrders, **named: Any) -> str:
        if orders.server.pk in refused:
            raise OperationalError("disk full")
        return real(orders, **named)

    monkeypatch.setattr("scheduler.live.rounds.desired.desired_message", refuses)
    world.pass_time(60)
    assert Cluster.objects.get().failing_steps == {}

    refused |= set(Server.objects.values_list("pk", flat=True))
    world.pass_time(60)
    assert "leases" in Cluster.objects.get().failing_steps

    refused.clear()
    world.pass_time(20)
    assert Cluster.objects.get().failing_steps == {}


def test_reports_that_the_database_refuses_for_long_are_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is only postponed; none is taken in."""
    world.server("alpha")
    world.pass_time(3)

    def refuses(*_: Any, **__: Any) -> None:
        raise OperationalError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("scheduler.live.engine.batch_apply", lambda *_, **__: {})
        patch.setattr("scheduler.live.engine.report_apply", refuses)
        world.pass_time(10)
        assert set(Cluster.objects.get().failing_steps) == {"writing reports"}

    world.pass_time(2)
    assert Cluster.objects.get().failing_steps == {}


def test_attempt_that_no_words_can_be_used_of_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ended nor missing; its neighbour goes on."""
    agent = world.server("alpha")
    odd, neighbour = world.submit(), world.submit()
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in (odd, neighbour)))

    def breaks(attempt: Any, *arguments: Any, **named: Any) -> None:
        if attempt.job_id == odd.pk:
            raise ZeroDivisionError("a defect")
        progress_take(attempt, *arguments, **named)

    monkeypatch.setattr("scheduler.live.reports.apply_report.progress_take", breaks)
    world.pass_time(60)

    assert world.state(odd) == world.state(neighbour) == JobState.RUNNING
    assert Job.objects.get(pk=neighbour.pk).step == agent.attempt_of(neighbour.pk).step


@pytest.mark.parametrize("part", ["inventory_update", "late_ends_take", "_gangs_parked"])
def test_defect_in_another_part_of_a_report_costs_that_part_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The server is heard, its jobs go on and end, and the list of servers says what was left out."""
    agent = world.server("alpha")
    first, second = world.submit(), world.submit()
    world.until(lambda: all(world.state(job) == JobState.RUNNING for job in (first, second)))

    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(f"scheduler.live.reports.apply_report.{part}", breaks)
    monkeypatch.setattr("scheduler.live.engine.batch_apply", lambda *_, **__: {})
    world.pass_time(60)
    agent.end(first.pk, cause="completed", exit_code=0)
    world.pass_time(3)

    assert Server.objects.get().state == "up"
    assert (world.state(first), world.state(second)) == (JobState.COMPLETED, JobState.RUNNING)
    assert Job.objects.get(pk=second.pk).step == agent.attempt_of(second.pk).step
    told = Event.objects.filter(kind="report_rejected")
    assert {event.reason for event in told} == {"inconsistent"}
    assert len(told) <= 2, "once a minute"


def test_server_whose_row_cannot_be_read_silences_no_other(world: World) -> None:
    """A key that no code of ours writes: the jobs of others go on."""
    world.server("alpha")
    world.server("beta")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    other = Server.objects.exclude(name=world.agent_of(job).name).get()
    Server.objects.filter(pk=other.pk).update(key_hex="no key")
    world.pass_time(60)

    assert world.state(job) == JobState.RUNNING
    assert Job.objects.get(pk=job.pk).step == world.agent_of(job).attempt_of(job.pk).step
    assert Server.objects.get(pk=other.pk).state == "lost"
    assert {event.reason for event in Event.objects.filter(kind="report_rejected")} == {"inconsistent"}


def test_reports_that_cannot_be_taken_at_all_are_told_as_a_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what does not need them goes on."""
    world.server("alpha")

    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("scheduler.live.engine.reports_open", breaks)
    world.pass_time(5)

    assert set(Cluster.objects.get().failing_steps) == {"reports"}
    assert "reports since" in Client().get("/readyz").json()["parts"]["steps"]["detail"]


def test_leases_that_cannot_be_renewed_for_one_server_are_for_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is told for as long as it lasts, though most turns renew nothing."""
    alpha, beta = world.server("alpha"), world.server("beta")
    world.pass_time(5)
    real = desired.desired_message

    def breaks(orders: desired.ServerOrders, **named: Any) -> str:
        if orders.server.pk == min(alpha.server_id, beta.server_id):
            raise ZeroDivisionError("a defect")
        return real(orders, **named)

    monkeypatch.setattr("scheduler.live.rounds.desired.desired_message", breaks)
    first, last = sorted((alpha, beta), key=lambda agent: agent.server_id)
    before = (first.stamp.sequence, last.stamp.sequence)
    world.pass_time(60)

    assert first.stamp.sequence == before[0]
    assert last.stamp.sequence > before[1]
    assert "leases" in Cluster.objects.get().failing_steps
    assert Event.objects.filter(kind="step", data__step="leases").count() == 1


def test_report_about_an_attempt_of_another_server_writes_nothing_to_its_job(world: World) -> None:
    """Nor does one about an attempt that has ended."""
    alpha, beta = world.server("alpha"), world.server("beta")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    holder, liar = (alpha, beta) if world.agent_of(job) is alpha else (beta, alpha)
    attempt = holder.attempt_of(job.pk)
    liar.attempts[attempt.wanted.attempt_id] = replace(attempt, extra={"loss": 1e17})
    world.do(lambda: world.engine.take([(liar.server_id, liar.report())]))

    assert not Event.objects.filter(kind="report_unusable").exists()
