"""Generators by text, Synergy's split, elastic jobs and searches."""

from itertools import pairwise
from statistics import fmean

import pytest

from benchmarks.reproduce.synergy_cluster import with_rate
from scheduler.core.model.profile import Profile, scaling
from scheduler.simulator.speeds.measured import afs_profiles
from scheduler.simulator.speeds.profiles import CLASSES, SYNERGY_CPUS_PER_GPU, synergy_profiles
from scheduler.simulator.traces import PROFILES, open_trace
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.trace import offered_load
from scheduler.simulator.workloads import GENERATORS, elastic, searches, synergy_split

CURVES = synergy_profiles(PROFILES, cpus_per_gpu=SYNERGY_CPUS_PER_GPU)


def class_of(model: str) -> str:
    """Return the class of a model."""
    return next(name for name, models in CLASSES.items() if model in models)


def test_synergy_split_has_its_classes_and_takes_models_in_turn() -> None:
    """20, 70 and 10 %; inside a class every model as often as the others, to one."""
    jobs = synergy_split(num_jobs=5000, cluster_gpus=128, profiles=CURVES, seed=1)

    for name, share in (("image", 0.2), ("language", 0.7), ("speech", 0.1)):
        mine = [job.model for job in jobs if class_of(job.model) == name]
        counts = [mine.count(model) for model in CLASSES[name]]
        assert len(mine) / 5000 == pytest.approx(share, abs=0.02)
        assert max(counts) - min(counts) <= 1
    assert {job.num_gpus for job in jobs} == {1}
    assert all(job.profile == CURVES[job.model] for job in jobs)
    assert fmean(job.run_s for job in jobs) / 3600 == pytest.approx(16.8, rel=0.05)


def test_seven_and_a_half_jobs_an_hour_fill_128_gpus() -> None:
    """The rate of jobs at a load of 1 is 128 / 16.8 h = 7.6 an hour; nine an hour are a load of 1.18."""
    jobs = synergy_split(num_jobs=5000, cluster_gpus=128, profiles=CURVES, load=1.0, seed=1)
    nine = with_rate(jobs, jobs_per_hour=9.0)

    assert len(jobs) / jobs[-1].arrival_s * 3600 == pytest.approx(7.6, rel=0.05)
    assert len(nine) / nine[-1].arrival_s * 3600 == pytest.approx(9.0, rel=1e-6)
    assert offered_load(nine, cluster_gpus=128) == pytest.approx(1.18, rel=0.05)


def test_the_small_static_trace_is_short_and_arrives_at_once() -> None:
    """10^U(1.5, 2.5) minutes for four of five, at most 10^2.7."""
    jobs = synergy_split(num_jobs=1000, cluster_gpus=32, profiles=CURVES, seed=1, static=True)

    assert {job.arrival_s for job in jobs} == {0.0}
    assert max(job.run_s for job in jobs) <= 60 * 10**2.7
    assert fmean(job.run_s <= 60 * 10**2.5 for job in jobs) == pytest.approx(0.8, abs=0.03)


def test_mixed_gangs_are_those_of_the_generator() -> None:
    """70, 10, 15 and 5 %."""
    jobs = synergy_split(num_jobs=5000, cluster_gpus=32, profiles=CURVES, seed=1, gangs="mixed")

    shares = [fmean(job.num_gpus == gpus for job in jobs) for gpus in (1, 2, 4, 8)]
    assert shares == pytest.approx([0.70, 0.10, 0.15, 0.05], abs=0.02)


def test_elastic_jobs_may_double_and_shrink_to_one() -> None:
    """At most 32 GPUs and never more than there are; the measured curves are drawn evenly."""
    curves = afs_profiles(PROFILES)
    jobs = elastic(num_jobs=2000, cluster_gpus=64, curves=curves, seed=1, load=1.1)
    tiny = elastic(num_jobs=200, cluster_gpus=8, seed=1)

    assert {job.min_gpus for job in jobs} == {1}
    assert all(job.max_gpus == 2 * job.num_gpus for job in jobs)
    assert {job.model for job in jobs} == set(curves)
    assert all(0.09 < fmean(job.model == model for job in jobs) < 0.16 for model in curves)
    assert offered_load(jobs, cluster_gpus=64) == pytest.approx(1.1, rel=0.1)
    assert max(job.max_gpus or 0 for job in tiny) == 8


