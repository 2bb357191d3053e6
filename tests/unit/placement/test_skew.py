"""Placement by tensor skew (Tiresias), and how its limit is learned."""

from typing import TypedDict

import numpy as np
import pytest

from benchmarks.models.pack_limit import learn_pack_limit
from scheduler.choices import build_config
from scheduler.core.model.profile import Profile, locality
from scheduler.core.round.plan_round import plan_round
from scheduler.placement.skew import Skew
from tests.support.simulator.spaces import gang_of, space_of
from tests.support.simulator.strategies import JobRow, ServerRow, job_table, snapshot_of

# Largest tensor over model size, from the tensor lists of the released Tiresias simulator.
SKEWS = {
    "vgg19": 0.72,
    "vgg16": 0.74,
    "vgg11": 0.77,
    "alexnet": 0.61,
    "resnet152": 0.06,
    "resnet101": 0.08,
    "resnet50": 0.11,
    "inception3": 0.14,
    "inception4": 0.04,
}
SKEWED = {"vgg19", "vgg16", "vgg11", "alexnet"}


@pytest.mark.parametrize("model", SKEWS)
def test_the_default_limit_splits_the_models_as_published(model: str) -> None:
    """Only VGG and AlexNet are consolidated."""
    jobs = job_table([JobRow(profile=Profile(skew=SKEWS[model]))])

    assert Skew().kinds(jobs, 0.0)[0].tolist() == [model in SKEWED]


def test_unknown_skew_is_not_consolidated() -> None:
    """No profile, or one without skew: any free GPUs."""
    rows = [JobRow(), JobRow(profile=Profile()), JobRow(profile=Profile(skew=0.9)), JobRow(profile=Profile(skew=0.3))]

    assert Skew().kinds(job_table(rows), 0.0)[0].tolist() == [0, 0, 1, 0]
    assert Skew(pack_limit=0.2).kinds(job_table(rows), 0.0)[0].tolist() == [0, 0, 1, 1]
    assert Skew().kinds(job_table([]), 0.0)[0].tolist() == []


def test_a_skewed_gang_gets_the_fewest_servers_or_waits() -> None:
    """Four GPUs on 3 + 3 free ones: the skewed gang waits, the other takes them; sixteen take two whole servers."""
    skewed, other = (gang_of(4, kind=(flag,)) for flag in (1.0, 0.0))

    assert Skew().seats(space_of([3, 3]), skewed) == ()
    assert Skew().seats(space_of([3, 3]), other) == ((0, 3), (1, 1))
    assert Skew().seats(space_of([8, 4, 8]), gang_of(16, kind=(1.0,))) == ((0, 8), (2, 8))
    assert Skew().seats(space_of([8, 7, 7]), gang_of(16, kind=(1.0,))) == ()


def test_a_skewed_gang_that_fits_no_single_server_by_its_cores_still_runs() -> None:
    """Its owner asks for 6 cores a GPU: a server of 24 holds four of them, so two servers are the fewest for eight."""
    row = JobRow(num_gpus=8, max_servers=0, min_cpus=48, profile=Profile(skew=0.9))
    config = build_config(policy="fifo", locality="skew", mechanism="proportional")

    plan = plan_round(snapshot_of([row], [ServerRow()] * 2), config)

    assert plan.grants.num_gpus.tolist() == [4, 4]


class Learned(TypedDict):
    """One history and the limits it may give."""

    skews: list[float]
    slowdowns: list[float]
    between: tuple[float, float]


@pytest.mark.parametrize(
    "case",
    [
        Learned(skews=[0.1, 0.2, 0.6, 0.7], slowdowns=[1.0, 1.0, 2.0, 2.0], between=(0.3, 0.5)),
        Learned(skews=[0.1, 0.2, 0.6, 0.7], slowdowns=[1.0, 1.0, 1.0, 1.0], between=(1.0, 1.0)),
        Learned(skews=[0.1, 0.2, 0.6, 0.7], slowdowns=[2.0, 2.0, 2.0, 2.0], between=(0.0, 0.0)),
        Learned(skews=[0.1, 0.2, 0.6, 0.7], slowdowns=[2.0, 2.0, 2.0, 1.0], between=(0.0, 0.0)),
        Learned(skews=[0.5, 0.5, 0.5], slowdowns=[2.0, 1.0, 1.0], between=(1.0, 1.0)),
        Learned(skews=[], slowdowns=[], between=(1.0, 1.0)),
        Learned(skews=[0.1, 0.3, 0.5, 0.4, 0.6, 0.9], slowdowns=[1, 1, 1, 2, 2, 2], between=(0.4, 0.5)),
    ],
)
def test_the_limit_is_learned(case: Learned) -> None:
    """Separable, one-sided, falling, constant, empty and overlapping histories."""
    low, high = case["between"]

    assert low <= learn_pack_limit(case["skews"], case["slowdowns"]) <= high


def test_history_of_the_nine_models_gives_a_limit_between_the_groups() -> None:
    """With the slowdown of four servers and two per cent of noise, .14 < limit < .61."""
    rng = np.random.default_rng(3)
    names = [name for name in SKEWS for _ in range(20)]
    slowdowns = [rng.normal(1, 0.02) / locality(Profile(skew=SKEWS[name]), num_servers=4) for name in names]

    limit = learn_pack_limit([SKEWS[name] for name in names], slowdowns)

    assert 0.14 < limit < 0.61


def test_more_gain_lowers_the_limit() -> None:
    """What counts as worth the wait is an argument: the smaller it is, the lower the limit."""
    skews = [number / 50 for number in range(50)]
    slowdowns = [1 / locality(Profile(skew=skew), num_servers=4) for skew in skews]

    assert learn_pack_limit(skews, slowdowns, worth=1.1) == pytest.approx(0.2 + 0.1 / 1.125, abs=0.02)
    assert learn_pack_limit(skews, slowdowns, worth=1.5) == pytest.approx(0.2 + 0.5 / 1.125, abs=0.02)
