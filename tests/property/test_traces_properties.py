"""Traces survive writing and reading; whatever a file holds, it is read right or refused with a place."""

import io
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.trace_files import write_csv, write_parquet
from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.jobs import Failure, SimJob
from scheduler.simulator.traces import READERS, read_trace
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.readers import csv
from scheduler.simulator.traces.trace import Trace, at_load, offered_load, window
from tests.support.suite.examples import tried

quick = tried(60)

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)
SECONDS = st.floats(0, 1e9)
RUN_S = st.floats(1e-3, 1e9)


FAILURES = st.builds(Failure, after_s=SECONDS, cause=st.sampled_from([str(cause) for cause in FailureClass]))
# Jobs with any of the fields that a trace can hold; queue and owner are 0, bounds are of at most and at least 32 GPUs.
SIM_JOBS = st.builds(
    SimJob,
    arrival_s=SECONDS,
    num_gpus=st.just(32),
    run_s=RUN_S,
    model=st.just("") | NAMES,
    priority=st.just(50.0) | st.floats(-1e6, 1e6),
    weight=st.just(1.0) | st.floats(1e-3, 1e3),
    min_gpus=st.none() | st.integers(1, 32),
    max_gpus=st.none() | st.integers(32, 128),
    max_servers=st.integers(0, 8),
    min_cpus=st.just(0.0) | st.floats(0, 1e3),
    min_memory_bytes=st.just(0.0) | st.floats(0, 1e15),
    failures=st.lists(FAILURES, max_size=3).map(tuple),
)


@st.composite
def traces(draw: st.DrawFn, *, least: int = 1) -> Trace:
    """Return a trace with jobs in order of arrival, of one queue and one owner; some of them have names."""
    jobs = draw(st.lists(SIM_JOBS, min_size=least, max_size=6))
    names = draw(st.lists(NAMES, max_size=len(jobs), unique=True))
    names += [""] * (len(jobs) - len(names))
    named = [replace(job, name=name) for job, name in zip(jobs, names, strict=True)]
    return Trace(
        format="csv",
        source="drawn",
        jobs=sorted(named, key=lambda job: job.arrival_s),
        queues=(draw(st.just("default") | NAMES),),
        owners=(draw(st.just("unknown") | NAMES),),
    )


@quick
@given(traces())
def test_what_is_written_as_csv_and_as_parquet_is_read_the_same(trace: Trace) -> None:
    """Every digit, every name, every failure."""
    text, packed = io.StringIO(), io.BytesIO()
    write_csv(trace, text)
    write_parquet(trace, packed)

    from_csv = read_trace(io.StringIO(text.getvalue()))
    from_parquet = read_trace(io.BytesIO(packed.getvalue()))

    assert from_csv.jobs == from_parquet.jobs == trace.jobs
    assert from_csv.queues == from_parquet.queues == trace.queues
    assert from_csv.owners == from_parquet.owners == trace.owners
    assert (from_csv.format, from_parquet.format) == ("csv", "parquet")


# A header and a row that is right, to be spoiled.
RIGHT = {
    "philly": ("timestamp,submit_s,duration_s,num_gpus,gpu_time_s,vc", "2017-10-03 00:01:55,115,79.0,1,79.0,11cb48"),
    "synergy": ("job_id,model,arrival_time_s,total_iterations,gpu_demand", "0,alexnet,8,23349,1"),
    "tiresias": ("job_id,num_gpu,submit_time,iterations,model_name,duration,interval", "0,1,0,606,vgg19,164,30"),
    "pollux": ("name,time,application,num_replicas,batch_size", "bert-0,110,bert,1,12"),
    "helios": (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        "1,u,v,2,16,1,COMPLETED,2020-04-01 09:58:00,2020-04-01 10:00:00,2020-04-01 11:00:00,3600,120",
    ),
    "itp": ("job_id,submission_time,duration,num_gpu", "a,10,3600,8"),
    "openb": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        "p,12000,16384,1,1000,,LS,Running,0,12537496,0",
    ),
    "sacct": (
        "JobID|User|Account|State|Submit|Start|End|Elapsed|AllocTRES|AllocGRES|NNodes",
        "1|ann|cv|COMPLETED|2024-01-02T03:00:00|2024-01-02T03:10:00|2024-01-02T05:10:00|02:00:00|gres/gpu=2,mem=4G||1",
    ),
    "csv": (",".join(csv.COLUMNS), "0,4,3600,train,ann,vision,resnet18,80,2,1,8,2,16,64e9,120:syntax"),
}
NONSENSE = (
    ["", " ", "0", "1", "8", "-1", "nan", "inf", "-inf", "1e400", "1e30", "0.5", "x", "None", "Unknown", "null"],
    ["2020-04-01 09:58:00", "2020-02-30 00:00:00", "0001-01-01", "9999-12-31T23:59:59+23:59", "1_0", '"', '"a"', "٣"],
    ["cpu=8,gres/gpu=2,mem=64G", "gres/gpu:a100=1", "gres/gpu=99999999999", "mem=64X", "gpu:2", "1-02:03:04"],
    ["resnet50", "alexnet", "bert", "ncf", "12", "32768", "120:syntax", "COMPLETED", "101.batch", "RUNNING"],
)
CELLS = st.one_of(
    st.sampled_from([cell for cells in NONSENSE for cell in cells]),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
    st.text(max_size=6),
)


