"""The trace of Tiresias's simulator: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``."""

from pathlib import Path

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("job_id", "num_gpu", "submit_time", "model_name", "duration")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; times are seconds, ``duration`` is the run time on all its GPUs.

    Source: trace-data of SymbioticLab/Tiresias. Differs: ``iterations`` and ``interval`` say nothing more, so they
    are not read.
    """
    collected = Collector(format="tiresias", file=source.name)
    for row in rows_of(source, COLUMNS):
        collected.add(
            line=row.line,
            id=row.text("job_id"),
            id_column="job_id",
            arrival_s=row.seconds("submit_time"),
            num_gpus=row.gpus("num_gpu"),
            run_s=row.seconds("duration"),
            model=row.text("model_name"),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
