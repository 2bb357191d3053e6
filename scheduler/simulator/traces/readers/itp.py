"""Microsoft ITP 2021: ``job_id,submission_time,duration,num_gpu``."""

from pathlib import Path

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; all times are seconds."""
    collected = Collector(format="itp", file=source.name)
    for row in rows_of(source, COLUMNS):
        collected.add(
            line=row.line,
            id=row.text("job_id"),
            id_column="job_id",
            arrival_s=row.seconds("submission_time"),
            num_gpus=row.gpus("num_gpu"),
            run_s=row.seconds("duration"),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
