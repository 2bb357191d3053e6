"""The traces of Synergy's deployment."""

import pytest

from scheduler.core.model.profile import demand
from scheduler.simulator.traces import read_trace
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "job_id,model,arrival_time_s,total_iterations,gpu_demand\n"


def test_run_time_is_iterations_at_the_proportional_share() -> None:
    """23,349 iterations of AlexNet at 0.6 s are 14,009.4 s; its profile wants 12 cores."""
    [job] = trace_of(HEADER + "0,alexnet,8,23349,1\n").jobs

    assert job.run_s == pytest.approx(14_009.4)
    assert demand(job.profile, num_gpus=1).cpus == 12
    assert demand(job.profile, num_gpus=1).memory_bytes == 125e9


def test_short_names_are_those_of_the_paper() -> None:
    """``res18`` is ResNet-18, ``transformer`` is Transformer-XL."""
    trace = trace_of(HEADER + "0,res18,0,10,1\n1,res50,0,10,1\n2,transformer,0,10,1\n")

    assert [job.model for job in trace.jobs] == ["resnet18", "resnet50", "transformer-xl"]


@pytest.mark.parametrize(("name", "last_s"), [("static", 0.099), ("dynamic", 12_039.0)])
def test_both_traces_that_ship_are_whole(name: str, last_s: float) -> None:
    """100 jobs of one GPU each, every one with a profile."""
    jobs = read_trace(f"fixtures/traces/synergy_{name}.csv").jobs

    assert len(jobs) == 100
    assert {job.num_gpus for job in jobs} == {1}
    assert all(job.profile.relative_speed for job in jobs)
    assert jobs[-1].arrival_s == last_s


def test_a_model_without_a_profile_is_refused() -> None:
    """Its run time could not be told."""
    error = refusal_of(HEADER + "0,llama,8,23349,1\n")

    assert (error.line, error.column) == (2, "model")
    assert "alexnet" in error.problem
