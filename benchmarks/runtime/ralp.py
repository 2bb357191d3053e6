"""Parameter-heavy layers once instead of on every rank: bytes on the wire and step time, two ranks over gloo.

The ranks run in their own network namespace, so the counters of its loopback are the bytes on the wire.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.runtime.figure import Figure

TITLE = "Layers computed once (RALP)"
RANKS, STEPS, DROPPED = 2, 24, 4
REPEATS = 3


def figures() -> list[Figure]:
    """Measure an AlexNet-like network, which gains, and one without heavy layers, which is left alone."""
    heavy, light = _compare("heavy"), _compare("light")
    plain, split = heavy["plain"], heavy["split"]
    setting = f"{heavy['about']}, {RANKS} ranks, one core each, loopback, median of {REPEATS} runs of {STEPS} steps"
    worst = max(abs(a - b) for a, b in zip(plain["losses"], split["losses"], strict=True))
    return [
        Figure(
            name="bytes on the wire a step, plain and split",
            target="less",
            value=_pair(plain["wire_mb"], split["wire_mb"], "MB"),
            is_met=split["wire_mb"] < plain["wire_mb"],
            setting=setting,
            note="Counted by the loopback of a network of their own; data parallel is torch's DistributedDataParallel.",
        ),
        Figure(
            name="step time, plain and split",
            target="less",
            value=_pair(plain["step_ms"], split["step_ms"], "ms"),
            is_met=split["step_ms"] < plain["step_ms"],
            setting=setting,
            note="A loopback is faster than a network between servers, where fewer bytes count for more.",
        ),
        Figure(
            name="difference of the losses from data parallel",
            target="at most 1e-4",
            value=f"{worst:.1e}",
            is_met=worst <= 1e-4,
            setting=f"largest over {STEPS} steps, first loss {plain['losses'][0]:.3f}",
        ),
        Figure(
            name="cut that the plan chose from measured layers",
            target="the heavy layers moved",
            value=f"after layer {heavy['cut']} of {heavy['layers']}: {heavy['moved_frac']:.0%} of the weights moved",
            is_met=heavy["moved_frac"] > 0.5,
            setting="link of 1 Gbit/s in the plan",
        ),
        Figure(
            name="network without heavy layers",
            target="left alone",
            value="not cut" if light["cut"] == light["layers"] else f"cut after layer {light['cut']}",
            is_met=light["cut"] == light["layers"],
            setting=light["about"],
        ),
    ]


def _pair(plain: float, split: float, unit: str) -> str:
    return f"{plain:.3g} {unit} and {split:.3g} {unit} ({plain / split:.3g}x less)"


def _compare(kind: str) -> dict[str, Any]:
    """Return what both ways take; the plan's cut is that of the first run."""
    runs = [{way: _run(kind, way) for way in ("plain", "split")} for _ in range(REPEATS if kind == "heavy" else 1)]
    first = runs[0]["split"]
    found: dict[str, Any] = {name: first[name] for name in ("about", "cut", "layers", "moved_frac")}
    for way in ("plain", "split"):
        found[way] = {
            "wire_mb": median(run[way]["wire_mb"] for run in runs),
            "step_ms": median(run[way]["step_ms"] for run in runs),
            "losses": runs[0][way]["losses"],
        }
    return found


def _run(kind: str, way: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        inner = [
            sys.executable,
            "-m",
            "benchmarks.runtime.ralp_ranks",
            kind,
            way,
            str(RANKS),
            str(STEPS),
            str(DROPPED),
            str(path),
        ]
        command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inner]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
