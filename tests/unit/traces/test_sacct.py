"""The history of a Slurm cluster."""

from datetime import UTC, datetime

import pytest

from tests.support.simulator.traces import refusal_of, trace_of

HEADER = "JobID|User|Account|Partition|State|Submit|Start|End|Elapsed|AllocTRES\n"
TIMES = "2024-01-02T03:00:00|2024-01-02T03:10:00|2024-01-02T05:10:00|02:00:00"
TRES = "billing=16,cpu=16,energy=18446744073709551614,gres/gpu:a100=2,gres/gpu=2,gres/gpumem=0,mem=64G,node=1"


def row(id: str = "101", *, state: str = "COMPLETED", times: str = TIMES, tres: str = TRES) -> str:
    """Return one line of sacct."""
    return f"{id}|ann|vision|gpu|{state}|{times}|{tres}\n"


def test_a_job_is_read_with_what_it_held() -> None:
    """The account is the queue; cores and memory are what it insists on; GPUs are not counted twice."""
    trace = trace_of(HEADER + row())

    [job] = trace.jobs
    assert trace.format == "sacct"
    assert (job.name, job.num_gpus, job.run_s) == ("101", 2, 7200.0)
    assert (job.min_cpus, job.min_memory_bytes) == (16.0, 64 * 2**30)
    assert (trace.owners, trace.queues) == (("ann",), ("vision",))
    assert trace.starts_at == datetime(2024, 1, 2, 3, tzinfo=UTC)


def test_steps_are_skipped_and_array_elements_are_jobs() -> None:
    """``101.batch`` is not a job; ``7_1`` and ``7_2`` are."""
    text = HEADER + row() + row("101.batch") + row("101.extern") + row("101.0") + row("7_1") + row("7_2")

    trace = trace_of(text)

    assert [job.name for job in trace.jobs] == ["101", "7_1", "7_2"]
    assert trace.rows == 3


def test_what_did_not_run_to_an_end_is_counted_and_left_out() -> None:
    """Without a GPU, never started, still running, no length at all."""
    pending = "2024-01-02T03:00:00|Unknown|Unknown|00:00:00"
    cancelled = "2024-01-02T03:00:00|None|2024-01-02T05:10:00|00:00:00"
    lost = "2024-01-02T03:00:00|2024-01-02T03:10:00|Unknown|"
    text = HEADER + row("1") + row("2", tres="cpu=4,mem=8G,node=1") + row("3", state="PENDING", times=pending)
    text += row("4_[5-9]", state="CANCELLED by 1000", times=cancelled) + row("5", state="RUNNING", times=lost)
    text += row("6", state="FAILED", times=lost) + row("7", tres="") + row("8+0")

    trace = trace_of(text)

    assert [job.name for job in trace.jobs] == ["1", "8+0"]
    assert trace.rows == 8
    assert trace.warnings == (
        "2 jobs without a GPU and left out",
        "2 jobs that never started and left out",
        "1 job that had not ended and left out",
        "1 job without an end or a length and left out",
        "1 job being part of a heterogeneous job, taken for one of its own",
    )


@pytest.mark.parametrize(
    ("text", "run_s"),
    [("00:30", 30.0), ("01:02:03", 3723.0), ("3-04:05:06", 273_906.0), ("10:00.500", 600.0), ("100:00:00", 360_000.0)],
)
def test_elapsed_is_days_hours_minutes_seconds(text: str, run_s: float) -> None:
    """Every form Slurm writes."""
    times = f"2024-01-02T03:00:00|2024-01-02T03:10:00|Unknown|{text}"

    assert trace_of(HEADER + row(times=times)).jobs[0].run_s == run_s


@pytest.mark.parametrize(
    ("text", "memory_bytes"),
    [("mem=64G", 64 * 2**30), ("mem=1.5T", 1.5 * 2**40), ("mem=512000M", 512_000 * 2**20), ("mem=100", 100 * 2**20)],
)
def test_memory_has_units(text: str, memory_bytes: float) -> None:
    """Powers of 1024; megabytes without a letter."""
    assert trace_of(HEADER + row(tres=f"gres/gpu=1,{text}")).jobs[0].min_memory_bytes == memory_bytes


