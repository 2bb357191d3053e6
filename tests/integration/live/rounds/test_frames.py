"""Live frames and samples: the first change at once, the rest together, and never more than a page would show."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from scheduler.broker import ChannelFrames, frame_message
from scheduler.core.model.lifecycle import JobState
from scheduler.live.reports import rollup
from scheduler.live.reports.frames import EVERY_S, MEASURED_S, ROWS_MOST, queue_counts
from scheduler.live.reports.rollup import samples_roll_up
from scheduler.models import Sample
from tests.support.live.ports import START, SentFrame
from tests.support.live.world import World
from tests.support.rows import factories


def _touch(world: World, *names: str) -> None:
    world.engine.frames.touch(names)


def _flush(world: World) -> list[SentFrame]:
    """Send what is due and return it."""
    world.frames.sent.clear()
    world.engine.frames.flush(now_s=world.clock.mono_s())
    return list(world.frames.sent)


def _groups(frames: list[SentFrame], kind: str) -> list[str]:
    return [frame.group for frame in frames if frame.kind == kind]


def test_first_change_goes_out_at_once_and_the_rest_half_a_second_later(world: World) -> None:
    """Quiet, change, change, change: one frame now, one frame for the other two."""
    job = world.submit()
    _flush(world)
    world.clock.advance(5)
    _touch(world, f"job.{job.pk}")
    first = _flush(world)
    _touch(world, f"job.{job.pk}")
    too_early = _flush(world)
    _touch(world, f"job.{job.pk}")
    world.clock.advance(EVERY_S)
    second = _flush(world)

    assert _groups(first, "job") == [f"job.{job.pk}"]
    assert too_early == []
    assert _groups(second, "job") == [f"job.{job.pk}"]


def test_nothing_is_read_or_sent_for_groups_that_no_page_watches(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """A page that opens later reads the database; what it missed is not sent to it as news."""
    job = world.submit()
    _flush(world)
    world.frames.groups = set()
    _touch(world, f"job.{job.pk}", f"queue.{job.queue_id}", "cluster")
    with django_assert_num_queries(1):  # how far the events are
        assert _flush(world) == []
    world.clock.advance(EVERY_S)
    world.frames.groups = {"cluster", f"queue.{job.queue_id}"}
    assert _flush(world) == []
    _touch(world, f"job.{job.pk}", f"queue.{job.queue_id}", "cluster")
    sent = _flush(world)

    assert {(frame.group, frame.kind) for frame in sent} == {
        ("cluster", "cluster"), (f"queue.{job.queue_id}", "jobs"), (f"queue.{job.queue_id}", "queue")
    }  # fmt: skip


def test_flush_says_when_the_rest_is_due(world: World) -> None:
    """The thread that sends frames sleeps exactly as long."""
    _flush(world)
    _touch(world, "cluster")
    assert world.engine.frames.flush(now_s=world.clock.mono_s()) is None
    world.clock.advance(0.2)
    _touch(world, "cluster")

    assert world.engine.frames.flush(now_s=world.clock.mono_s()) == pytest.approx(EVERY_S - 0.2)


def test_frames_of_a_job_go_to_its_queue_and_to_its_own_page(world: World) -> None:
    """The queue gets rows, the page gets the row and what was measured."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.attempt_of(job.pk).extra = {"cpu_frac": 0.75, "memory_bytes": 1000}
    world.pass_time(3)
    _touch(world, f"job.{job.pk}")
    frames = _flush(world)
    of_queue = next(f for f in frames if f.group == f"queue.{job.queue_id}" and f.kind == "jobs")
    of_job = next(f for f in frames if f.group == f"job.{job.pk}" and f.kind == "job")

    assert [row["id"] for row in of_queue.data["jobs"]] == [job.pk]
    assert of_job.data["state"] == "running"
    assert of_job.data["cpu_frac"] == 0.75
    assert (of_job.data["servers"], of_job.data["attempt_number"]) == (["alpha"], 1)
    assert json.loads(json.dumps(of_job.data)) == of_job.data


