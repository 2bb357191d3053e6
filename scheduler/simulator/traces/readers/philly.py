"""Philly as the AdaptDL authors derived it: ``timestamp,submit_s,duration_s,num_gpus,gpu_time_s,vc``."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("timestamp", "submit_s", "duration_s", "num_gpus", "vc")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; ``duration_s`` is the run time, ``submit_s`` counts from the midnight before the first job.

    Source: philly.csv of petuum/adaptdl, branch osdi21-artifact, from the Philly traces of Microsoft.
    """
    collected = Collector(format="philly", file=source.name)
    starts_at: datetime | None = None
    for row in rows_of(source, COLUMNS):
        submit_s = row.seconds("submit_s")
        if starts_at is None:
            starts_at = datetime.fromtimestamp(row.moment_s("timestamp"), tz=UTC) - timedelta(seconds=submit_s)
        collected.add(
            line=row.line,
            arrival_s=submit_s,
            num_gpus=row.gpus("num_gpus"),
            run_s=row.seconds("duration_s"),
            queue=row.text("vc"),
        )
    return replace(collected.trace(), starts_at=starts_at)


READER = delimited(COLUMNS, read)