def _check(content: bytes, format: str | None = None) -> None:
    """Read the bytes: a trace is right in itself, and nothing but a TraceError refuses it."""
    try:
        trace = read_trace(io.BytesIO(content), format=format)
    except TraceError:
        return

    arrivals = [job.arrival_s for job in trace.jobs]
    names = [job.name for job in trace.jobs if job.name]
    assert trace.jobs
    assert arrivals == sorted(arrivals)
    assert len(trace.jobs) <= trace.rows
    assert len(trace.jobs) == trace.rows or trace.warnings
    assert len(set(names)) == len(names)
    for job in trace.jobs:
        assert job.num_gpus >= 1
        assert isinstance(job.num_gpus, int)
        assert 0 <= job.arrival_s < math.inf
        assert 0 < job.run_s < math.inf
        assert 0 <= job.queue < len(trace.queues)
        assert 0 <= job.owner < len(trace.owners)
        assert 0 <= job.min_cpus < math.inf
        assert 0 <= job.min_memory_bytes < math.inf


@pytest.mark.parametrize("format", RIGHT)
@quick
@given(data=st.data())
def test_spoiled_rows_are_read_right_or_refused(format: str, data: st.DataObject) -> None:
    """A right row with some of its cells replaced by other numbers, dates, units and nonsense."""
    delimiter = "|" if format == "sacct" else ","
    header, right = RIGHT[format]
    cells = right.split(delimiter)
    rows = []
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled = data.draw(st.dictionaries(st.integers(0, len(cells) - 1), CELLS, max_size=3))
        rows.append(delimiter.join(spoiled.get(index, cell) for index, cell in enumerate(cells)))

    _check("\n".join([header, *rows]).encode())


@pytest.mark.parametrize("format", RIGHT)
def test_the_rows_to_be_spoiled_are_right(format: str) -> None:
    """Else the test above would only see refusals."""
    trace = read_trace(io.StringIO("\n".join(RIGHT[format])))

    assert (trace.format, len(trace.jobs)) == (format, 1)


@quick
@given(data=st.data())
def test_tabs_of_anything_are_read_right_or_refused(data: st.DataObject) -> None:
    """Gavel's format has no header."""
    models = st.sampled_from(["ResNet-50 (batch size 64)", "A3C", "LM (batch size 20)"]) | CELLS
    row = st.tuples(models, CELLS, CELLS, CELLS, CELLS, CELLS, CELLS, CELLS, CELLS, CELLS)
    rows = data.draw(st.lists(row, min_size=1, max_size=3))

    _check("\n".join("\t".join(cells) for cells in rows).encode(), format="gavel")


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5) | st.just("2017-10-09 07:02:42"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ATTEMPTS = st.fixed_dictionaries(
    {
        "start_time": st.just("2017-10-09 07:02:42") | VALUES,
        "end_time": st.just("2017-10-09 08:02:42") | VALUES,
        "detail": st.lists(
            st.fixed_dictionaries({"ip": VALUES, "gpus": st.lists(VALUES, max_size=3) | VALUES}), max_size=2
        )
        | VALUES,
    }
)
JOBS = st.fixed_dictionaries(
    {
        "status": VALUES,
        "vc": st.just("a") | VALUES,
        "jobid": st.just("b") | VALUES,
        "user": st.just("c") | VALUES,
        "submitted_time": st.just("2017-10-09 07:02:42") | VALUES,
        "attempts": st.lists(ATTEMPTS | VALUES, max_size=3) | VALUES,
    }
)


@quick
@given(st.lists(JOBS | VALUES, max_size=3) | VALUES)
def test_json_of_anything_is_read_right_or_refused(value: object) -> None:
    """Any value where a job, an attempt, a date or a list should be."""
    _check(json.dumps(value).encode(), format="philly-json")


@pytest.mark.parametrize("format", [None, *READERS])
@quick
@given(content=st.binary(max_size=200))
def test_bytes_of_anything_are_refused(format: str | None, content: bytes) -> None:
    """Random bytes, with and without beginnings that promise more."""
    _check(content, format)
    _check(b"\x1f\x8b" + content, format)
    _check(b"PAR1" + content + b"PAR1", format)
    _check(b"[" + content, format)


@quick
@given(traces(least=2), st.floats(0.05, 5.0), st.integers(1, 4096))
def test_a_load_that_was_set_is_the_load_there_is(trace: Trace, load: float, cluster_gpus: int) -> None:
    """Stretching arrivals changes nothing but the times, and keeps the order."""
    if trace.jobs[-1].arrival_s - trace.jobs[0].arrival_s < 1e-3:
        return
    stretched = at_load(trace, load=load, cluster_gpus=cluster_gpus)

    assert offered_load(stretched.jobs, cluster_gpus=cluster_gpus) == pytest.approx(load, rel=1e-6)
    assert [job.name for job in stretched.jobs] == [job.name for job in trace.jobs]
    assert stretched.jobs[0].arrival_s == trace.jobs[0].arrival_s
    assert all(one.arrival_s <= two.arrival_s for one, two in zip(stretched.jobs, stretched.jobs[1:], strict=False))


@quick
@given(traces(), st.lists(SECONDS, min_size=2, max_size=2))
def test_windows_side_by_side_hold_every_job_once(trace: Trace, cuts: list[float]) -> None:
    """[., A), [A, B) and [B, .) together are the trace."""
    first_s, second_s = sorted(cuts)
    parts = [window(trace, to_s=first_s), window(trace, from_s=first_s, to_s=second_s), window(trace, from_s=second_s)]

    assert [job for part in parts for job in part.jobs] == trace.jobs
