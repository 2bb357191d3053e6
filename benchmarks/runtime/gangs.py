"""Gangs and elastic jobs as plain processes on this machine: same training, pauses, restarts, bursts.

Also writes ``fixtures/costs/reconfiguration.json``, from which replays take what a change of a share costs.
"""

import json
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from agents.runtime.gang import DEBOUNCE_S
from benchmarks.runtime.figure import Figure
from tests.support.agents.gang_ranks import Gang, Training

TITLE = "Gangs and elastic jobs"
COSTS = Path("fixtures/costs/reconfiguration.json")
STEP_S = 0.02
STEPS = 100_000
SAME_STEPS = 400
REPEATS = 5
RESTARTS = 3
# Long enough for a rank to be ready on a busy machine; nothing tells from outside when it waits.
READY_S = 10.0


def figures() -> Sequence[Figure]:
    """Measure all of it."""
    difference = _difference()
    switches = _switches()
    restarts = [_restart_s() for _ in range(RESTARTS)]
    starts = [_growth() for _ in range(RESTARTS)]
    num_switches, final, home_s = _burst()
    _write_costs(switches, init_s=statistics.median(start_s for start_s, _ in starts), home_s=home_s)
    return (
        _same(difference),
        *_pauses(switches, restarts),
        _trained(starts),
        *_burst_figures(num_switches, final, home_s),
    )


@contextmanager
def _gang(training: Training, *members: str, is_cold: bool = False, resume: Path | None = None) -> Iterator[Gang]:
    """Start a gang and leave nothing of it behind."""
    with tempfile.TemporaryDirectory(prefix="gang-") as folder:
        gang = Gang(folder=Path(folder), training=training, is_cold=is_cold)
        gang.write(*members)
        gang.start(*members, resume=resume)
        try:
            yield gang
        finally:
            gang.end()


def _difference() -> float:
    """Return the largest relative difference of a loss of two ranks from one that takes the whole batch."""
    losses = []
    for members in (["a"], ["a", "b"]):
        with _gang(Training(steps=SAME_STEPS), *members) as gang:
            gang.codes()
            losses.append(gang.losses("a"))
    return float(max(abs(two - one) / one for one, two in zip(*losses, strict=True)))


def _switches() -> dict[tuple[int, int], list[float]]:
    """Return how long training stood still, by ranks before and after, for ranks that are ready."""
    found: dict[tuple[int, int], list[float]] = {}
    with _gang(Training(steps=STEPS, step_s=STEP_S), "a") as gang:
        present, number = ["a"], 0
        gang.wait("steps", lambda: len(gang.steps("a")) > 5)
        for size in [2, 1] * REPEATS + [2, 4, 2, 4, 2, 4, 1]:
            before = len(present)
            new = [f"r{number + place}" for place in range(max(0, size - before))]
            number += len(new)
            present = (present + new)[:size]
            gang.share(*present)
            gang.start(*new)
            told = gang.version
            gang.wait("the switch", lambda told=told: gang.job("a").reports("resized")[-1]["version"] == told)  # type: ignore[misc]
            steps = len(gang.steps("a"))
            gang.wait("steps", lambda steps=steps: len(gang.steps("a")) > steps + 5)  # type: ignore[misc]
            found.setdefault((before, size), []).append(_longest_gap_s(gang, before, size) - STEP_S)
    return found


def _longest_gap_s(gang: Gang, before: int, after: int) -> float:
    """Return the time between the last step of one size and the first of the next, at the newest such switch."""
    gaps = [
        later["at_s"] - step["at_s"]
        for step, later in pairwise(gang.steps("a"))
        if (step["ranks"], later["ranks"]) == (before, after)
    ]
    return float(gaps[-1])


def _restart_s() -> float:
    """Return how long training stands still when one rank is stopped and two are started anew from its checkpoint."""
    training = Training(steps=STEPS, step_s=STEP_S)
    with _gang(training, "a", is_cold=True) as gang:
        gang.wait("steps", lambda: len(gang.steps("a")) > 5)
        gang.job("a").ask(1, "stop")
        gang.ranks["a"].join(60)
        last_s = gang.steps("a")[-1]["at_s"]
        with _gang(training, "a", "b", is_cold=True, resume=gang.job("a").checkpoints()[-1]) as again:
            again.wait("a step", lambda: again.steps("a"))
            return float(again.steps("a")[0]["at_s"]) - float(last_s)


def _growth() -> tuple[float, int]:
    """Return how long a cold rank takes until it trains, seconds, and how many steps the other did meanwhile."""
    with _gang(Training(steps=STEPS, step_s=STEP_S), "a", is_cold=True) as gang:
        gang.wait("steps", lambda: len(gang.steps("a")) > 5)
        steps, began_s = len(gang.steps("a")), time.monotonic()
        gang.share("a", "b")
        gang.start("b")
        gang.wait("two ranks", lambda: gang.steps("b"))
        alone = [step for step in gang.steps("a")[steps:] if step["ranks"] == 1]
        return float(gang.steps("b")[0]["at_s"]) - began_s, len(alone)


