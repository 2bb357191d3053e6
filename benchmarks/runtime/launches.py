"""Time from a decision to the first step of a job on a real agent: without torch, with torch, and prestarted."""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agents.host.job_paths import confinement_of, job_paths
from agents.host.landlock import Confinement, abi, confine
from benchmarks.runtime.figure import Figure
from tests.support.agents.launches import PLAIN, TRAINING, launch_s
from tests.support.agents.server import AgentServer

TITLE = "Launches"
REPEATS = 5
PAIRS = 100
CONFINEMENT, CONFINEMENT_MOST_S = "what the confinement of a job adds to a launch without torch, ms", 0.005
OF_LAUNCH, OF_LAUNCH_MOST = "the same, % of that launch", 0.03


def figures() -> Sequence[Figure]:
    """Measure all of it."""
    plain, cold, warm = _launches(PLAIN, 0), _launches(TRAINING, 0), _launches(TRAINING, 1)
    return (
        _figure("a script without torch", plain, most_s=2.0),
        _figure("a script that imports torch, in a process that has waited with torch imported", warm, most_s=0.5),
        _figure("a script that imports torch, in a new process", cold, most_s=None),
        *_confinement(statistics.median(plain)),
    )


def _launches(script: str, warm_processes: int) -> list[float]:
    """Return the seconds from the desired state's arrival at the agent to the end of the job's first step."""
    with tempfile.TemporaryDirectory(prefix="launches-") as folder:
        server = AgentServer(Path(folder))
        server.config = replace(server.config, warm_processes=warm_processes)
        server.start()
        try:
            return [launch_s(server, script, is_warm=warm_processes > 0) for _ in range(REPEATS)]
        finally:
            server.end()


def _confinement(whole_s: float) -> Sequence[Figure]:
    """Measure what it adds to the start of a job that it is confined, by starts that take turns with such as are not.

    The start alone, since a whole launch waits for what else the machine does, by more than is looked for here.
    """
    if not abi():
        return [
            Figure(name=CONFINEMENT, target="", value="not measured", is_met=None, setting="", note="no Landlock here")
        ]
    with tempfile.TemporaryDirectory(prefix="launches-") as folder:
        told = job_paths(readable=(), writable=(), closed=())
        confinement = confinement_of(told, own=(folder,), read=(), uid=None)
        assert confinement is not None
        pairs_s = []
        for number in range(PAIRS):
            order = (confinement, None) if number % 2 else (None, confinement)
            took_s = {one is None: _start_s(one) for one in order}
            pairs_s.append(took_s[False] - took_s[True])
    added_s = statistics.median(pairs_s)
    return [
        Figure(
            name=CONFINEMENT,
            target=f"at most {CONFINEMENT_MOST_S * 1000:g}",
            value=f"{added_s * 1000:.1f}",
            is_met=added_s <= CONFINEMENT_MOST_S,
            setting=f"median of {PAIRS} pairs of starts",
        ),
        Figure(
            name=OF_LAUNCH,
            target=f"at most {OF_LAUNCH_MOST * 100:g}",
            value=f"{100 * added_s / whole_s:.1f}",
            is_met=added_s <= OF_LAUNCH_MOST * whole_s,
            setting=f"of {whole_s * 1000:.0f} ms",
        ),
    ]


def _start_s(confinement: Confinement | None) -> float:
    """Return the seconds from the fork of a process, confined or not, to the end of a script that imports ours."""
    began_s = time.monotonic()
    pid = os.fork()
    if not pid:
        try:
            if confinement:
                confine(confinement)
            os.execv(sys.executable, [sys.executable, "-c", "import agents.runtime"])
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("a script that imports the runtime failed")
    return time.monotonic() - began_s


def _figure(what: str, launches: Sequence[float], *, most_s: float | None) -> Figure:
    return Figure(
        name=f"from the decision to the end of the first step, {what}, s",
        target="" if most_s is None else f"at most {most_s:g}",
        value=f"{statistics.median(launches):.2f}",
        is_met=None if most_s is None else statistics.median(launches) <= most_s,
        setting=f"median of {len(launches)}, largest {max(launches):.2f}; from the desired state's arrival",
    )
