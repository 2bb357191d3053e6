"""Experiments by the real engine, with a fake agent on a virtual clock."""

from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.search_space import read_space
from scheduler.live.observed.searches import searches_step
from scheduler.live.observed.written_losses import AGAIN_AFTER, losses_read
from scheduler.models import Configuration, Event, Experiment, Job, WrittenLoss
from scheduler.services.jobs import experiments
from scheduler.services.jobs.experiments import CHUNK, experiment_cancel, experiment_submit
from scheduler.services.jobs.suggestions import suggest
from tests.support.live.world import World
from tests.support.rows.files import file_write, job_directory

BODY: dict[str, Any] = {
    "job": {"apiVersion": "v1", "name": "s", "queue": "vision", "command": ["train", "{limit}"]},
    "space": {"limit": {"low": 0.0, "high": 1.0}},
    "sampler": "random",
    "seed": 5,
    "configurations": 8,
    "total_steps": 100,
    "feedback_steps": 10,
    "target_loss": 0.25,
}


@pytest.fixture
def slicing(world: World) -> World:
    """Two slots on which jobs take turns."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    world.server("alpha", slots=2)
    return world


@pytest.fixture
def shared(settings: Any, tmp_path: Path) -> Path:  # pytest-django's settings
    """A shared directory of this test's own."""
    settings.SHARED_DIR = tmp_path / "shared"
    return Path(settings.SHARED_DIR)


def begin(world: World, **changes: Any) -> Experiment:
    """Begin an experiment."""
    data = {**BODY, **changes}
    return world.do(lambda: experiment_submit(actor=world.admin, data=data, at=world.clock.now(), ids=world.ports.ids))


def loss_at(limit: float, step: int) -> float:
    """Return the loss of the configuration with this parameter."""
    return float(limit + (1 - limit) * (1.0 + step) ** -0.5)


def train(world: World, seconds: int) -> None:
    """Let time pass; a job's loss falls from 1 towards the limit that is its parameter, and it ends after 100 steps."""
    for _ in range(seconds):
        for agent in world.agents.values():
            for attempt in agent.attempts.values():
                if attempt.phase == "running":
                    limit, step = float(attempt.wanted.command[1]), attempt.step or 0
                    attempt.extra["loss"] = loss_at(limit, step)
                    if step >= 100:
                        attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
        world.pass_time(1)


def test_search_ends_the_poor_and_finds_the_target(slicing: World) -> None:
    """All get feedback early; those that cannot reach the target end, the best get weight, and one finds it."""
    limits = [float(one["limit"]) for one in suggest(read_space(BODY["space"]), [], sampler="random", seed=5, count=8)]
    experiment = begin(slicing, target_loss=loss_at(min(limits), 60))
    best = min(experiment.configurations.all(), key=lambda one: one.values["limit"])
    train(slicing, 150)
    experiment.refresh_from_db()
    best.refresh_from_db()
    rest = Configuration.objects.filter(experiment=experiment)

    assert sorted(one.values["limit"] for one in rest) == sorted(limits)
    assert experiment.state == "found"
    assert all(one.job.state in ("cancelled", "completed") for one in rest.select_related("job"))
    poor = [one for one in rest if one.promise == "poor"]
    assert len(poor) >= 4
    assert all(
        one.values["limit"] > 0.25 and one.heading_for == pytest.approx(one.values["limit"], abs=0.1) for one in poor
    )
    assert best.promise == "promising"
    assert Job.objects.get(pk=best.job_id).weight == 8.0
    told = Event.objects.filter(kind="search", reason="poor").order_by("pk")[0]
    assert told.data["chance"] < 0.05


def train_by_files(world: World, seconds: int) -> None:
    """Let time pass; jobs report nothing, write their losses into a table, and end after 100 rows of it."""
    for second in range(seconds):
        for agent in world.agents.values():
            for attempt in agent.attempts.values():
                if attempt.phase == "running":
                    attempt.steps_per_s = 0.0
                    job = Job.objects.get(pk=attempt.wanted.job_id)
                    path, limit = job_directory(job) / "metrics.csv", float(attempt.wanted.command[1])
                    done = len(path.read_text().splitlines()) - 1 if path.exists() else 0
                    rows = "".join(f"{step},{loss_at(limit, step)}\n" for step in range(done, done + 4))
                    file_write(job, "metrics.csv", (path.read_bytes() if done else b"step,loss\n") + rows.encode())
                    if done >= 100:
                        attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
        if second % 3 == 0:
            losses_read(at=world.clock.now())
        world.pass_time(1)


def test_search_judges_losses_in_files(slicing: World, shared: Path) -> None:
    """They end the poor, make curves and reach the target as reports do."""
    limits = [float(one["limit"]) for one in suggest(read_space(BODY["space"]), [], sampler="random", seed=5, count=8)]
    experiment = begin(slicing, target_loss=loss_at(min(limits), 60))
    train_by_files(slicing, 150)
    experiment.refresh_from_db()
    rows = list(Configuration.objects.filter(experiment=experiment).select_related("job"))

    assert experiment.state == "found"
    assert sum(one.promise == "poor" for one in rows) >= 4
    assert all(one.job.loss is None for one in rows)
    assert all(len(one.curve) >= 5 for one in rows if one.promise == "poor")