def _burst() -> tuple[int, int, float]:
    """Return switches and final ranks after ten shares within a second, and how long a dismissed rank takes to go."""
    with _gang(Training(steps=STEPS, step_s=STEP_S, debounce_s=DEBOUNCE_S), "a") as gang:
        gang.wait("steps", lambda: len(gang.steps("a")) > 5)
        for number in range(10):
            others = [f"r{number}"] if number % 2 == 0 or number == 9 else []
            gang.share("a", *others)
            gang.start(*others)
            time.sleep(0.1)
        gang.wait("the last share", lambda: gang.job("a").reports("resized")[-1]["version"] == gang.version)
        reports = gang.job("a").reports("resized")
    with _gang(Training(steps=STEPS, step_s=STEP_S, debounce_s=60.0), "a") as gang:
        gang.wait("steps", lambda: len(gang.steps("a")) > 5)
        gang.share("a", "b")
        gang.start("b")
        time.sleep(READY_S)
        began_s = time.monotonic()
        gang.share("a")
        gang.ranks["b"].join(60)
        home_s = time.monotonic() - began_s
    return len({report["ranks"] for report in reports}) - 1, int(reports[-1]["ranks"]), home_s


def _write_costs(switches: dict[tuple[int, int], list[float]], *, init_s: float, home_s: float) -> None:
    """Write what was measured in the shape of the cost model: a constant and a slope over doublings of the ranks."""
    points = [(math.log2(after) + 1, pause_s) for (_, after), pauses in switches.items() for pause_s in pauses]
    slope = max(0.0, statistics.linear_regression(*zip(*points, strict=True)).slope)
    constant = max(0.0, statistics.median(pause_s - slope * doublings for doublings, pause_s in points))
    COSTS.parent.mkdir(exist_ok=True)
    costs = {
        "origin": "python -m benchmarks.runtime gangs",
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, ranks on CPU slots of one machine, gloo",
        "init_s": round(init_s, 3),
        "switch_s": round(constant, 3),
        "switch_per_doubling_s": round(slope, 3),
        "cancel_s": round(home_s, 3),
        "debounce_s": DEBOUNCE_S,
    }
    COSTS.write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")


def _same(difference: float) -> Figure:
    return Figure(
        name="largest difference of a loss: two ranks, and one with the doubled batch",
        target="order of additions (1e-4)",
        value=f"{difference:.1e} of the loss",
        is_met=difference <= 1e-4,
        setting=f"{SAME_STEPS} steps of a small network, batches of 8, AdamW",
    )


def _pauses(switches: dict[tuple[int, int], list[float]], restarts: Sequence[float]) -> list[Figure]:
    found = []
    for (before, after), pauses in sorted(switches.items()):
        found.append(
            Figure(
                name=f"pause of a switch, {before} to {after} ranks, s",
                target="at most 1",
                value=f"{statistics.median(pauses):.3f}",
                is_met=max(pauses) <= 1.0,
                setting=f"median of {len(pauses)}, largest {max(pauses):.3f}; between the last step of one size and "
                f"the first of the next, less the {STEP_S:g} s that a step lasts",
            )
        )
    pause_s = statistics.median(restarts)
    naive = "stopped at a checkpoint, two ranks started anew, torch imported by each"
    found.append(
        Figure(
            name="pause of a naive restart, 1 to 2 ranks, s",
            target="",
            value=f"{pause_s:.2f}",
            is_met=None,
            setting=f"median of {len(restarts)}, largest {max(restarts):.2f}; {naive}",
            note=f"{pause_s / statistics.median(switches[1, 2]):.0f} times the pause of the switch",
        )
    )
    return found


def _trained(starts: Sequence[tuple[float, int]]) -> Figure:
    return Figure(
        name="from a larger share to the first step of the new rank, s",
        target="",
        value=f"{statistics.median(start_s for start_s, _ in starts):.2f}",
        is_met=None,
        setting=f"median of {len(starts)}; the new process imports torch",
        note=f"the other rank trained on meanwhile: {min(steps for _, steps in starts)} steps and more",
    )


def _burst_figures(num_switches: int, final: int, home_s: float) -> list[Figure]:
    return [
        Figure(
            name="switches after a burst of ten shares",
            target="at most 1, to the last share",
            value=f"{num_switches}, to {final} ranks",
            is_met=num_switches <= 1 and final == 2,
            setting=f"a share every 0.1 s, the last one of 2 ranks; a share must last {DEBOUNCE_S:g} s",
        ),
        Figure(
            name="from a cancelled share to the end of its waiting rank, s",
            target="at most 0.5",
            value=f"{home_s:.2f}",
            is_met=home_s <= 0.5,
            setting="once; the rank was ready and waited",
            note="one that still imports goes when it is ready: it is told, not killed",
        ),
    ]
