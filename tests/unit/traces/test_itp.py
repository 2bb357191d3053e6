"""Microsoft ITP 2021."""

from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "job_id, submission_time, duration, num_gpu\n"


def test_seconds_are_seconds_whatever_the_order_of_columns() -> None:
    """Blanks in the header do not matter; columns may change places."""
    plain = trace_of(HEADER + "a, 10, 3600, 8\n")
    turned = trace_of("num_gpu,duration,submission_time,job_id\n8,3600,10,a\n")

    [job] = plain.jobs
    assert plain.format == turned.format == "itp"
    assert (job.name, job.arrival_s, job.run_s, job.num_gpus) == ("a", 10.0, 3600.0, 8)
    assert turned.jobs == plain.jobs


def test_milliseconds_are_refused() -> None:
    """A Unix time in milliseconds is no number of seconds a trace can hold."""
    error = refusal_of(HEADER + "a,1633046400000,3600,8\n")

    assert (error.line, error.column) == (2, "submission_time")