def test_search_in_vain_waits_until_the_last_file_is_read(slicing: World, shared: Path) -> None:
    """What the last job wrote may be the target; of a disk that is away the search says no more than that."""
    found = begin(slicing, configurations=1)
    lost = begin(slicing, configurations=1, seed=6)
    slicing.until(lambda: Job.objects.filter(state=JobState.RUNNING).count() == 2)
    file_write(found.configurations.get().job, "metrics.csv", b"step,loss\n99,0.1\n")
    for agent in slicing.agents.values():
        for attempt in agent.attempts.values():
            attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
    slicing.pass_time(10)
    states = [Experiment.objects.get(pk=one.pk).state for one in (found, lost)]
    WrittenLoss.objects.create(
        job=found.configurations.get().job, source="loss in metrics.csv", step=99, loss=0.1, is_whole=True,
        is_final=True, read_at=slicing.clock.now(),
    )  # fmt: skip
    slicing.pass_time(60)

    assert states == ["running", "running"]
    assert [Experiment.objects.get(pk=one.pk).state for one in (found, lost)] == ["found", "exhausted"]


def test_tpe_learns_from_what_completed_jobs_left_in_files(slicing: World, shared: Path) -> None:
    """Also of those that ended before their first look."""
    learned: list[float | None] = []

    def noted(space: Any, known: Any, **more: Any) -> Any:  # as ``suggest``, which it calls
        learned.extend(loss for _, loss in known)
        return suggest(space, known, **more)

    experiment = begin(slicing, sampler="tpe", configurations=2, target_loss=0.0)
    slicing.until(lambda: Job.objects.filter(state=JobState.RUNNING).exists())
    first = experiment.configurations.order_by("number")[0]
    file_write(first.job, "metrics.csv", b"step,loss\n3,0.7\n")
    Job.objects.filter(pk=first.job_id).update(state=JobState.COMPLETED, ended_at=slicing.clock.now())
    losses_read(at=slicing.clock.now() + AGAIN_AFTER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "suggest", noted)
        experiment.size = 3
        experiments.configurations_add(experiment, count=1, at=slicing.clock.now(), ids=slicing.ports.ids)

    assert learned[0] == 0.7


def test_tpe_asks_for_more_as_verdicts_come(slicing: World) -> None:
    """As many as the slots hold wait for their verdict at a time, and all that were asked for are tried."""
    experiment = begin(slicing, sampler="tpe", configurations=6, target_loss=0.0)
    slicing.pass_time(2)
    early = experiment.configurations.count()
    train(slicing, 120)
    experiment.refresh_from_db()

    assert early <= 2
    assert experiment.configurations.count() == 6
    assert experiment.state == "exhausted"


def test_cancelled_experiment_ends_its_jobs(slicing: World) -> None:
    """Also those that are parked."""
    experiment = begin(slicing)
    train(slicing, 15)
    slicing.do(lambda: experiment_cancel(actor=slicing.admin, experiment=experiment, at=slicing.clock.now()))
    slicing.pass_time(3)

    assert Experiment.objects.get().state == "cancelled"
    assert set(Job.objects.values_list("state", flat=True)) == {JobState.CANCELLED}


def test_large_search_is_made_in_chunks(slicing: World) -> None:
    """A request makes the first, the engine the rest, in transactions of their own; values do not repeat."""
    experiment = begin(slicing, configurations=2 * CHUNK + 30)
    counts = [experiment.configurations.count()]
    for _ in range(3):
        slicing.do(lambda: searches_step(at=slicing.clock.now(), ids=slicing.ports.ids))
        counts.append(experiment.configurations.count())
    rows = list(experiment.configurations.values_list("number", "values__limit"))

    assert counts == [CHUNK, 2 * CHUNK, 2 * CHUNK + 30, 2 * CHUNK + 30]
    assert [number for number, _ in rows] == list(range(1, 2 * CHUNK + 31))
    assert len({limit for _, limit in rows}) == len(rows)


@pytest.mark.parametrize(
    ("setting", "most"), [("experiment_most_jobs", "between 1 and 20"), ("user_most_queued", "at most 20")]
)
def test_search_beyond_a_limit_is_refused_at_once(slicing: World, setting: str, most: str) -> None:
    """With the number that would be right."""
    slicing.settings(**{setting: 20})
    with pytest.raises(SpecInvalid, match=most) as refused:
        begin(slicing, configurations=21)

    assert [error.pointer for error in refused.value.errors] == ["/configurations"]
    assert begin(slicing, configurations=20).size == 20


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"job": {**BODY["job"], "queue": "nowhere"}}, "/job/queue"),
        ({"space": {"limit": {"low": 1, "high": 0}}}, "/space/limit"),
        ({"configurations": 0}, "/configurations"),
        ({"feedback_steps": 100}, "/total_steps"),
        ({"sampler": "grid"}, "/space"),
        ({"sampler": "bayes"}, "/sampler"),
    ],
)
def test_experiment_without_sense_is_refused(slicing: World, changes: dict[str, Any], pointer: str) -> None:
    """Nothing of it is submitted."""
    with pytest.raises(SpecInvalid) as refused:
        begin(slicing, **changes)

    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert not Job.objects.exists()
    assert not Experiment.objects.exists()
