"""What every delimited trace has in common: encodings, headers, order, guessing; and that garbage is refused."""

import gzip
import io
from pathlib import Path

import pytest

from scheduler.simulator.traces import READERS, open_trace, read_trace
from scheduler.simulator.traces.errors import TraceError
from tests.support.simulator.traces import refusal_of, trace_of

CSV = "arrival_s,num_gpus,run_s\n0,1,60\n5,2,30\n"

# Beginnings as files have them, where they are more than ``looks_like``.
HEADS = {
    "philly": "timestamp,submit_s,duration_s,num_gpus,gpu_time_s,vc\n",
    "philly-json": '[{"status": "Pass", "vc": "a", "jobid": "b", "attempts": [',
    "synergy": "job_id,model,arrival_time_s,total_iterations,gpu_demand\n",
    "tiresias": "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n",
    "gavel": "ResNet-50 (batch size 64)\tx\ty\t--n\t1\t2931\t1\t1\t-1.000000\t0\n",
    "pollux": "name,time,application,num_replicas,batch_size\n",
    "helios": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n",
    "itp": "job_id,submission_time,duration,num_gpu\n",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n",
    "sacct": "JobID|User|State|Submit|Start|End|AllocTRES\n",
    "csv": CSV,
    "parquet": "PAR1",
}


@pytest.mark.parametrize("name", READERS)
def test_each_beginning_fits_exactly_one_format(name: str) -> None:
    """Nothing has to be told when a file is what it says."""
    head = HEADS.get(name, READERS[name].looks_like).encode()

    assert [other for other, reader in READERS.items() if reader.fits(head)] == [name]


def test_an_unknown_beginning_lists_all_formats() -> None:
    """Each with what it begins with."""
    problem = refusal_of("a,b,c\n1,2,3\n").problem

    assert all(f"  {name}: {reader.looks_like}" in problem for name, reader in READERS.items())


def test_a_beginning_that_fits_two_formats_asks_which() -> None:
    """Both are named, and each can be asked for."""
    both = "job_id,num_gpu,submit_time,model_name,duration,submission_time\na,1,5,vgg,60,7\n"

    assert "fits tiresias and itp: say which" in refusal_of(both).problem
    assert trace_of(both, format="tiresias").jobs[0].arrival_s == 5.0
    assert trace_of(both, format="itp").jobs[0].arrival_s == 7.0


@pytest.mark.parametrize(
    "content",
    [
        CSV.encode(),
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.replace("\n", "\r\n").encode(),
        CSV.rstrip().encode(),
        ("\n" + CSV.replace("\n", "\n\n")).encode(),
        CSV.replace(",", " , ").encode(),
        b'"arrival_s","num_gpus","run_s"\n"0","1","60"\n"5","2","30"\n',
        gzip.compress(CSV.encode()),
        gzip.compress(b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode()),
    ],
    ids=["plain", "BOM", "CRLF", "no last end", "blank lines", "blanks", "quotes", "gzip", "gzip BOM CRLF"],
)
def test_the_way_a_file_was_saved_does_not_matter(content: bytes, tmp_path: Path) -> None:
    """The same two jobs, from a stream and from a path."""
    path = tmp_path / "trace"
    path.write_bytes(content)

    for trace in (trace_of(content), read_trace(path), open_trace(str(path))):
        assert trace.format == "csv"
        assert [(job.arrival_s, job.num_gpus, job.run_s) for job in trace.jobs] == [(0.0, 1, 60.0), (5.0, 2, 30.0)]


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"", None, "the file is empty"),
        (b"\xef\xbb\xbf", None, "the file is empty"),
        (b"\n\n", None, "the file is empty"),
        (b"arrival_s,num_gpus,run_s\n", None, "there is no job below the header"),
        (b"arrival_s,num_gpus,run_s\n0,1,0\n", None, "1 job ran for 0 s and left out"),
        (b"arrival_s,num_gpus,run_s\n0,1,60\n0,1\n", 3, "3 cells as in the header, found 2"),
        (b"arrival_s,num_gpus,run_s\n0,1,60,5\n", 2, "3 cells as in the header, found 4"),
        (b"arrival_s,num_gpus,run_s,run_s\n0,1,60,5\n", 1, "the column run_s stands there twice"),
        (b"arrival_s,num_gpus,run_s\n0,1,60\n0,1,\xff\n", 3, "not UTF-8"),
        (b"\xff\xfea\x00r\x00r\x00", 1, "no format"),
        (b'arrival_s,num_gpus,run_s\n0,1,60\n0,1,"60\n', 3, "cannot be split"),
        (CSV.replace("\n", "\r").encode(), 1, "a carriage return ends a line alone"),
        (b"arrival_s,num_gpus,run_s,name\n0,1,60,a\n0,1,60,b\0\n", 3, "holds NUL bytes"),
        (b"arrival_s,num_gpus,run_s\n0,1," + b"6" * 200_000 + b"\n", 2, "cannot be split"),
        (gzip.compress(CSV.encode() * 1000, mtime=0)[:60], None, "cannot be read to its end"),
        (b"\x1f\x8bnonsense", None, "cannot be read to its end"),
    ],
)
def test_a_broken_file_says_where(content: bytes, line: int | None, says: str) -> None:
    """One error with the line where there is one."""
    error = refusal_of(content)

    assert error.line == line
    assert says in error.problem
    assert str(error).startswith(error.file)


