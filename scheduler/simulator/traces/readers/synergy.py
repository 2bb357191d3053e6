"""The traces of Synergy's deployment: ``job_id,model,arrival_time_s,total_iterations,gpu_demand``."""

from pathlib import Path

from scheduler.simulator.speeds.profiles import (
    SYNERGY_CPUS_PER_GPU,
    synergy_iteration_s,
    synergy_name,
    synergy_profiles,
)
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import MOST_SECONDS, rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("job_id", "model", "arrival_time_s", "total_iterations", "gpu_demand")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; the run time is iterations x time of an iteration at the GPU-proportional share.

    Source: simulator/deploy_trace of msr-fiddle/synergy, for servers with 3 cores and 62.5 GB for each GPU.
    """
    curves = synergy_profiles(profiles, cpus_per_gpu=SYNERGY_CPUS_PER_GPU)
    iteration_s = synergy_iteration_s(profiles, cpus_per_gpu=SYNERGY_CPUS_PER_GPU)
    collected = Collector(format="synergy", file=source.name)
    for row in rows_of(source, COLUMNS):
        model = synergy_name(row.text("model"))
        if model not in curves:
            row.refuse("model", f"one of {', '.join(curves)}")
        iterations = row.number("total_iterations", least=0, most=MOST_SECONDS, unit="number of iterations")
        collected.add(
            line=row.line,
            id=row.text("job_id"),
            id_column="job_id",
            arrival_s=row.seconds("arrival_time_s"),
            num_gpus=row.gpus("gpu_demand"),
            run_s=iterations * iteration_s[model],
            model=model,
            profile=curves[model],
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
