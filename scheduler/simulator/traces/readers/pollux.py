"""Pollux's workloads: ``name,time,application,num_replicas,batch_size``."""

from pathlib import Path

from scheduler.core.model.profile import Profile
from scheduler.simulator.speeds.measured import iteration_s, pollux_models, pollux_profile
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; the run time is that of the whole training at the given GPUs and batch, kept fixed.

    Source: simulator/workloads of petuum/adaptdl, branch osdi21-artifact. Differs: the system there changes both
    while the job runs; the numbers of the trace are those of a user who tuned them before. A policy that chooses how
    many GPUs a job gets may choose from those at which this batch was measured.
    """
    models = pollux_models(profiles)
    collected = Collector(format="pollux", file=source.name)
    known: dict[tuple[str, int, int], Profile] = {}
    for row in rows_of(source, COLUMNS):
        name, num_gpus = row.text("application"), row.gpus("num_replicas")
        if name not in models:
            row.refuse("application", f"one of {', '.join(models)}")
        model, batch = models[name], row.whole("batch_size", least=1)
        if batch not in model.iterations:
            row.refuse("batch_size", f"one of the measured sizes: {', '.join(map(str, model.iterations))}")
        step_s = iteration_s(model, model.together, num_gpus=num_gpus, batch=batch)
        if step_s is None:
            row.refuse("num_replicas", f"GPUs at which {name} was measured with batches of {batch}")
        if (name, num_gpus, batch) not in known:
            known[name, num_gpus, batch] = pollux_profile(model, num_gpus=num_gpus, batch=batch)
        profile = known[name, num_gpus, batch]
        measured = [int(gpus) for gpus, _ in profile.scaling] or [num_gpus]
        collected.add(
            line=row.line,
            id=row.text("name"),
            id_column="name",
            arrival_s=row.seconds("time"),
            num_gpus=num_gpus,
            run_s=model.iterations[batch] * step_s,
            model=name,
            profile=profile,
            min_gpus=min(measured[0], num_gpus),
            max_gpus=max(measured[-1], num_gpus),
        )
    return collected.trace()


READER = delimited(COLUMNS, read)
