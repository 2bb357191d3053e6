"""The profiler: which core counts it asks for, how it measures them between mini-batches, what is believed of it."""

import json
import math
import random
from pathlib import Path
from statistics import median, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.profiler.estimate import FASTEST_FRAC, READ_FRAC, Visit, relative_error, steps_s
from agents.profiler.meter import DROPPED_STEPS, ENOUGH_ERROR, MOST_VISITS, CoreMeter, runs_s
from agents.profiler.search import next_cores
from agents.protocol.errors import Malformed
from agents.protocol.fields import plain
from agents.protocol.profile import Measured
from scheduler.core.performance.optimistic import rate_at

PUBLISHED = json.loads(Path("fixtures/profiles/synergy.json").read_text(encoding="utf-8"))


def _searched(rate: "dict[float, float]", most: int) -> dict[int, float]:
    rates: dict[int, float] = {}
    while (cores := next_cores(rates, most=most)) is not None:
        assert cores not in rates
        assert 1 <= cores <= most
        rates[cores] = rate_at(rate, cores)
    return rates


def test_flat_speed_takes_one_halving_after_the_other() -> None:
    """24, 12, 6, 3, 1 and nothing in between."""
    assert sorted(_searched({1.0: 1.0}, 24)) == [1, 3, 6, 12, 24]


def test_steep_halving_is_bisected_until_the_middle_is_on_the_line() -> None:
    """A knee at 9 cores is found between 6 and 12."""
    rates = _searched({1.0: 1.0, 9.0: 9.0, 24.0: 9.0}, 24)

    assert 9 in rates
    assert len(rates) <= 10


@given(most=st.integers(1, 96), steps=st.lists(st.floats(0.0, 3.0), min_size=96, max_size=96))
def test_search_ends_and_never_measures_twice(most: int, steps: list[float]) -> None:
    """Whatever the curve, noise included."""
    speed, rates = 1.0, {}
    for cores, step in enumerate(steps, start=1):
        speed += step
        rates[float(cores)] = speed

    assert len(_searched(rates, most)) <= most


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_curves_are_found_within_three_percent(model: str) -> None:
    """Twelve published models, at every published core count; the meter is simulated."""
    published = PUBLISHED[model]
    truth = dict(zip(published["cpus_per_gpu"], (row[-1] for row in published["relative_speed"]), strict=True))
    rates = {float(cores): rate for cores, rate in _searched(truth, 24).items()}
    errors = [abs(rate_at(rates, cpus) / speed - 1) for cpus, speed in truth.items()]

    assert median(errors) <= 0.03
    assert max(errors) <= 0.03
    assert len(rates) <= 24 * len(published["memory_bytes_per_gpu"]) / 10  # a tenth of the sweep


def test_meter_walks_down_and_tells_the_rates() -> None:
    """A job that needs two cores: each point is measured after some steps are dropped, all cores are tried, twice."""
    pinned: list[tuple[int, ...]] = []
    meter = CoreMeter((0, 1, 2, 3), lambda cores: pinned.append(tuple(cores)))
    now_s = 0.0
    while not meter.is_done:
        now_s += 0.1 if len(pinned[-1]) >= 2 else 0.2
        meter.step(now_s)

    assert pinned == [(0, 1, 2, 3), (0, 1), (0,), (0,), (0, 1), (0, 1, 2, 3)]
    assert meter.rates == {4: pytest.approx(10.0), 2: pytest.approx(10.0), 1: pytest.approx(5.0)}


def test_meter_begins_a_point_anew_when_cores_are_taken_away() -> None:
    """What was measured stays; the cores that are gone are used no more."""
    pinned: list[tuple[int, ...]] = []
    meter = CoreMeter((0, 1), lambda cores: pinned.append(tuple(cores)))
    for step in range(DROPPED_STEPS + 3):
        meter.step(step * 1.0)
    meter.limit((0,))
    now_s = 100.0
    while not meter.is_done:
        now_s += 0.5
        meter.step(now_s)

    assert pinned == [(0, 1), (0,), (0,)]
    assert meter.rates == {1: pytest.approx(2.0)}


