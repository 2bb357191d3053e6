"""Gavel's traces and measured throughputs."""

from pathlib import Path

import pytest

from scheduler.core.model.profile import locality, packed, scaling
from scheduler.simulator.speeds.measured import gavel_models, gavel_pairs, gavel_profile
from scheduler.simulator.traces import PROFILES, read_trace
from tests.support.simulator.traces import refusal_of, trace_of


def line(model: str = "ResNet-50 (batch size 64)", steps: object = 2931, gpus: object = 1, arrival: object = 0) -> str:
    """Return one line of a trace."""
    return f"{model}\tpython3 main.py -b 64 %s/x\twork/dir\t--num\t1\t{steps}\t{gpus}\t2\t-1.000000\t{arrival}\n"


def test_run_time_is_steps_over_measured_steps_a_second() -> None:
    """ResNet-50 makes 4.3948 steps a second on one V100 and 7.9221 on two."""
    one, two = trace_of(line(steps=4395) + line(steps=7922, gpus=2, arrival=10)).jobs

    assert one.run_s == pytest.approx(4395 / 4.394775)
    assert two.run_s == pytest.approx(7922 / 7.922054)
    assert (two.arrival_s, two.num_gpus, two.weight, two.model) == (10.0, 2, 2.0, "ResNet-50 (batch size 64)")
    assert scaling(two.profile, 2) == pytest.approx(7.922054 / 4.394775)


def test_the_slow_down_of_a_spread_gang_is_the_measured_one() -> None:
    """LM on two V100 of two servers makes 30.4 of 132.2 steps; ResNet-50 on four loses nothing."""
    models = gavel_models(PROFILES)
    slowed = gavel_profile(models["LM (batch size 20)"], name="LM", num_gpus=2, beside={})
    unharmed = gavel_profile(models["ResNet-50 (batch size 64)"], name="ResNet-50", num_gpus=4, beside={})

    assert locality(slowed, num_servers=2) == pytest.approx(30.436551 / 132.174134)
    assert locality(unharmed, num_servers=4) == 1.0


def test_pairs_on_one_gpu_are_those_of_the_published_table() -> None:
    """676 ordered pairs on a V100: 74 % are faster together, 6 % do not fit; ResNet-18 beside ResNet-50 keeps 0.52."""
    pairs = gavel_pairs(PROFILES)
    gains = [pairs[one][two] + pairs[two][one] for one in pairs for two in pairs[one]]

    assert len(gains) == 676
    assert round(sum(gain > 1 for gain in gains) / 676, 2) == 0.74
    assert round(sum(gain == 0 for gain in gains) / 676, 2) == 0.06
    assert pairs["ResNet-18 (batch size 64)"]["ResNet-50 (batch size 64)"] == pytest.approx(0.52, abs=0.005)
    assert pairs["LM (batch size 20)"]["LM (batch size 20)"] == pytest.approx(0.65, abs=0.005)


def test_jobs_of_a_trace_slow_each_other_as_measured() -> None:
    """Gandiva's pairs: ResNet-50 keeps .58 beside Transformer, Transformer .21 beside ResNet-50."""
    one, two = trace_of(line() + line(model="Transformer (batch size 64)")).jobs

    assert packed(one.profile, two.profile) == pytest.approx(0.58, abs=0.005)
    assert packed(two.profile, one.profile) == pytest.approx(0.21, abs=0.005)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("artifact_evaluation", 15),
        ("max_min_fairness", 96),
        ("medium_test", 20),
        ("minimize_makespan", 100),
        ("small_test", 20),
    ],
)
def test_all_traces_that_ship_are_whole(name: str, count: int) -> None:
    """Every job finds its throughput."""
    path = Path(f"fixtures/traces/gavel_{name}.trace")

    assert len(read_trace(path).jobs) == len(path.read_text(encoding="utf-8").splitlines()) == count


def test_what_was_not_measured_is_refused() -> None:
    """An unknown model, GPUs without a measurement, a missing column, a text in a number: each at its place."""
    model = refusal_of(line() + line(model="GPT"))
    gpus = refusal_of(line(gpus=3))
    cells = refusal_of(line() + "ResNet-50\t1\n")
    steps = refusal_of(line() + line(steps="many"))

    assert (model.line, model.column) == (2, "job_type")
    assert (gpus.line, gpus.column) == (1, "scale_factor")
    assert "1, 2, 4, 8" in gpus.problem
    assert cells.line == 2
    assert "10 cells" in cells.problem
    assert (steps.line, steps.column) == (2, "total_steps")
