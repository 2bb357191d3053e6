"""Philly as AdaptDL ships it: ``timestamp,duration,num_gpus,gpu_time,cluster``."""

from pathlib import Path

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; ``timestamp`` is the submission, ``duration`` the run time in seconds, ``cluster`` the queue.

    Source: simulator/traces/philly.csv of petuum/adaptdl, branch osdi21-artifact, from the Philly traces of Microsoft.
    ``gpu_time``, the product of two other columns, is not read.
    """
    collected = Collector(format="adaptdl", file=source.name, dated=True)
    for row in rows_of(source, COLUMNS):
        collected.add(
            line=row.line,
            arrival_s=row.moment_s("timestamp"),
            num_gpus=row.gpus("num_gpus"),
            run_s=row.seconds("duration"),
            queue=row.text("cluster"),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