def test_each_frame_of_a_job_carries_what_was_measured(world: World) -> None:
    """A page that is behind gets the newest frame alone: none may leave out what the one before said."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.attempt_of(job.pk).extra = {"cpu_frac": 0.75}
    world.pass_time(3)
    told = []
    for _ in range(2):
        _touch(world, f"job.{job.pk}")
        told += [frame.data["cpu_frac"] for frame in _flush(world) if frame.kind == "job"]
        world.clock.advance(EVERY_S)

    assert told == [0.75, 0.75]


def test_values_measured_long_ago_go_with_no_frame(world: World) -> None:
    """A page that opens later, and one of a job whose server is silent, show no old value as if it were of now."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.attempt_of(job.pk).extra = {"cpu_frac": 0.75}

    def shown() -> float | None:
        _touch(world, f"job.{job.pk}")
        (frame,) = [frame for frame in _flush(world) if frame.kind == "job"]
        cpu_frac: float | None = frame.data["cpu_frac"]
        return cpu_frac

    world.pass_time(1)
    assert shown() == 0.75
    world.pass_time(1)
    world.clock.advance(MEASURED_S)
    assert shown() is None
    world.frames.groups = set()
    world.pass_time(1)
    _touch(world, f"job.{job.pk}")
    _flush(world)
    world.frames.groups = {f"job.{job.pk}"}
    assert shown() is None


def test_cluster_frame_names_no_job_and_no_queue(world: World) -> None:
    """Everybody who is signed in may see it."""
    world.server("alpha")
    job = world.submit(name="very-secret-model")
    world.until_state(job, JobState.RUNNING)
    _touch(world, "cluster")
    (frame,) = [frame for frame in _flush(world) if frame.group == "cluster"]
    text = json.dumps(frame.data)

    assert frame.data["allocated_gpus"] == 1
    assert "very-secret-model" not in text
    assert "vision" not in text


def test_counts_of_a_queue_go_up_to_the_queues_above(world: World) -> None:
    """A parent shows its whole subtree."""
    root = world.queue("root", quota_gpus=8)
    leaf = world.queue("root/leaf", parent=root)
    world.submit("root/leaf")
    _touch(world, f"queue.{leaf.pk}")
    counts = {frame.group: frame.data for frame in _flush(world) if frame.kind == "queue"}

    assert counts[f"queue.{leaf.pk}"]["waiting_jobs"] == 1
    assert counts[f"queue.{root.pk}"]["waiting_jobs"] == 1
    assert set(counts[f"queue.{leaf.pk}"]) == {
        "id",
        "name",
        "held_gpus",
        "quota_gpus",
        "waiting_jobs",
        "running_jobs",
    }


def test_events_are_sent_once(world: World) -> None:
    """Each event goes to its job and its queue, in order."""
    job = world.submit()
    _touch(world, f"job.{job.pk}")
    first = [frame.data["reason"] for frame in _flush(world) if frame.kind == "event" and "job" in frame.group]
    world.clock.advance(1)
    _touch(world, f"job.{job.pk}")
    again = [frame for frame in _flush(world) if frame.kind == "event"]

    assert first == ["submit"]
    assert again == []


def test_many_changed_jobs_are_spread_over_frames(world: World) -> None:
    """A round that moves every job does not make one huge frame."""
    queue = world.queue("crowd")
    owner = factories.user_make()
    jobs = [factories.job_make(queue, owner=owner) for _ in range(ROWS_MOST + 5)]
    _touch(world, *(f"job.{job.pk}" for job in jobs))
    rows = []
    for _ in range(3):
        frames = _flush(world)
        rows.append(sum(len(f.data["jobs"]) for f in frames if f.kind == "jobs"))
        world.clock.advance(EVERY_S)

    assert rows == [ROWS_MOST, 5, 0]


