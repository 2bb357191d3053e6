"""The history of a Slurm cluster: ``sacct --parsable2`` with any columns in any order."""

import re
from pathlib import Path
from typing import NamedTuple

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import MOST_GPUS, MOST_SECONDS, Row, rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("JobID", "Submit", "Start")
# One of each is needed; the first that is there, and not empty, is read.
LENGTHS = ("ElapsedRaw", "Elapsed", "End")
RESOURCES = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")

_MISSING = frozenset({"", "Unknown", "None", "N/A", "INVALID", "Invalid"})
_RUNNING = ("RUNNING", "PENDING", "SUSPENDED", "REQUEUED")
# 1990 to 2100, as for dates.
_UNIX_FROM_S, _UNIX_TO_S = 631_152_000.0, 4_102_444_800.0
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:\.\d+)?", re.ASCII)
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTPE]?)", re.ASCII)
_COUNT = re.compile(r"\d{1,15}", re.ASCII)
_TRES = "name=count with commas between them, such as cpu=8,gres/gpu=2,mem=64G,node=1"
# Slurm's letters are powers of 1024; without one it is megabytes.
_UNIT_BYTES = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


class JobResources(NamedTuple):
    """Resources that a job held, or asked for.

    Attributes:
        num_gpus: GPUs.
        cpus: Cores, 0 when not told.
        memory_bytes: Memory, 0 when not told.
    """

    num_gpus: int
    cpus: float = 0.0
    memory_bytes: float = 0.0


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace: jobs with GPUs that ran to an end, whatever it was; steps of jobs are skipped.

    Cores and memory of a job are what it insists on. Its queue is its account, or else its partition. Times are taken
    as UTC. Elements of job arrays are jobs of their own, and so are the parts of a heterogeneous job.
    """
    collected = Collector(format="sacct", file=source.name, dated=True)
    for row in rows_of(source, COLUMNS, delimiter="|", quoted=False):
        if not collected.rows:
            _check_columns(row)
        if "." in row.text("JobID"):
            continue
        _take(row, collected)
    return collected.trace()


def _check_columns(row: Row) -> None:
    for choices in (LENGTHS, RESOURCES):
        if not any(name in row.at for name in choices):
            found = ", ".join(name for name in row.at if name)
            raise TraceError(
                file=row.file, line=1, problem=f"one of the columns {', '.join(choices)} is needed; it has {found}"
            )


def _take(row: Row, collected: Collector) -> None:
    held = _resources(row)
    if not held.num_gpus:
        collected.leave_out("without a GPU and left out")
        return
    if row.text("Start") in _MISSING:
        collected.leave_out("that never started and left out")
        return
    if row.text("State").split(" ")[0] in _RUNNING:
        collected.leave_out("that had not ended and left out")
        return
    run_s = _run_s(row)
    if run_s is None:
        collected.leave_out("without an end or a length and left out")
        return
    if "+" in row.text("JobID"):
        collected.count("being part of a heterogeneous job, taken for one of its own")
    collected.add(
        line=row.line,
        id=row.text("JobID"),
        id_column="JobID",
        arrival_s=_moment_s(row, "Submit"),
        num_gpus=held.num_gpus,
        run_s=run_s,
        owner=row.text("User"),
        queue=row.text("Account") or row.text("Partition"),
        min_cpus=held.cpus,
        min_memory_bytes=held.memory_bytes,
    )


def _moment_s(row: Row, column: str) -> float:
    """Return a moment as Unix seconds; Slurm writes 2024-01-02T03:04:05, or seconds with SLURM_TIME_FORMAT=%s."""
    text = row.text(column)
    if text.isascii() and text.isdigit():
        return row.number(column, least=_UNIX_FROM_S, most=_UNIX_TO_S, unit="Unix time in seconds")
    return row.moment_s(column)


def _run_s(row: Row) -> float | None:
    """Return the run time in seconds; None when no column tells."""
    if row.text("ElapsedRaw") not in _MISSING:
        return row.seconds("ElapsedRaw")
    if (text := row.text("Elapsed")) not in _MISSING:
        match = _ELAPSED.fullmatch(text)
        if match is None:
            row.refuse("Elapsed", "[days-]hours:minutes:seconds")
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    if row.text("End") in _MISSING:
        return None
    run_s = _moment_s(row, "End") - _moment_s(row, "Start")
    if not 0 <= run_s <= MOST_SECONDS:
        row.refuse("End", f"a moment not before Start, {row.text('Start')}")
    return run_s


def _resources(row: Row) -> JobResources:
    """Return what the first resource column that is not empty tells; without one the job has no GPU."""
    for column in RESOURCES:
        if (text := row.text(column)) not in _MISSING:
            return _of_tres(row, column, text) if column.endswith("TRES") else _of_gres(row, column, text)
    return JobResources(0)


def _of_tres(row: Row, column: str, text: str) -> JobResources:
    """Return resources of ``billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1``.

    ``gres/gpu`` counts all GPUs; where it is missing those of all types are added.
    """
    untyped, typed, cpus, memory_bytes = None, 0, 0, 0.0
    for part in text.split(","):
        name, told, amount = part.partition("=")
        if part and not told:
            row.refuse(column, _TRES)
        if name == "cpu":
            cpus = _count(row, column, amount)
        elif name == "mem":
            memory_bytes = _memory_bytes(row, column, amount)
        elif name == "gres/gpu":
            untyped = _count(row, column, amount)
        elif name.startswith("gres/gpu:"):
            typed += _count(row, column, amount)
    num_gpus = typed if untyped is None else untyped
    if num_gpus > MOST_GPUS:
        row.refuse(column, f"at most {MOST_GPUS} GPUs")
    return JobResources(num_gpus, cpus, memory_bytes)


def _count(row: Row, column: str, amount: str) -> int:
    if not _COUNT.fullmatch(amount):
        row.refuse(column, _TRES)
    return int(amount)


def _memory_bytes(row: Row, column: str, amount: str) -> float:
    match = _MEMORY.fullmatch(amount)
    if match is None:
        row.refuse(column, "mem= and a number with K, M, G, T, P or E, such as mem=64G")
    return float(match[1]) * _UNIT_BYTES[match[2]]


def _of_gres(row: Row, column: str, text: str) -> JobResources:
    """Return resources of ``gpu:2``, ``gres:gpu:a100:2`` or ``gpu:a100:2(S:0-1)``, which old Slurm tells for a node."""
    count = 0
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.removeprefix("gres:").replace("gres/", "").split(":")
        if words[0] != "gpu":
            if words[0][:1].isdigit():
                row.refuse(column, "name:count with commas between them, such as gpu:2 or gpu:a100:2")
            continue
        count += _count(row, column, words[-1] if len(words) > 1 else "1")
    nodes = next((name for name in ("AllocNodes", "NNodes", "ReqNodes") if row.text(name) not in _MISSING), None)
    total = count * (row.whole(nodes, least=1, most=MOST_GPUS) if nodes else 1)
    if total > MOST_GPUS:
        row.refuse(column, f"at most {MOST_GPUS} GPUs")
    return JobResources(total)


READER = delimited(COLUMNS, read, delimiter="|")
