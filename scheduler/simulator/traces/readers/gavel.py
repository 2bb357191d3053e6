"""Gavel's traces: ten columns with tabs between them and no header.

Job type, command, working directory, steps argument, needs data (0 or 1), total steps, GPUs, priority weight, SLO,
arrival time in seconds.
"""

from pathlib import Path

from scheduler.core.model.profile import Profile
from scheduler.simulator.speeds.measured import GavelModel, gavel_models, gavel_pairs, gavel_profile
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.reader import Reader
from scheduler.simulator.traces.row import MOST_SECONDS, Row
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "slo",
    "arrival_time",
)


def fits(head: bytes) -> bool:
    """Return whether the first line has ten columns, with numbers where they belong."""
    lines = head.decode(errors="replace").splitlines()
    cells = lines[0].split("\t") if lines else []
    return len(cells) == len(COLUMNS) and all(_is_number(cells[at]) for at in (5, 6, 7, 9))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace; the run time is steps over the measured steps a second on V100 GPUs on one server.

    Source: traces and throughputs of stanford-futuredata/gavel. Differs: an SLO is not read; the weight is that of
    time-sliced shares.
    """
    models, pairs = gavel_models(profiles), gavel_pairs(profiles)
    collected = Collector(format="gavel", file=source.name)
    known: dict[tuple[str, int], Profile] = {}
    row = Row(file=source.name, at={name: index for index, name in enumerate(COLUMNS)})
    for row.line, row.cells in source.rows("\t", quoted=False):
        if len(row.cells) != len(COLUMNS):
            row.refuse(None, f"{len(COLUMNS)} cells with tabs between them, found {len(row.cells)}")
        name, num_gpus = row.text("job_type"), row.gpus("scale_factor")
        rate = _rate(row, models.get(name), num_gpus)
        if (name, num_gpus) not in known:
            known[name, num_gpus] = gavel_profile(
                models[name], name=name, num_gpus=num_gpus, beside=pairs.get(name, {})
            )
        collected.add(
            line=row.line,
            arrival_s=row.seconds("arrival_time"),
            num_gpus=num_gpus,
            run_s=row.number("total_steps", least=0, most=MOST_SECONDS, unit="number of steps") / rate,
            model=name,
            weight=row.number("priority_weight", least=1e-6, most=1e6),
            profile=known[name, num_gpus],
        )
    if not collected.rows:
        raise TraceError(file=source.name, problem="the file is empty")
    return collected.trace()


def _rate(row: Row, model: GavelModel | None, num_gpus: int) -> float:
    if model is None:
        row.refuse("job_type", "a model of the throughput table, such as ResNet-50 (batch size 64)")
    rates = dict(model.together)
    if num_gpus not in rates:
        row.refuse("scale_factor", f"one of the measured numbers of GPUs: {', '.join(map(str, rates))}")
    return rates[num_gpus]


READER = Reader(looks_like="ten cells with tabs between them, no header", fits=fits, read=read)
