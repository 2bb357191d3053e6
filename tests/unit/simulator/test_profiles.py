"""Synergy's profiles by machine, and their assignment to jobs."""

from collections import Counter

import pytest

from scheduler.core.model.profile import Profile, demand, sensitivity
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.speeds.profiles import (
    CLASSES,
    assign_profiles,
    synergy_iteration_s,
    synergy_name,
    synergy_profiles,
)
from scheduler.simulator.traces import PROFILES

CURVES = synergy_profiles(PROFILES, cpus_per_gpu=3)


def jobs(count: int, *, model: str = "") -> list[SimJob]:
    """Return jobs without a profile."""
    return [SimJob(arrival_s=float(number), num_gpus=1, run_s=60.0, model=model) for number in range(count)]


@pytest.mark.parametrize("cpus_per_gpu", [3, 4, 5, 6])
def test_speed_is_one_at_the_proportional_share_of_each_machine(cpus_per_gpu: int) -> None:
    """With 3, 4, 5 or 6 cores and 62.5 GB for each GPU; the time of an iteration refers to the same share."""
    profiles = synergy_profiles(PROFILES, cpus_per_gpu=cpus_per_gpu)
    iteration_s = synergy_iteration_s(PROFILES, cpus_per_gpu=cpus_per_gpu)

    assert len(profiles) == 12
    assert set(profiles) == set(iteration_s)
    for profile in profiles.values():
        assert sensitivity(profile, cpus_per_gpu=cpus_per_gpu, memory_bytes_per_gpu=62.5e9) == 1.0


def test_iterations_are_as_much_shorter_as_the_profile_says() -> None:
    """To 3 %, with 4, 5 and 6 cores; but for M5 with 6 cores, where the published files disagree (2.0 and 1.5)."""
    at_three = synergy_iteration_s(PROFILES, cpus_per_gpu=3)
    for cpus_per_gpu in (4, 5, 6):
        iteration_s = synergy_iteration_s(PROFILES, cpus_per_gpu=cpus_per_gpu)
        for model, seconds in iteration_s.items():
            speed = sensitivity(CURVES[model], cpus_per_gpu=cpus_per_gpu, memory_bytes_per_gpu=62.5e9)
            if (model, cpus_per_gpu) != ("m5", 6):
                assert at_three[model] / seconds == pytest.approx(speed, rel=0.03)


def test_the_models_of_the_paper_want_what_the_paper_says() -> None:
    """Cores for full speed on the machine with 3 a GPU; an iteration of ResNet-50 takes .78 s."""
    wanted = {"alexnet": 12, "shufflenet": 12, "resnet18": 9, "mobilenet": 6, "resnet50": 4, "m5": 6, "deepspeech": 3}
    wanted |= {"gnmt": 1, "lstm": 1, "transformer-xl": 1}

    assert {model: demand(CURVES[model], num_gpus=1).cpus for model in wanted} == wanted
    assert synergy_iteration_s(PROFILES, cpus_per_gpu=3)["resnet50"] == 0.78
    assert {model for models in CLASSES.values() for model in models} == set(wanted)


def test_a_mix_draws_classes_and_takes_models_in_turn() -> None:
    """Only speech: its two models alternate, whatever the seed."""
    assigned = assign_profiles(jobs(4), profiles=CURVES, mix={"speech": 1.0}, seed=9)

    assert [job.model for job in assigned] == ["m5", "deepspeech", "m5", "deepspeech"]
    assert [job.profile for job in assigned] == [CURVES[job.model] for job in assigned]


def test_shares_of_a_mix_need_not_add_up() -> None:
    """20, 70 and 10 are the same as .2, .7 and .1; the same seed draws the same."""
    percent = {"image": 20.0, "language": 70.0, "speech": 10.0}

    one = assign_profiles(jobs(500), profiles=CURVES, seed=4)
    two = assign_profiles(jobs(500), profiles=CURVES, mix=percent, seed=4)
    other = assign_profiles(jobs(500), profiles=CURVES, seed=5)

    assert one == two != other
    assert 300 < sum(Counter(job.model for job in one)[model] for model in CLASSES["language"]) < 400


def test_a_named_model_gets_its_own_profile_and_a_profile_is_kept() -> None:
    """Unknown names are drawn like jobs without a name."""
    own = Profile(scaling=((1.0, 1.0), (2.0, 1.5)))
    named, unknown, kept = assign_profiles(
        [*jobs(1, model="gnmt"), *jobs(1, model="llama"), SimJob(arrival_s=0, num_gpus=1, run_s=1, profile=own)],
        profiles=CURVES,
    )

    assert named.profile == CURVES["gnmt"]
    assert unknown.model in CURVES
    assert kept.profile == own


def test_names_of_synergy_files() -> None:
    """Others stay as they are."""
    assert [synergy_name(name) for name in ("res18", "res50", "transformer", "m5")] == [
        "resnet18",
        "resnet50",
        "transformer-xl",
        "m5",
    ]


@pytest.mark.parametrize("mix", [{"video": 1.0}, {}, {"image": 0.0}, {"image": -1.0, "speech": 2.0}])
def test_a_mix_that_cannot_be_is_refused(mix: dict[str, float]) -> None:
    """Unknown classes, no share, a negative share."""
    with pytest.raises(ValueError, match=r"no class|share"):
        assign_profiles(jobs(1), profiles=CURVES, mix=mix)
