"""``auto`` means "measure me": the first attempt is measured, the next job of its kind has the right demand at once."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from agents.protocol.profile import Measured
from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.profile import parse_profile
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Event, Job, Measurement, Profile
from scheduler.selectors.jobs.profiles import profile_detail, profile_list
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.profiles import profile_measure_again
from tests.support.live.ports import GIB, FakeAgent
from tests.support.live.world import World
from tests.support.rows import factories

# Twice as fast with two cores, no faster with four; an agent of the tests has two slots, four cores, 16 GiB.
TOLD = Measured(
    rates=((1, 5.0), (2, 10.0), (4, 10.0)), free_cores=4, took_s=12.0, model_bytes=100.0, largest_tensor_bytes=40.0
)


def _measured(world: World, job: Job, agent: FakeAgent, told: Measured = TOLD) -> None:
    attempt = agent.attempt_of(job.pk)
    attempt.extra, attempt.peak_memory_bytes = {"measured": told}, 2 * GIB
    world.pass_time(2)


def _demand(world: World, job: Job) -> tuple[float, float]:
    live = snapshot_read(cluster_row(), at=world.clock.now())
    row = live.job_pks.index(job.pk)
    return float(live.tables.jobs.demand_cpus[row]), float(live.tables.jobs.demand_memory_bytes[row])


def test_first_job_is_measured_and_the_next_starts_with_its_demand(world: World) -> None:
    """The curve, its cost and its age are kept; the second job is not measured."""
    agent = world.server("alpha")
    first = world.submit()
    world.until_state(first, JobState.RUNNING)

    assert agent.attempt_of(first.pk).wanted.measure_above == 0
    assert _demand(world, first)[0] == float("inf")

    _measured(world, first, agent)
    second = world.submit()
    profile = Profile.objects.get()

    assert profile.fingerprint.startswith("auto-")
    assert profile.rates == [[1.0, 5.0], [2.0, 10.0], [4.0, 10.0]]
    assert [row[0] for row in profile.relative_speed] == [0.5, 1.0, 1.0, 1.0]
    assert (profile.cost_s, profile.skew, profile.measured_cpus) == (12.0, 0.4, 4)
    assert profile.measured_at is not None
    assert _demand(world, first)[0] == _demand(world, second)[0] == 2.0

    world.until_state(second, JobState.RUNNING)

    # Known for all four cores of this server; a wider one would measure it again.
    assert agent.attempt_of(second.pk).wanted.measure_above == 4
    assert Event.objects.filter(job=first, kind="job_measured").count() == 1


def test_job_tells_what_it_measured_and_that_it_is_off_its_gpu_in_one_report(world: World) -> None:
    """Both are taken, in this order; a report that is refused would be refused again and again."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    agent = world.server("alpha", slots=1)
    first, second = world.submit(), world.submit()
    world.until_state(first, JobState.RUNNING)
    agent.stops_at_once = False
    attempt = agent.attempt_of(first.pk)
    world.until(lambda: attempt.wanted.wanted == "park")
    attempt.extra, agent.stops_at_once = {"measured": TOLD}, True
    world.until_state(second, JobState.RUNNING, within_s=3)

    events = Event.objects.filter(job=first).order_by("number").values_list("kind", "new_state")
    told = list(events)
    assert told.index(("job_measured", "")) == told.index(("job_state", "parked")) - 1


def test_measurement_counts_once_however_often_it_is_reported(world: World) -> None:
    """Every report repeats it."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _measured(world, job, agent)
    world.pass_time(5)

    assert Profile.objects.get().cost_s == 12.0
    assert Measurement.objects.get().took_s == 12.0
    assert agent.attempt_of(job.pk).wanted.measure_above is None


def test_what_was_not_asked_for_is_not_believed(world: World) -> None:
    """A job with cores of its own choice is not measured, whatever it says."""
    agent = world.server("alpha")
    job = world.submit(resources={"gpus": 1, "cpus": 1})
    world.until_state(job, JobState.RUNNING)
    _measured(world, job, agent)

    assert agent.attempt_of(job.pk).wanted.measure_above is None
    assert not Profile.objects.exists()


def test_of_two_jobs_at_once_one_is_measured(world: World) -> None:
    """The other one would only disturb it."""
    agent = world.server("alpha")
    jobs = [world.submit(), world.submit()]
    for job in jobs:
        world.until_state(job, JobState.RUNNING)

    assert [agent.attempt_of(job.pk).wanted.measure_above for job in jobs] == [0, None]


def test_memory_is_trimmed_only_after_a_job_has_ended(world: World) -> None:
    """Until then a job may still come to use its share; afterwards a quarter more than was seen."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _measured(world, job, agent)

    assert _demand(world, job)[1] == 8 * GIB

    agent.end(job.pk, cause="completed", exit_code=0)
    world.until_state(job, JobState.COMPLETED)
    later = world.submit()

    assert _demand(world, later)[1] == 2.5 * GIB


