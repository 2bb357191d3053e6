"""The trace of Tiresias's simulator."""

from scheduler.simulator.traces import read_trace
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def test_a_row_becomes_a_job() -> None:
    """Name, GPUs, times and model are kept."""
    [job] = trace_of(HEADER + "7,8,30,133,vgg11,147,23\n").jobs

    assert (job.name, job.num_gpus, job.arrival_s, job.run_s, job.model) == ("7", 8, 30.0, 147.0, "vgg11")


def test_the_trace_that_ships_asks_for_26624_gpu_seconds() -> None:
    """60 jobs: 30 with one GPU, 10 each with 2, 4 and 8."""
    jobs = read_trace("fixtures/traces/tiresias_60_job.csv").jobs

    assert len(jobs) == 60
    assert sum(job.num_gpus * job.run_s for job in jobs) == 26_624.0
    assert [sum(job.num_gpus == gpus for job in jobs) for gpus in (1, 2, 4, 8)] == [30, 10, 10, 10]
    assert jobs[-1].arrival_s == 1779.0


def test_an_id_may_stand_there_once() -> None:
    """The second job 7 is refused at its line."""
    error = refusal_of(HEADER + "7,8,30,133,vgg11,147,23\n7,1,31,133,vgg11,147,23\n")

    assert (error.line, error.column) == (3, "job_id")
    assert "'7' stands there twice" in error.problem
