"""SenseTime's Helios: the ``cluster_log.csv`` of each of its clusters."""

from pathlib import Path

from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import MOST_GPUS, rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("job_id", "user", "vc", "gpu_num", "submit_time", "duration")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace: jobs with GPUs, whatever became of them; ``duration`` is the run time in seconds.

    Source: S-Lab-System-Group/HeliosData, CC-BY-4.0. Differs: the cores of a job are not insisted on, since they
    belong to the servers of Helios; ``queue``, the seconds it waited there, is what a replay is to find out.
    """
    collected = Collector(format="helios", file=source.name, dated=True)
    for row in rows_of(source, COLUMNS):
        num_gpus = row.whole("gpu_num", least=0, most=MOST_GPUS)
        arrival_s, run_s = row.moment_s("submit_time"), row.seconds("duration")
        if not num_gpus:
            collected.leave_out("without a GPU and left out")
            continue
        collected.add(
            line=row.line,
            id=row.text("job_id"),
            id_column="job_id",
            arrival_s=arrival_s,
            num_gpus=num_gpus,
            run_s=run_s,
            owner=row.text("user"),
            queue=row.text("vc"),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
