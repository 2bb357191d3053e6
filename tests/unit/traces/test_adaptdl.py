"""Philly as AdaptDL ships it."""

from datetime import UTC, datetime

from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
ROWS = "2017-10-03 00:01:55,79.0,1,79.0,11cb48\n2017-10-03 00:05:47,19.0,4,76.0,6214e9\n"


def test_jobs_count_from_the_first_submission() -> None:
    """Dates become seconds; clusters are queues."""
    trace = trace_of(HEADER + ROWS)

    assert (trace.format, trace.queues, trace.warnings) == ("adaptdl", ("11cb48", "6214e9"), ())
    assert trace.starts_at == datetime(2017, 10, 3, 0, 1, 55, tzinfo=UTC)
    assert [(job.arrival_s, job.num_gpus, job.run_s, job.queue) for job in trace.jobs] == [
        (0.0, 1, 79.0, 0),
        (232.0, 4, 19.0, 1),
    ]


def test_blank_lines_do_not_matter() -> None:
    """Neither empty ones nor ones of blanks, wherever they are; errors still name the line of the file."""
    assert len(trace_of(f"\n  \n{HEADER}\n{ROWS}   \n\t\n").jobs) == 2
    assert refusal_of(f"{HEADER}\n   \n2017-10-03 00:01:55,soon,1,79.0,11cb48\n").line == 4


def test_errors_are_at_their_place() -> None:
    """A date that is none, no GPU, a length that is no number."""
    assert refusal_of(HEADER + ROWS + "yesterday,1.0,1,1.0,a\n").column == "timestamp"
    assert refusal_of(HEADER + "2017-10-03 00:01:55,1.0,0,0.0,a\n").column == "num_gpus"
    assert refusal_of(HEADER + "2017-10-03 00:01:55,,1,79.0,a\n").column == "duration"


def test_a_gap_of_years_is_told() -> None:
    """A date that was mistyped stretches a replay over years in which nothing happens."""
    later = "2021-10-03 00:05:47,19.0,4,76.0,6214e9\n"
    [warning] = trace_of(HEADER + ROWS + later).warnings
    assert warning == "for 4.0 years, from day 0 on, no job is submitted: check the dates, or take a --window"