def test_slow_start_of_a_job_does_not_count() -> None:
    """Steps of a millisecond that are four at first: the point begins later, and lasts long enough to be believed."""
    meter, now_s, ends_s = CoreMeter((0,), lambda cores: None), 0.0, []
    while not meter.is_done:
        now_s += 0.001 if now_s > 1.0 else 0.004
        meter.step(now_s)
        ends_s.append(now_s)

    assert meter.rates == {1: pytest.approx(1000.0, rel=0.01)}
    assert 3.0 <= ends_s[-1] <= 3.2


def test_machine_that_slows_down_does_so_for_all_counts() -> None:
    """Each second a step takes longer; what one core does beside two is still told within a hundredth."""
    cores: list[int] = []
    meter, now_s = CoreMeter((0, 1), lambda held: cores.append(len(held))), 0.0
    while not meter.is_done:
        now_s += 0.01 * (1 + 0.05 * now_s) * (1 if cores[-1] == 2 else 2)
        meter.step(now_s)

    assert meter.rates[1] / meter.rates[2] == pytest.approx(0.5, rel=0.01)


def test_counts_are_measured_twice_more_where_two_ways_do_not_agree() -> None:
    """Somebody takes a quarter of the second core while the way there passes it: four ways are right."""
    pinned: list[int] = []
    meter, now_s = CoreMeter((0, 1), lambda cores: pinned.append(len(cores))), 0.0
    while not meter.is_done:
        now_s += 0.2 if pinned[-1] == 1 else 0.1333 if len(pinned) == 1 else 0.1
        meter.step(now_s)

    assert pinned == [2, 1, 1, 2, 2, 1, 1, 2]
    assert meter.rates[1] / meter.rates[2] == pytest.approx(0.5, rel=0.001)


def test_counts_are_measured_once_more_where_readers_prepare_mini_batches() -> None:
    """The same with readers, whose visits are long: the median of three ways is right."""
    pinned: list[int] = []
    meter, now_s = CoreMeter((0, 1), lambda cores: pinned.append(len(cores))), 0.0
    while not meter.is_done:
        now_s += 0.2 if pinned[-1] == 1 else 0.1333 if len(pinned) == 1 else 0.1
        meter.step(now_s, readers=2)

    assert pinned == [2, 1, 1, 2, 2, 1]
    assert meter.rates[1] / meter.rates[2] == pytest.approx(0.5, rel=0.001)


def _disturbed(chance: random.Random, *, busy_s: float, idle_s: float) -> CoreMeter:
    """Measure a job whose second core brings 1.6, on two cores that another process uses now and then."""
    held: list[int] = []
    meter, now_s = CoreMeter((0, 1), lambda cores: held.append(len(cores))), 0.0
    is_busy, until_s = [False, False], [chance.expovariate(1 / idle_s) for _ in range(2)]
    while not meter.is_done:
        for core in range(2):
            while until_s[core] <= now_s:
                is_busy[core] = not is_busy[core]
                until_s[core] += chance.expovariate(1 / (busy_s if is_busy[core] else idle_s))
        cores = held[-1]
        alone_s = (0.05 if cores == 1 else 0.05 / 1.6) * chance.lognormvariate(0, 0.03)
        now_s += alone_s * (1.5 if any(is_busy[:cores]) else 1.0)
        meter.step(now_s)
    return meter


@pytest.mark.parametrize(("busy_s", "idle_s"), [(0.3, 1.0), (0.7, 1.0), (1.0, 3.0)])
def test_neighbours_that_come_and_go_do_not_hide_what_a_core_brings(busy_s: float, idle_s: float) -> None:
    """A step takes half as long again while one of its cores is shared, for a second or so, up to 40 % of the time."""
    meters = [_disturbed(random.Random(seed), busy_s=busy_s, idle_s=idle_s) for seed in range(40)]
    told = [(meter.error, abs(meter.rates[2] / meter.rates[1] / 1.6 - 1)) for meter in meters]
    sure = [error for said, error in told if said is not None and said <= ENOUGH_ERROR]

    assert median(error for _, error in told) <= 0.03
    assert len(sure) >= len(meters) / 2
    assert sum(error <= 3 * ENOUGH_ERROR for error in sure) >= 0.85 * len(sure)


