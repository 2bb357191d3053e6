"""Philly's original log of jobs and attempts."""

import json
from datetime import UTC, datetime
from typing import Any

from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.jobs import Failure
from tests.support.simulator.traces import refusal_of, trace_of


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    """Return an attempt with so many GPUs on each of its servers."""
    detail = [{"ip": f"m{index}", "gpus": [f"gpu{gpu}" for gpu in range(count)]} for index, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(*attempts: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return a job of the log."""
    fields = {"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "user": "ce2f4b"}
    return {**fields, "attempts": list(attempts), "submitted_time": "2017-10-09 07:00:00", **other}


def test_the_last_attempt_is_the_run_and_those_before_it_failed() -> None:
    """Two attempts of 60 s and 2 h with 8 + 2 GPUs: the first is a failure of an unknown cause."""
    first = attempt("2017-10-09 07:10:00", "2017-10-09 07:11:00", 8, 2)
    second = attempt("2017-10-09 08:00:00", "2017-10-09 10:00:00", 8, 2)

    trace = trace_of(json.dumps([job(first, second)]))

    [one] = trace.jobs
    assert trace.format == "philly-json"
    assert (one.num_gpus, one.run_s, one.name) == (10, 7200.0, "application_1")
    assert one.failures == (Failure(after_s=60.0, cause=FailureClass.UNCLASSIFIED),)
    assert (trace.owners, trace.queues) == (("ce2f4b",), ("ee9e8c",))
    assert trace.starts_at == datetime(2017, 10, 9, 7, tzinfo=UTC)


def test_arrivals_count_from_the_earliest_submission() -> None:
    """The second job of the file came an hour before the first: it is first, at 0 s, and that is told."""
    ran = attempt("2017-10-09 08:00:00", "2017-10-09 10:00:00", 1)
    late, early = job(ran), job(ran, jobid="application_0", submitted_time="2017-10-09 06:00:00")

    trace = trace_of(json.dumps([late, early], indent=2))

    assert [(one.name, one.arrival_s) for one in trace.jobs] == [("application_0", 0.0), ("application_1", 3600.0)]
    assert trace.starts_at == datetime(2017, 10, 9, 6, tzinfo=UTC)
    assert trace.warnings == ("1 job submitted before the latest job above them; sorted by submission",)


def test_jobs_that_never_ran_are_counted_and_left_out() -> None:
    """No attempt, no GPU, no end: three jobs are left out, the open attempt of a fourth is told."""
    ran = attempt("2017-10-09 08:00:00", "2017-10-09 10:00:00", 1)
    jobs = [
        job(jobid="a"),
        job(attempt("2017-10-09 08:00:00", "2017-10-09 10:00:00"), jobid="b"),
        job(attempt("2017-10-09 08:00:00", None, 4), jobid="c"),
        job(attempt(None, "2017-10-09 08:00:00", 1), ran, jobid="d"),
    ]

    trace = trace_of(json.dumps(jobs))

    assert [one.name for one in trace.jobs] == ["d"]
    assert trace.rows == 4
    assert trace.warnings == (
        "2 jobs that never got a GPU and left out",
        "1 job without an attempt that both began and ended, left out",
        "1 job with attempts without a begin or an end, which are not replayed",
    )


def test_errors_name_the_line_of_the_job() -> None:
    """An end before its begin, a date that is none, a missing field, text that is not JSON."""
    ran = attempt("2017-10-09 08:00:00", "2017-10-09 10:00:00", 1)
    good = json.dumps(job(ran))
    backwards = json.dumps(job(attempt("2017-10-09 08:00:00", "2017-10-09 07:00:00", 1), jobid="x"))
    dateless = json.dumps(job(ran, jobid="x", submitted_time="soon"))
    short = json.dumps({"vc": "a", "attempts": []})

    assert refusal_of(f"[{good},\n{backwards}]").line == 2
    assert refusal_of(f"[{good},\n{backwards}]").column == "end_time"
    assert "in job 'x', expected" in refusal_of(f"[{good}, {backwards}]").problem
    assert refusal_of(f"[{good},\n\n{dateless}]").line == 3
    assert "status, jobid" in refusal_of(f"[{good},\n{short}]").problem
    assert refusal_of(f"[{good},\n{good[:-5]}").line == 2
    assert "comma" in refusal_of(f"[{good} {good}]").problem
    assert "behind the list" in refusal_of(f"[{good}] 1").problem
    assert refusal_of("[]", format="philly-json").problem.startswith("there is no job")
    assert "list of jobs" in refusal_of("{}", format="philly-json").problem
    assert "NaN" in refusal_of(f'[{good[:-1]}, "x": NaN}}]').problem
    assert refusal_of(f'[{good[:-1]}, "x": {"[" * 100_000}', format="philly-json").line == 1
