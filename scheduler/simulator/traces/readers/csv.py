"""Our own trace as CSV: one job a line, columns by name, in any order."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.jobs import Failure
from scheduler.simulator.traces.collect import Collector, JobOptions
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import MOST_GPUS, MOST_SECONDS, Row, rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

# name: what it holds. The first three are needed, the others may be left out or left empty.
COLUMNS: Mapping[str, str] = {
    "arrival_s": "time of submission, seconds",
    "num_gpus": "GPUs of the gang",
    "run_s": "run time on these GPUs at their proportional share of cores and memory, seconds",
    "name": "what to call the job, unique",
    "owner": "its user",
    "queue": "its queue",
    "model": "what it trains; known models get their profile",
    "priority": "larger first where a policy looks at it; 50",
    "weight": "share beside its peers where time is sliced; 1",
    "min_gpus": "least GPUs it can run on; num_gpus",
    "max_gpus": "most GPUs it can use; num_gpus",
    "max_servers": "most servers it may be spread over, 0 for any number; 0",
    "min_cpus": "cores it insists on, whole gang; 0",
    "min_memory_bytes": "memory it insists on, whole gang, bytes; 0",
    "failures": "its failing attempts, `seconds:cause` with `;` between them, such as `120:syntax;3600:network`",
}
NEEDED = ("arrival_s", "num_gpus", "run_s")
_FIRST = (*NEEDED, "name", "owner", "queue")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace."""
    return read_rows(rows_of(source, NEEDED), format="csv", file=source.name)


def read_rows(rows: Iterable[Row], *, format: str, file: str) -> Trace:
    """Return the trace of rows with these columns."""
    collected = Collector(format=format, file=file)
    unknown: list[str] = []
    optional: list[str] = []
    for row in rows:
        if not collected.rows:
            unknown = [name for name in row.at if name not in COLUMNS]
            optional = [name for name in row.at if name not in _FIRST]
        num_gpus = row.gpus("num_gpus")
        collected.add(
            line=row.line,
            id=row.text("name"),
            id_column="name",
            arrival_s=row.seconds("arrival_s"),
            num_gpus=num_gpus,
            run_s=row.seconds("run_s"),
            owner=row.text("owner"),
            queue=row.text("queue"),
            **_options(row, optional, num_gpus),
        )
    if unknown:
        collected.say(f"columns that mean nothing here and were not read: {', '.join(unknown)}")
    return collected.trace()


def _options(row: Row, columns: Iterable[str], num_gpus: int) -> JobOptions:
    """Return what the cells beyond the first columns say; empty ones say nothing."""
    options: JobOptions = {}
    for column in columns:
        if not row.text(column):
            continue
        match column:
            case "model":
                options["model"] = row.text("model")
            case "priority":
                options["priority"] = row.number("priority")
            case "weight":
                options["weight"] = row.number("weight", least=1e-6, most=1e6)
            case "min_gpus":
                options["min_gpus"] = row.whole("min_gpus", least=1, most=num_gpus)
            case "max_gpus":
                options["max_gpus"] = row.whole("max_gpus", least=num_gpus, most=MOST_GPUS)
            case "max_servers":
                options["max_servers"] = row.whole("max_servers", least=0, most=MOST_GPUS)
            case "min_cpus":
                options["min_cpus"] = row.number("min_cpus", least=0, most=1e9)
            case "min_memory_bytes":
                options["min_memory_bytes"] = row.number("min_memory_bytes", least=0, most=1e18)
            case "failures":
                options["failures"] = _failures(row)
    return options


def _failures(row: Row) -> tuple[Failure, ...]:
    failures = []
    for part in row.text("failures").split(";"):
        after, _, cause = part.partition(":")
        try:
            after_s = float(after)
        except ValueError:
            after_s = -1.0
        if not (0 <= after_s <= MOST_SECONDS and cause.strip() in set(FailureClass)):
            causes = ", ".join(FailureClass)
            row.refuse("failures", f"seconds:cause with ; between several, such as 120:syntax; the causes are {causes}")
        failures.append(Failure(after_s=after_s, cause=cause.strip()))
    return tuple(failures)


READER = delimited(NEEDED, read)
