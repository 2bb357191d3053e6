"""Time from a decision to the first step of a job on a real agent: without torch, with torch, and prestarted."""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agents.host.landlock import abi
from benchmarks.runtime.figure import Figure
from tests.support.agents.launches import PLAIN, TRAINING, launch_s
from tests.support.agents.server import AgentServer

TITLE = "Launches"
REPEATS = 5
PAIRS = 15
CONFINEMENT_MOST_FRAC = 0.03


def figures() -> Sequence[Figure]:
    """Measure all of it."""
    plain, cold, warm = _launches(PLAIN, 0), _launches(TRAINING, 0), _launches(TRAINING, 1)
    return (
        _figure("a script without torch", plain, most_s=2.0),
        _figure("a script that imports torch, in a process that has waited with torch imported", warm, most_s=0.5),
        _figure("a script that imports torch, in a new process", cold, most_s=None),
        _confinement(),
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


def _confinement() -> Figure:
    """Measure what it adds that a job is confined, by launches that take turns with such as are not."""
    with tempfile.TemporaryDirectory(prefix="launches-") as folder:
        servers = [AgentServer(Path(folder) / name) for name in ("confined", "open")]
        try:
            for server, confines in zip(servers, (True, False), strict=True):
                server.config = replace(server.config, confines=confines, warm_processes=0)
                server.start()
                launch_s(server, PLAIN, is_warm=False)  # compiles
            pairs = [[launch_s(server, PLAIN, is_warm=False) for server in servers] for _ in range(PAIRS)]
        finally:
            for server in servers:
                server.end()
    added_s = statistics.median(confined - free for confined, free in pairs)
    free_s = statistics.median(free for _, free in pairs)
    return Figure(
        name="what the confinement of a job adds to a launch without torch, %",
        target=f"at most {CONFINEMENT_MOST_FRAC:.0%}".rstrip("%"),
        value=f"{100 * added_s / free_s:.1f}" if abi() else "not measured",
        is_met=added_s <= CONFINEMENT_MOST_FRAC * free_s if abi() else None,
        setting=f"median of {PAIRS} differences in turns, {added_s * 1000:.1f} ms of {free_s * 1000:.0f}",
        note="" if abi() else "this kernel has no Landlock",
    )


def _figure(what: str, launches: Sequence[float], *, most_s: float | None) -> Figure:
    return Figure(
        name=f"from the decision to the end of the first step, {what}, s",
        target="" if most_s is None else f"at most {most_s:g}",
        value=f"{statistics.median(launches):.2f}",
        is_met=None if most_s is None else statistics.median(launches) <= most_s,
        setting=f"median of {len(launches)}, largest {max(launches):.2f}; from the desired state's arrival",
    )
