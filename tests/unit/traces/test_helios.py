"""SenseTime's Helios."""

from datetime import UTC, datetime

from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
ROW = "{id},u1,vcA,{gpus},16,1,COMPLETED,{submit},2020-04-01 10:00:00,2020-04-01 11:00:00,{run},120\n"


def row(id: int = 1, *, gpus: object = 2, submit: str = "2020-04-01 09:58:00", run: object = 3600) -> str:
    """Return one line of a log."""
    return ROW.format(id=id, gpus=gpus, submit=submit, run=run)


def test_jobs_with_gpus_are_read_and_the_others_counted() -> None:
    """Arrivals count from the first submission; users and virtual clusters keep their names."""
    trace = trace_of(HEADER + row(1) + row(2, gpus=0) + row(3, gpus=8, submit="2020-04-02 09:58:00", run=60))

    assert trace.format == "helios"
    assert [(job.name, job.arrival_s, job.num_gpus, job.run_s) for job in trace.jobs] == [
        ("1", 0.0, 2, 3600.0),
        ("3", 86_400.0, 8, 60.0),
    ]
    assert (trace.owners, trace.queues, trace.rows) == (("u1",), ("vcA",), 3)
    assert trace.warnings == ("1 job without a GPU and left out",)
    assert trace.starts_at == datetime(2020, 4, 1, 9, 58, tzinfo=UTC)


def test_a_log_out_of_order_is_sorted_and_told() -> None:
    """The earliest submission is 0 s wherever its line is."""
    trace = trace_of(HEADER + row(1) + row(2, submit="2020-04-01 09:00:00"))

    assert [(job.name, job.arrival_s) for job in trace.jobs] == [("2", 0.0), ("1", 3480.0)]
    assert trace.warnings == ("1 job submitted before the latest job above them; sorted by submission",)


def test_errors_are_at_their_place() -> None:
    """A date that is none, a fraction of a GPU, a length that is no number, only jobs without a GPU."""
    assert refusal_of(HEADER + row(submit="1 April")).column == "submit_time"
    assert "from 1990 to 2100" in refusal_of(HEADER + row(submit="1970-01-01 00:00:00")).problem
    assert refusal_of(HEADER + row(gpus=0.5)).column == "gpu_num"
    assert refusal_of(HEADER + row(run="nan")).column == "duration"
    assert "1 job without a GPU" in refusal_of(HEADER + row(gpus=0)).problem
