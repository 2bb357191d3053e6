"""Packing: two jobs on the same GPUs where that is measured to be faster than taking turns."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile, packed
from scheduler.core.model.tables import Snapshot, only_jobs
from scheduler.core.model.trial import TrialKind, Verdict
from scheduler.core.round.invariants import check
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing
from tests.support.live.turns import Clock, by_pair, introspective
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of


def _pair_clock(first: float, second: float, *, jobs: int = 2, gpus: int = 1) -> Clock:
    """Return a clock on which jobs 0 and 1 run at these speeds when packed."""
    snapshot = snapshot_of([JobRow()] * jobs, [ServerRow(num_gpus=gpus)], now_s=0.0)
    speed = by_pair({(0, 1): first, (1, 0): second})
    return Clock(snapshot, introspective(Slicing(), Packing()), speed=speed)


@pytest.mark.parametrize(
    ("first", "second", "is_kept"),
    [
        (0.65, 0.65, True),  # LM beside LM: 1.30
        (0.74, 0.74, True),  # Transformer beside Transformer: 1.48
        (1.00, 0.69, True),  # Recommendation beside A3C: 1.69
        (0.50, 0.50, False),  # ResNet-50 beside ResNet-50: 1.00
        (0.58, 0.21, False),  # ResNet-50 beside Transformer: 0.79
    ],
)
def test_a_pair_is_kept_when_it_gains_over_taking_turns(first: float, second: float, is_kept: bool) -> None:
    """The five pairs measured on a V100: sums above 1 stay, the others are taken apart."""
    clock = _pair_clock(first, second)
    for _ in range(12):
        clock.tick()
    verdicts = [trial.verdict for trial in clock.plan.trials if trial.kind is TrialKind.PACK]

    assert verdicts == [Verdict.KEPT if is_kept else Verdict.UNDONE]
    assert bool(clock.plan.riding) is is_kept


def test_two_jobs_on_one_gpu_take_turns_first_and_are_packed_once_both_are_known() -> None:
    """A turn for each, then a trial of two quanta, then together for good: both run all the time."""
    clock = _pair_clock(0.65, 0.65)
    riding = [dict(clock.tick().riding) for _ in range(12)]

    assert riding[0] == riding[1] == {}
    first = next(at for at, pair in enumerate(riding) if pair)
    assert first <= 3
    assert all(pair == riding[first] for pair in riding[first:])
    assert len(clock.plan.grants) == 2
    assert not clock.plan.waiting


def test_a_pair_that_was_slower_is_left_alone_for_an_hour() -> None:
    """60 rounds after the trial the two are tried again, not before."""
    clock = _pair_clock(0.5, 0.5)
    tried = [bool(clock.tick().riding) for _ in range(80)]
    starts = [at for at in range(1, 80) if tried[at] and not tried[at - 1]]

    assert len(starts) == 2
    assert 60 <= starts[1] - starts[0] <= 64
    assert sum(tried) == 4  # two quanta each


def test_guests_get_gpus_of_their_own_when_there_are_some() -> None:
    """Three jobs on two GPUs, one of them ends: none shares any more."""
    clock = _pair_clock(0.9, 0.9, jobs=2, gpus=1)
    for _ in range(6):
        clock.tick()
    assert clock.plan.riding
    wider = snapshot_of([JobRow()] * 2, [ServerRow(num_gpus=2)], now_s=0.0).servers
    clock.snapshot = replace(clock.snapshot, servers=wider)
    plan = clock.tick()

    assert plan.riding == {}
    assert plan.grants.num_gpus.sum() == 2
    assert [entry.rule for entry in plan.preemptions] == ["unpacked"]


def test_nothing_is_packed_while_there_is_room() -> None:
    """Two jobs on two GPUs never share."""
    clock = _pair_clock(1.0, 1.0, gpus=2)

    assert not any(clock.tick().riding for _ in range(10))


def test_one_pair_at_a_time_is_tried_on_a_server() -> None:
    """Four GPUs of one server and eight jobs: each trial waits for the one before it."""
    snapshot = snapshot_of([JobRow()] * 8, [ServerRow(num_gpus=4)], now_s=0.0)
    clock = Clock(snapshot, introspective(Slicing(), Packing()), speed=by_pair({}, alone=0.9))
    for _ in range(30):
        plan = clock.tick()
        trying = [trial for trial in plan.trials if trial.kind is TrialKind.PACK and trial.verdict is Verdict.TRYING]
        assert len(trying) <= 1

    assert len(plan.riding) == 4
    assert not plan.waiting


def test_the_least_busy_pair_is_tried_first() -> None:
    """Of three waiting jobs the one that keeps its GPU least busy becomes the guest."""
    busy = [Profile(gpu_util_frac=util) for util in (0.9, 0.8, 0.2, 0.7)]
    snapshot = snapshot_of([JobRow(profile=profile) for profile in busy], [ServerRow(num_gpus=1)], now_s=0.0)
    clock = Clock(snapshot, introspective(Slicing(), Packing()))
    plans = [clock.tick() for _ in range(8)]
    pair = next(plan.riding for plan in plans if plan.riding)

    assert 2 in {*pair, *pair.values()}


def test_a_guest_that_ends_leaves_the_host_alone_and_the_other_way_round() -> None:
    """The job that is left keeps its seats and its turn."""
    for gone in (0, 1):
        clock = _pair_clock(0.8, 0.8)
        for _ in range(6):
            clock.tick()
        assert clock.plan.riding
        left = 1 - gone
        clock.snapshot = only_jobs(clock.snapshot, np.array([left]))
        plan = clock.tick()

        assert plan.kept == {0}
        assert plan.riding == {}
        assert not [trial for trial in plan.trials if trial.kind is TrialKind.PACK]


def test_the_speed_of_a_pair_comes_from_the_measured_table_then_from_utilisation() -> None:
    """Measured beats computed, computed beats what is known of any neighbour; the unknown keep a GPU busy."""
    resnet = Profile(kind="resnet50", packed=(("transformer", 0.58),), gpu_util_frac=0.9, interference=(0.7,))
    transformer = Profile(kind="transformer", packed=(("resnet50", 0.21),))
    other = Profile(kind="lm", gpu_util_frac=0.6)

    assert packed(resnet, transformer) == 0.58
    assert packed(transformer, resnet) == 0.21
    assert packed(resnet, other) == pytest.approx(0.95 / 1.5)
    assert packed(resnet, Profile()) == 0.7
    assert packed(Profile(), resnet) == pytest.approx(0.95 / 1.9)
    assert packed(Profile(), Profile()) == pytest.approx(0.475)


def _packed() -> tuple[Snapshot, Plan]:
    """Return three jobs of which two share the only GPU, and the plan that keeps them there."""
    clock = _pair_clock(0.8, 0.8, jobs=3)
    while not clock.tick().riding:
        pass
    return clock.snapshot, plan_round(clock.snapshot, clock.config)


def test_gpus_of_guests_count_once_and_only_those() -> None:
    """The check of every plan lets a guest sit with its host, and refuses the same grants without the pair."""
    snapshot, plan = _packed()
    check(plan, snapshot)

    with pytest.raises(PlanInvariantError, match="more GPUs than it has"):
        check(replace(plan, riding={}), snapshot)


def test_pairs_that_cannot_be_are_refused() -> None:
    """No job has two guests, no guest has a guest, and a guest sits nowhere but with its host."""
    snapshot, plan = _packed()
    ((guest, host),) = plan.riding.items()
    third = ({0, 1, 2} - {guest, host}).pop()

    for riding, rule in (
        ({guest: host, third: host}, "two guests"),
        ({guest: host, host: third}, "a guest has a guest"),
        ({guest: host, third: 99}, "does not sit with its host"),
    ):
        with pytest.raises(PlanInvariantError, match=rule):
            check(replace(plan, riding=riding), snapshot)