def test_other_columns_tell_the_same() -> None:
    """End instead of Elapsed, ReqTRES instead of AllocTRES, partition instead of account, any order."""
    text = "ReqTRES|End|Start|Submit|JobID|Partition\ngres/gpu:v100=3,gres/gpu:a100=1|"
    text += "2024-01-02T05:10:00|2024-01-02T03:10:00|2024-01-02T03:00:00|9|long\n"

    trace = trace_of(text)

    assert (trace.jobs[0].num_gpus, trace.jobs[0].run_s, trace.queues) == (4, 7200.0, ("long",))


@pytest.mark.parametrize(
    ("gres", "num_gpus"),
    [("gpu:2", 4), ("gres:gpu:a100:3", 6), ("gpu:a100:2(S:0-1)", 4), ("gpu", 2), ("lustre:1,gpu:1", 2)],
)
def test_old_slurm_tells_gpus_of_one_node(gres: str, num_gpus: int) -> None:
    """AllocGRES times the nodes."""
    text = f"JobID|Submit|Start|ElapsedRaw|AllocGRES|NNodes\n1|2024-01-02T03:00:00|2024-01-02T03:10:00|60|{gres}|2\n"

    assert trace_of(text).jobs[0].num_gpus == num_gpus


def test_unix_times_are_read_and_a_time_of_0_is_refused() -> None:
    """``SLURM_TIME_FORMAT=%s`` writes seconds; 0 there is a time that Slurm does not know."""
    good = trace_of(HEADER + row(times="1704164400|1704165000|1704165060|00:01:00"))
    bad = refusal_of(HEADER + row(times="0|1704165000|1704165060|00:01:00"))

    assert good.starts_at == datetime(2024, 1, 2, 3, tzinfo=UTC)
    assert bad.column == "Submit"


def test_the_last_column_may_be_empty() -> None:
    """``--parsable`` ends every line with a bar."""
    text = "".join(line + "|\n" for line in (HEADER + row()).splitlines())

    assert len(trace_of(text).jobs) == 1


def test_errors_are_at_their_place() -> None:
    """A length, an amount, a date, a missing column, an end before its start, a job twice."""
    length = refusal_of(HEADER + row(times="2024-01-02T03:00:00|2024-01-02T03:10:00|Unknown|two hours"))
    amount = refusal_of(HEADER + row(tres="gres/gpu=two"))
    memory = refusal_of(HEADER + row(tres="gres/gpu=2,mem=64X"))
    no_amounts = [refusal_of(HEADER + row(tres=text)) for text in ("soon", "8", "1.5", "gres/gpu=2,8")]
    no_gres = refusal_of("JobID|Submit|Start|Elapsed|AllocGRES\n1|2024-01-02T03:00:00|2024-01-02T03:10:00|01:00|8\n")
    headers_twice = refusal_of(HEADER + row("1") + HEADER + row("2"))
    date = refusal_of(HEADER + row(times="Tuesday|2024-01-02T03:10:00|Unknown|00:01:00"))
    resources = refusal_of("JobID|Submit|Start|End\n1|2024-01-02T03:00:00|2024-01-02T03:10:00|2024-01-02T03:20:00\n")
    end = "JobID|Submit|Start|End|AllocTRES\n1|2024-01-02T03:00:00|2024-01-02T03:10:00|2024-01-02T03:00:00|gres/gpu=1\n"

    assert (length.line, length.column) == (2, "Elapsed")
    assert amount.column == "AllocTRES"
    assert memory.column == "AllocTRES"
    assert {error.column for error in no_amounts} == {"AllocTRES"}
    assert no_gres.column == "AllocGRES"
    assert headers_twice.line == 3
    assert date.column == "Submit"
    assert "AllocTRES, ReqTRES" in resources.problem
    assert refusal_of(end).column == "End"
    assert refusal_of(HEADER + row("1") + row("1")).column == "JobID"