def test_machine_that_never_comes_to_rest_is_visited_so_often_and_no_more() -> None:
    """Then the meter ends, and says that it is not sure."""
    pinned: list[int] = []
    meter, now_s, chance = CoreMeter((0, 1), lambda cores: pinned.append(len(cores))), 0.0, random.Random(1)
    while not meter.is_done:
        now_s += 0.1 * (3.0 ** (len(pinned) % 7)) * chance.uniform(0.5, 1.5)
        meter.step(now_s)

    assert pinned.count(1) == pinned.count(2) == MOST_VISITS
    assert meter.error is not None
    assert meter.error > ENOUGH_ERROR


def test_error_is_that_of_the_visits() -> None:
    """Visits that are all alike leave none; with one visit to each count it is not known."""
    alike = {cores: [Visit(at_s=at_s, runs_s=(0.1 / cores,)) for at_s in (1.0, 2.0, 3.0)] for cores in (1, 2)}
    once = {cores: known[:1] for cores, known in alike.items()}
    slow = 0.1 * math.e
    one_fast = [Visit(at_s=at_s, runs_s=(step_s,)) for at_s, step_s in enumerate((slow, 0.1, slow, slow))]
    even = [Visit(at_s=float(at_s), runs_s=(0.05,)) for at_s in range(4)]
    # Logarithms of the step on one core beside that on two, without one of the visits to each.
    beside = [math.log(1 + 0.2 * (math.e - 1))] * 3 + [1.0]

    assert relative_error(alike, frac=FASTEST_FRAC) == pytest.approx(0.0)
    assert relative_error(once, frac=FASTEST_FRAC) is None
    assert relative_error({1: one_fast, 2: even}, frac=FASTEST_FRAC) == pytest.approx(math.sqrt(3) * pstdev(beside))


@pytest.mark.parametrize("cut", range(8))
def test_readers_that_hand_over_together_are_measured_wherever_it_begins(cut: int) -> None:
    """Eight mini-batches at a moment: the first and the last bunch may be cut anywhere."""
    marks_s = [(step + cut) // 8 * 0.8 for step in range(100)]

    assert runs_s(marks_s, readers=8) == pytest.approx((0.1,), rel=0.01)


def test_burst_of_a_neighbour_does_not_count() -> None:
    """Two slow steps among twenty leave the rate as it is."""
    marks_s, now_s = [0.0], 0.0
    for step in range(20):
        now_s += 2.0 if step in (4, 5) else 0.1
        marks_s.append(now_s)

    visit = Visit(at_s=1.0, runs_s=runs_s(marks_s))

    assert steps_s({1: [visit]}, frac=FASTEST_FRAC) == {1: pytest.approx(0.1)}
    assert steps_s({1: [visit]}, frac=READ_FRAC) == {1: pytest.approx(0.1)}


def test_record_comes_back_as_it_was_written() -> None:
    """To JSON and back."""
    told = Measured(rates=((1, 4.0), (2, 7.5)), free_cores=2, took_s=9.0, error=0.01, model_bytes=1e6)

    assert Measured.parse(json.loads(json.dumps(plain(told)))) == told


@pytest.mark.parametrize(
    "change",
    [
        {"rates": []},
        {"rates": [[2, 4.0], [1, 3.0]]},
        {"rates": [[1, -4.0]]},
        {"rates": [[1, 0.0]]},
        {"rates": [[0, 4.0]]},
        {"rates": [[1, float("inf")]]},
        {"rates": [[1]]},
        {"rates": [[1, 1.0]] * 65},
        {"took_s": -1.0},
        {"error": -0.1},
        {"dataset_bytes": "many"},
        {"free_cores": 0},
    ],
)
def test_what_makes_no_sense_is_not_believed(change: dict[str, object]) -> None:
    """A job may write anything."""
    with pytest.raises(Malformed):
        Measured.parse({"rates": [[1, 4.0]], "free_cores": 1, "took_s": 1.0, **change})