@override_settings(CHANNEL_LAYERS={"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}})
async def test_frames_reach_the_channel_layer() -> None:
    """A consumer that joined the group gets kind and data."""
    layer: Any = get_channel_layer()
    await layer.group_add("cluster", "page")
    await asyncio.to_thread(ChannelFrames().send, "cluster", "cluster", {"num_gpus": 4})
    message = await asyncio.wait_for(layer.receive("page"), timeout=300)

    assert message == frame_message("cluster", "cluster", {"num_gpus": 4})


def test_samples_are_written_in_batches(world: World) -> None:
    """One flush every two seconds holds what was measured of servers, jobs, queues and the cluster."""
    world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    world.agent_of(job).attempt_of(job.pk).extra = {"cached_frac": 0.62}
    world.pass_time(10)
    of_job = list(Sample.objects.filter(scope="job", scope_id=job.pk).order_by("at"))

    assert len(of_job) >= 8
    steps = [sample.values["step"] for sample in of_job]
    assert steps == sorted(steps)
    assert of_job[-1].values["cached_frac"] == 0.62
    assert Sample.objects.filter(scope="server").exists()
    newest = Sample.objects.filter(scope="cluster").latest("at")
    assert (newest.values["allocated_gpus"], newest.values["running_jobs"]) == (1, 1)
    assert Sample.objects.filter(scope="queue", scope_id=str(job.queue_id)).latest("at").values["held_gpus"] == 1


@pytest.mark.django_db
def test_roll_up_conserves_sums() -> None:
    """Value x measured seconds, summed over time, is the same before and after; lists and gaps too."""
    for second in range(600):
        if second % 7:
            at = START + timedelta(seconds=second)
            values: dict[str, Any] = {"gpu_frac": [second / 600, 0.5], "memory_bytes": second}
            if second % 2:
                values["cpu_frac"] = second / 600
            Sample.objects.create(scope="server", scope_id="a", at=at, resolution_s=1, values=values)

    def total(name: str) -> float:
        sums = 0.0
        for sample in Sample.objects.all():
            if name in sample.values:
                value = sample.values[name]
                seconds = sample.values.get("measured_s", {}).get(name, sample.resolution_s)
                sums += (value[0] if isinstance(value, list) else value) * seconds
        return sums

    before = {name: total(name) for name in ("memory_bytes", "cpu_frac", "gpu_frac")}
    for age in (timedelta(hours=2), timedelta(days=2)):
        while samples_roll_up(at=START + age):
            pass
        after = {name: total(name) for name in before}
        assert after == pytest.approx(before)

    assert set(Sample.objects.values_list("resolution_s", flat=True)) == {60}
    assert Sample.objects.count() == 10

    samples_roll_up(at=START + timedelta(days=60))

    assert Sample.objects.count() == 0


def test_frames_of_many_jobs_take_as_many_statements_as_of_one(world: World) -> None:
    """Neither the pages of jobs nor their events are read one by one."""

    def statements(count: int) -> int:
        jobs = [world.submit() for _ in range(count)]
        world.clock.advance(5)
        _touch(world, *(f"job.{job.pk}" for job in jobs))
        with CaptureQueriesContext(connection) as captured:
            frames = _flush(world)
        assert len(_groups(frames, "job")) == count
        assert len([frame for frame in frames if frame.kind == "event"]) == 2 * count
        return len(captured)

    _flush(world)

    assert statements(8) == statements(1)


def test_roll_up_takes_some_series_at_a_time(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many servers there are, what else writes waits for few rows; each transaction may be the last."""
    monkeypatch.setattr(rollup, "SERIES_A_TRANSACTION", 3)
    for second in range(10):
        for server in "abcdefgh":
            at = START + timedelta(seconds=second)
            values = {"cpu_frac": second / 10}
            Sample.objects.create(scope="server", scope_id=server, at=at, resolution_s=1, values=values)
    asked: list[int] = []

    def twice() -> bool:
        asked.append(Sample.objects.filter(resolution_s=1).count())
        return len(asked) <= 2

    samples_roll_up(at=START + timedelta(hours=2), go_on=twice)

    assert asked[:3] == [80, 50, 20]
    while samples_roll_up(at=START + timedelta(hours=2)):
        pass
    assert Sample.objects.filter(resolution_s=1).count() == 0
    assert {sample.values["cpu_frac"] for sample in Sample.objects.all()} == {0.45}
    assert Sample.objects.count() == 8


@pytest.mark.django_db
def test_counts_of_a_queue_go_up_to_the_root_whatever_the_names_are() -> None:
    """Three levels whose names have no slash: each has the jobs of those below it, as the pages have."""
    lab = factories.queue_make("lab")
    nlp = factories.queue_make("nlp", parent=lab)
    speech = factories.queue_make("speech", parent=nlp)
    factories.job_make(speech, state=JobState.QUEUED)
    factories.job_make(nlp, state=JobState.RUNNING, num_gpus=2)

    counts = {
        row["name"]: (row["waiting_jobs"], row["running_jobs"], row["held_gpus"]) for row in queue_counts([speech.pk])
    }

    assert counts == {"lab": (1, 1, 2), "nlp": (1, 1, 2), "speech": (1, 0, 0)}
