"""The profile tab: the curve, what it cost, and having it measured again."""

from datetime import UTC, datetime

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Profile
from tests.integration.pages_jobs.conftest import World, job_in


def _profiled(world: World) -> Job:
    job = job_in(world, JobState.RUNNING)
    job.profile = Profile.objects.create(
        fingerprint="auto-0123456789abcdef",
        model="python train.py",
        cpus_per_gpu=[1.0, 2.0],
        memory_bytes_per_gpu=[2.0**30],
        relative_speed=[[0.5], [1.0]],
        rates=[[1.0, 5.0], [2.0, 10.0]],
        evidence={"server": "node-7", "error": 0.014},
        measured_at=datetime.now(UTC),
        measured_cpus=2,
        cost_s=12.0,
    )
    job.save(update_fields=["profile"])
    return job


def test_measured_job_shows_its_curve_and_its_cost(world: World) -> None:
    """The finding as a sentence, the points as a table, where, for how long and how well it was measured."""
    job = _profiled(world)
    page = world.browser("member").client.get(f"/jobs/J-{job.number}/profile").content.decode()

    assert "Full speed takes 2 cores per CPU slot" in page
    assert "node-7" in page
    assert "with other cores than granted" in page
    assert "1.4\N{NO-BREAK SPACE}% of a speed beside that on all cores" in page
    assert "Measure again" not in page


def test_admin_has_it_measured_again(world: World) -> None:
    """Others are refused."""
    job = _profiled(world)
    path = f"/jobs/J-{job.number}/profile/measure"
    world.browser("member").client.post(path)

    assert not Profile.objects.get().measure_again

    answer = world.browser("admin").client.post(path, follow=True)

    assert Profile.objects.get().measure_again
    assert "measured again with the next attempt" in answer.content.decode()
