"""The Philly trace as the AdaptDL authors derived it."""

from datetime import UTC, datetime
from statistics import mean, median

from scheduler.simulator.traces import read_trace
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "timestamp,submit_s,duration_s,num_gpus,gpu_time_s,vc\n"


def test_a_row_becomes_a_job() -> None:
    """Seconds stay seconds, the virtual cluster is the queue, the date of 0 s is kept."""
    trace = trace_of(
        HEADER + "2017-10-03 00:01:55,115,79.0,1,79.0,11cb48\n2017-10-03 00:15:05,905,20.0,2,40.0,6214e9\n"
    )

    assert [(job.arrival_s, job.num_gpus, job.run_s) for job in trace.jobs] == [(115.0, 1, 79.0), (905.0, 2, 20.0)]
    assert [trace.queues[job.queue] for job in trace.jobs] == ["11cb48", "6214e9"]
    assert trace.starts_at == datetime(2017, 10, 3, tzinfo=UTC)
    assert (trace.format, trace.rows, trace.warnings) == ("philly", 2, ())


def test_the_month_that_ships_has_the_published_facts() -> None:
    """37,749 jobs, 95.3 % with one GPU, median 1,818 s, mean 11,267 s; read from gzip."""
    trace = read_trace("fixtures/traces/philly_2017-10.csv.gz")

    run_s = [job.run_s for job in trace.jobs]
    assert len(trace.jobs) == trace.rows == 37_749
    assert round(sum(job.num_gpus == 1 for job in trace.jobs) / len(trace.jobs), 3) == 0.953
    assert median(run_s) == 1818.0
    assert round(mean(run_s)) == 11_267
    assert max(run_s) == 2_750_674.0
    assert len(trace.queues) == 10
    assert trace.warnings == ()
    assert all(one.arrival_s <= two.arrival_s for one, two in zip(trace.jobs, trace.jobs[1:], strict=False))


def test_errors_name_line_column_and_what_would_be_right() -> None:
    """The line is the one an editor shows: the first data line is 2."""
    good = "2017-10-03 00:01:55,115,79.0,1,79.0,a\n"

    text = refusal_of(HEADER + good + "2017-10-03 00:01:56,116,soon,1,79.0,a\n")
    negative = refusal_of(HEADER + "2017-10-03 00:01:55,115,-79.0,1,79.0,a\n")
    no_gpu = refusal_of(HEADER + good + "\n" + "2017-10-03 00:01:55,115,79.0,0,79.0,a\n")
    date = refusal_of(HEADER + "yesterday,115,79.0,1,79.0,a\n")

    assert (text.line, text.column) == (3, "duration_s")
    assert "'soon'" in text.problem
    assert "number of seconds" in text.problem
    assert (negative.line, negative.column) == (2, "duration_s")
    assert "at least 0" in negative.problem or "from 0" in negative.problem
    assert (no_gpu.line, no_gpu.column) == (4, "num_gpus")
    assert (date.line, date.column) == (2, "timestamp")