def test_a_missing_column_names_those_that_are_there() -> None:
    """When the format was asked for, the header is checked by it."""
    error = refusal_of("arrival_s,gpus,run_s\n0,1,60\n", format="csv")

    assert error.line == 1
    assert "no column num_gpus" in error.problem
    assert "arrival_s, gpus, run_s" in error.problem


def test_a_line_is_the_one_an_editor_shows() -> None:
    """Blank lines and cells with line ends count."""
    error = refusal_of('arrival_s,num_gpus,run_s,name\n\n0,1,60,"a\nb"\n\n0,1,x,c\n')

    assert (error.line, error.column) == (6, "run_s")


def test_jobs_out_of_order_are_sorted_and_counted() -> None:
    """Equal arrivals keep the order of the file."""
    trace = trace_of("arrival_s,num_gpus,run_s,name\n9,1,1,a\n5,1,1,b\n7,1,1,c\n5,1,1,d\n")

    assert [job.name for job in trace.jobs] == ["b", "d", "c", "a"]
    assert trace.warnings == ("3 jobs submitted before the latest job above them; sorted by submission",)


def test_jobs_of_no_length_are_left_out_and_counted() -> None:
    """They did no work."""
    trace = trace_of(CSV + "6,1,0\n7,1,0.0\n")

    assert len(trace.jobs) == 2
    assert trace.rows == 4
    assert trace.warnings == ("2 jobs ran for 0 s and left out",)


def test_an_open_file_has_its_name_in_errors(tmp_path: Path) -> None:
    """A path, a file open for bytes and one open for text are read alike."""
    path = tmp_path / "mine.csv"
    path.write_text(CSV + "6,1,x\n", encoding="utf-8")

    wanted = r"mine\.csv, line 4, column run_s: found 'x', expected a number of sec"
    with path.open("rb") as binary, path.open(encoding="utf-8") as text:
        for place in (path, binary, text):
            with pytest.raises(TraceError, match=wanted):
                read_trace(place)

        assert not binary.closed
        assert not text.closed


def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    """No such file, a folder, an unknown format."""
    for name, says in ((str(tmp_path / "none.csv"), "No such file"), (str(tmp_path), "cannot be opened")):
        with pytest.raises(TraceError, match=says):
            open_trace(name)
    with pytest.raises(TraceError, match="no format 'excel'; the formats are philly, philly-json"):
        read_trace(io.StringIO(CSV), format="excel")
