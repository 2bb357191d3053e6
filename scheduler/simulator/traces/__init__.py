"""The registry of trace formats: each is a file in ``readers`` with a ``READER``, and one line here.

``read_trace`` reads one file; ``open_trace`` also takes a text such as ``generate:philly?jobs=1000&seed=1``.
"""

import gc
from pathlib import Path
from typing import IO

from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.reader import Reader
from scheduler.simulator.traces.readers import (
    adaptdl,
    csv,
    gavel,
    helios,
    itp,
    openb,
    parquet,
    philly,
    philly_json,
    pollux,
    sacct,
    synergy,
    tiresias,
)
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace
from scheduler.simulator.workloads import PREFIX, generate

# The folder of model profiles.
PROFILES = Path(__file__).resolve().parents[3] / "fixtures" / "profiles"

READERS: dict[str, Reader] = {
    "philly": philly.READER,
    "philly-json": philly_json.READER,
    "adaptdl": adaptdl.READER,
    "synergy": synergy.READER,
    "tiresias": tiresias.READER,
    "gavel": gavel.READER,
    "pollux": pollux.READER,
    "helios": helios.READER,
    "itp": itp.READER,
    "openb": openb.READER,
    "sacct": sacct.READER,
    "csv": csv.READER,
    "parquet": parquet.READER,
}


def guess_format(source: Source) -> str:
    """Return the only format that fits the beginning of a file.

    Raises:
        TraceError: If none fits, or more than one.
    """
    head = source.head()
    if not head.strip():
        raise TraceError(file=source.name, problem="the file is empty")
    fitting = [name for name, reader in READERS.items() if reader.fits(head)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        problem = f"its beginning fits {' and '.join(fitting)}: say which by --format"
        raise TraceError(file=source.name, line=1, problem=problem)
    formats = "\n".join(f"  {name}: {reader.looks_like}" for name, reader in READERS.items())
    raise TraceError(
        file=source.name, line=1, problem=f"its beginning fits no format; the formats begin like\n{formats}"
    )


def read_trace(
    place: str | Path | IO[bytes] | IO[str], *, format: str | None = None, profiles: Path = PROFILES
) -> Trace:
    """Return the trace in a file, plain or gzip.

    Args:
        place: Path, or open file.
        format: A key of READERS; None to tell it from the beginning of the file.
        profiles: Folder with the profiles of models.

    Raises:
        TraceError: If the file cannot be read without guessing; nothing is left out without a warning in the trace.
    """
    if format is not None and format not in READERS:
        raise TraceError(file=str(place), problem=f"no format {format!r}; the formats are {', '.join(READERS)}")
    source = Source(place)
    # A million jobs that all stay: looking for garbage among them again and again takes an eighth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return READERS[format or guess_format(source)].read(source, profiles)
    finally:
        source.close()
        if collects:
            gc.enable()


def open_trace(text: str, *, format: str | None = None, seed: int = 0, cluster_gpus: int | None = None) -> Trace:
    """Return the trace that a command line names: a file, or ``generate:philly?jobs=1000&gpus=128&load=0.9&seed=1``.

    Args:
        text: Path, or text of a generator.
        format: A key of READERS for a file; None to tell it from its beginning.
        seed: Of a generator whose text gives none.
        cluster_gpus: GPUs of the cluster for a generator whose text gives none.

    Raises:
        TraceError: If the file cannot be read without guessing, or the text describes no workload.
    """
    if not text.startswith(PREFIX):
        return read_trace(text, format=format)
    try:
        made = generate(text, profiles=PROFILES, seed=seed, cluster_gpus=cluster_gpus)
    except ValueError as error:
        raise TraceError(file=text, problem=str(error)) from error
    return Trace(
        format=PREFIX.rstrip(":"),
        source=text,
        jobs=made.jobs,
        queues=tuple(f"queue-{number}" for number in range(len(made.quotas))),
        owners=tuple(f"user-{number}" for number in range(1 + max(job.owner for job in made.jobs))),
        quotas=made.quotas,
        rows=len(made.jobs),
    )
