"""Pollux's workloads and measured step times."""

import pytest

from scheduler.core.model.profile import locality, scaling
from scheduler.simulator.speeds.measured import iteration_s, pollux_models
from scheduler.simulator.traces import PROFILES, read_trace
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "name,time,application,num_replicas,batch_size\n"


def test_run_time_is_all_iterations_at_the_measured_step() -> None:
    """BERT with batches of 12 on one GPU: 14,774 steps of 0.921516 s."""
    [job] = trace_of(HEADER + "bert-0,110,bert,1,12\n").jobs

    assert job.run_s == pytest.approx(14_774 * 0.921516)
    assert (job.name, job.arrival_s, job.model) == ("bert-0", 110.0, "bert")


def test_a_batch_too_large_for_a_gpu_is_accumulated() -> None:
    """24 samples on a GPU that takes 12 at once are two steps, of which one synchronises."""
    model = pollux_models(PROFILES)["bert"]

    seconds = iteration_s(model, model.together, num_gpus=1, batch=24)

    assert seconds == pytest.approx(0.921516 + (0.921516 - 0.013696))


def test_between_measured_parts_the_step_is_linear() -> None:
    """BERT on one GPU takes .4553 s for 4 samples and .5694 s for 6: 5 take the mean."""
    model = pollux_models(PROFILES)["bert"]

    assert iteration_s(model, model.together, num_gpus=1, batch=5) == pytest.approx((0.455324 + 0.569390) / 2)
    assert iteration_s(model, model.together, num_gpus=1, batch=3) is None
    assert iteration_s(model, model.together, num_gpus=5, batch=60) is None


def test_a_job_scales_and_slows_as_measured() -> None:
    """The curve begins at 1; two GPUs on two servers are slower than on one."""
    [job] = trace_of(HEADER + "c,0,cifar10,2,128\n").jobs
    model = pollux_models(PROFILES)["cifar10"]
    together = iteration_s(model, model.together, num_gpus=2, batch=128)
    spread = iteration_s(model, model.spread, num_gpus=2, batch=128)
    alone = iteration_s(model, model.together, num_gpus=1, batch=128)
    assert together
    assert spread
    assert alone

    assert scaling(job.profile, 1) == 1.0
    assert scaling(job.profile, 2) == pytest.approx(alone / together)
    assert locality(job.profile, num_servers=2) == pytest.approx(together / spread)


def test_policies_may_choose_from_the_measured_gpus() -> None:
    """From one GPU to the most at which this batch was measured; a job of unknown scaling keeps what it asks for."""
    model = pollux_models(PROFILES)["cifar10"]
    measured = [gpus for gpus in model.together if iteration_s(model, model.together, num_gpus=gpus, batch=128)]
    [job] = trace_of(HEADER + "c,0,cifar10,2,128\n").jobs
    assert (job.min_gpus, job.num_gpus, job.max_gpus) == (1, 2, max(measured))
    assert max(measured) > 2

    for job in read_trace("fixtures/traces/pollux_realistic_1.csv").jobs:
        assert job.profile.scaling or (job.min_gpus, job.max_gpus) == (job.num_gpus, job.num_gpus)


@pytest.mark.parametrize(("name", "count"), [("tuned_1", 160), ("realistic_1", 160), ("double_1", 320)])
def test_the_workloads_that_ship_are_whole(name: str, count: int) -> None:
    """Every job has a run time."""
    assert len(read_trace(f"fixtures/traces/pollux_{name}.csv").jobs) == count


def test_what_was_not_measured_is_refused() -> None:
    """An unknown application, a batch or a number of GPUs without a measurement."""
    application = refusal_of(HEADER + "x,0,gpt,1,12\n")
    batch = refusal_of(HEADER + "x,0,bert,1,13\n")
    gpus = refusal_of(HEADER + "x,0,bert,5,12\n")

    assert application.column == "application"
    assert batch.column == "batch_size"
    assert gpus.column == "num_replicas"