def test_generic_curves_rise_ever_more_slowly_and_never_beat_the_ideal() -> None:
    """k / (1 + a (k - 1) + ...): 1 on one GPU, at most k."""
    for job in elastic(num_jobs=200, cluster_gpus=64, seed=1):
        points = job.profile.scaling
        assert points[0] == (1.0, 1.0)
        assert all(speed <= gpus for gpus, speed in points)
        assert all(low[1] / low[0] > high[1] / high[0] for low, high in pairwise(points))


def test_measured_curves_are_relative_to_one_gpu() -> None:
    """ResNet50 with 256: 1.843 on one A100, 10.379 on eight."""
    profile = afs_profiles(PROFILES)["resnet50-256"]

    assert scaling(profile, 8) == pytest.approx(10.379 / 1.843)


def test_a_search_is_many_equal_jobs() -> None:
    """All arrive at once, with the length of the others."""
    jobs = searches(num_searches=50, cluster_gpus=16, seed=1, load=0.8)

    assert len(jobs) == 5000
    assert jobs[0].arrival_s == 0.0
    for number in range(50):
        mine = jobs[100 * number : 100 * (number + 1)]
        assert {(job.arrival_s, job.run_s, job.num_gpus, job.owner) for job in mine} == {
            (mine[0].arrival_s, 889 * 60.0, 1, number)
        }
    # Poisson arrivals of 50 searches scatter by a seventh.
    assert offered_load(jobs, cluster_gpus=16) == pytest.approx(0.8, rel=0.3)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_runs_from_a_text(name: str) -> None:
    """With the GPUs of the cluster and the seed of the command where the text gives none."""
    here = open_trace(f"generate:{name}?gpus=16&seed=7")
    given = open_trace(f"generate:{name}", seed=7, cluster_gpus=16)
    other = open_trace(f"generate:{name}?seed=8", seed=7, cluster_gpus=16)

    assert here.jobs == given.jobs
    assert here.jobs != other.jobs or name == "search"
    assert here.format == "generate"
    assert sum(here.quotas or ()) == 16
    assert max(job.queue for job in here.jobs) < len(here.queues)
    assert max(job.owner for job in here.jobs) < len(here.owners)
    assert here.rows == len(here.jobs)


def test_every_option_is_read() -> None:
    """A Philly-like trace with all of them."""
    text = "generate:philly?gpus=64&jobs=50&load=1.5&seed=3&kind=wide&short=0.5&diurnal=0&queues=14&failures=1"

    trace = open_trace(text)

    assert len(trace.jobs) == 50
    assert len(trace.queues) == 14
    assert any(job.failures for job in trace.jobs)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("generate:", "no generator ''"),
        ("generate:alibaba?gpus=8", "no generator 'alibaba'; there are philly, synergy, elastic, search"),
        ("generate:philly", "the option gpus is needed"),
        ("generate:philly?gpus=8&jobs=-1", "jobs is a whole number"),
        ("generate:philly?gpus=8&jobs=1e3", "jobs is a whole number"),
        ("generate:philly?gpus=8&jobs=٣", "jobs is a whole number"),
        ("generate:philly?gpus=8&jobs=0", "at least 1"),
        ("generate:philly?gpus=8&days=7&jobs=9", "jobs or days, not both"),
        ("generate:philly?gpus=8&days=0", "days must be a positive number"),
        ("generate:philly?gpus=80000&days=92", "more than 200,000 jobs"),
        ("generate:philly?gpus=8&load=nan", "load is a number"),
        ("generate:philly?gpus=8&load=0", "positive number"),
        ("generate:philly?gpus=8&kind=other", "kind is simple or empirical or wide"),
        ("generate:philly?gpus=8&failures=yes", "failures is 0 or 1"),
        ("generate:philly?gpus=8&gpu=9", "no option gpu"),
        ("generate:philly?gpus=8&gpus=9", "each once"),
        ("generate:philly?jobs", "gpus is needed"),
        ("generate:synergy?gpus=8&mix=1,2,3", "mix is 20,70,10 or"),
        ("generate:search?gpus=8&length_s=-1", "length"),
    ],
)
def test_a_text_that_describes_no_workload_is_refused(text: str, says: str) -> None:
    """One sentence that says what would be right."""
    with pytest.raises(TraceError, match=says) as caught:
        open_trace(text)

    assert caught.value.file == text


def test_profiles_known_and_unknown() -> None:
    """A generated elastic job without measured curves has a scaling of its own; none has a sensitivity."""
    [job] = elastic(num_jobs=1, cluster_gpus=8)

    assert job.profile != Profile()
    assert job.profile.relative_speed == ()