def _work_and_end(world: World, agent: FakeAgent, *, steps_per_s: float) -> list[float]:
    """Return the newest live rate after a job of the kind has worked for a while at this rate."""
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    agent.attempt_of(job.pk).steps_per_s = steps_per_s
    world.pass_time(40)
    agent.end(job.pk, cause="completed", exit_code=0)
    world.until_state(job, JobState.COMPLETED)
    rows: list[list[float]] = Profile.objects.get().live_rates
    return rows[0]


def test_rates_of_jobs_at_work_refine_the_curve(world: World) -> None:
    """What slows every core count alike moves nothing; what one count gains over the others does."""
    agent = world.server("alpha")
    first = world.submit()
    world.until_state(first, JobState.RUNNING)
    _measured(world, first, agent)
    agent.end(first.pk, cause="completed", exit_code=0)
    world.until_state(first, JobState.COMPLETED)

    assert _work_and_end(world, agent, steps_per_s=8.0) == [1, 1, 2.0, 8.0, 1]
    assert _demand(world, world.submit())[0] == 2.0

    Profile.objects.update(live_rates=[[1, 1, 2.0, 8.0, 8], [1, 1, 4.0, 16.0, 9]])

    assert _work_and_end(world, agent, steps_per_s=8.0) == [1, 1, 2.0, 8.0, 9]
    assert _demand(world, world.submit())[0] == 4.0


def test_admin_has_it_measured_again(world: World) -> None:
    """The next attempt is measured anew, and replaces what was known."""
    agent = world.server("alpha")
    first = world.submit()
    world.until_state(first, JobState.RUNNING)
    _measured(world, first, agent)
    fingerprint = Profile.objects.get().fingerprint
    member = factories.member_make(first.queue)
    with pytest.raises(NotAllowed):
        profile_measure_again(actor=member, fingerprint=fingerprint, at=world.clock.now())
    profile_measure_again(actor=world.admin, fingerprint=fingerprint, at=world.clock.now())
    second = world.submit()
    world.until_state(second, JobState.RUNNING)

    assert agent.attempt_of(second.pk).wanted.measure_above == 0

    told = Measured(rates=((1, 6.0), (3, 18.0)), free_cores=3, took_s=5.0)
    _measured(world, second, agent, told)
    profile = Profile.objects.get()

    assert profile.rates == [[1.0, 6.0], [3.0, 18.0]]
    assert (profile.measure_again, profile.cost_s, profile.measured_cpus) == (False, 17.0, 3)


def test_profile_is_seen_by_those_who_see_a_job_of_it(world: World) -> None:
    """Its name is the command."""
    world.queue("speech")
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _measured(world, job, agent)
    mine = factories.member_make(job.queue)
    stranger = factories.user_make("stranger")
    fingerprint = Profile.objects.get().fingerprint

    assert [row["best_cpus_per_gpu"] for row in profile_list(mine)] == [2.0]
    assert profile_detail(mine, fingerprint)["evidence"]["server"] == "alpha"
    assert profile_list(stranger) == []
    with pytest.raises(NotFound):
        profile_detail(stranger, fingerprint)


def test_measured_profiles_are_written_for_a_replay(world: World, tmp_path: Path) -> None:
    """The simulator reads the file as it reads published ones."""
    agent = world.server("alpha")
    job = world.submit()
    world.until_state(job, JobState.RUNNING)
    _measured(world, job, agent)
    file = tmp_path / "measured.json"
    call_command("export_profiles", str(file), stdout=StringIO())
    ((name, found),) = json.loads(file.read_text()).items()

    assert name == Profile.objects.get().fingerprint
    assert parse_profile(found).cpus_per_gpu == (1.0, 2.0, 3.0, 4.0)
    assert found["steps_per_s"] == 10.0
