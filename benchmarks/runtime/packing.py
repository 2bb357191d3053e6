"""Packing on real processes: a pair that gains is kept, a pair that loses is taken apart."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from benchmarks.runtime.cluster import Cluster, cluster
from benchmarks.runtime.figure import Figure
from tests.support.e2e.stack import wait_for

TITLE = "Packing"
QUANTUM_S = 6.0
TRIAL_S = 2 * QUANTUM_S
STEP_S = 0.02
WITHIN_S = 240.0


def figures() -> Sequence[Figure]:
    """Try pairs on one slot of one core: both only wait, both need the same thing, both compute."""
    with cluster() as running:
        running.slots(1, cpu_ids=(0,))
        running.settings(
            policy="fifo",
            introspection=["slicing", "packing"],
            introspection_options={
                "slicing": {"quantum_s": QUANTUM_S},
                "packing": {"look_s": QUANTUM_S, "trial_s": TRIAL_S},
            },
        )
        gains = _pair(running, "waits", step_s=STEP_S)
        loses = _pair(running, "locks", step_s=STEP_S, lock="lock")
        computes = _pair(running, "computes", busy_s=STEP_S)
    return [
        Figure(
            name="a pair that gains, both of sleeping mini-batches: what becomes of it",
            target="kept",
            value=gains["verdict"],
            is_met=gains["verdict"] == "kept",
            setting=_told(gains),
        ),
        Figure(
            name="a pair that loses, mini-batches that need the same thing one at a time: what becomes of it",
            target="undone within two quanta",
            value=f"{loses['verdict']} after {loses['took_s'] / QUANTUM_S:.1f} quanta",
            is_met=loses["verdict"] == "undone" and loses["took_s"] <= 2.2 * QUANTUM_S,
            setting=_told(loses),
            note="measured for two quanta; the rest is the round that judges, which other load delays. The least gain "
            "to keep a pair is 1.05. What they need is a lock, held for the length of a mini-batch",
        ),
        Figure(
            name="a pair of computing mini-batches on one core: what becomes of it",
            target="",
            value=computes["verdict"],
            is_met=None,
            setting=_told(computes),
            note="on an idle core each would get half of it and the pair be taken apart; where others compute there, "
            "two processes get more of it than one, and the pair gains at their cost",
        ),
    ]


def _pair(running: Cluster, name: str, *, step_s: float = 0.0, busy_s: float = 0.0, lock: str = "") -> dict[str, Any]:
    """Return what the first job of a pair was told of its first trial, with the seconds until the verdict."""
    # A job that insists on cores or memory shares no slot that has just as much.
    ids = [
        running.stepping(f"{name}-{number}", step_s=step_s, busy_s=busy_s, lock=lock, resources={"gpus": 1})
        for number in (1, 2)
    ]

    def judged() -> dict[str, Any] | None:
        events = running.admin.get(f"/api/v1/jobs/{ids[0]}/events")["results"]
        trials = {event["reason"]: event for event in events if event["kind"] == "trial"}
        end = trials.get("pack_kept") or trials.get("pack_undone")
        begin = trials.get("pack_trying")
        return None if end is None or begin is None else {**end["data"], "took_s": _seconds(begin, end)}

    found = wait_for(f"a verdict on {name}", judged, within_s=WITHIN_S, every_s=0.5)
    running.cancel(*ids)
    return found


def _seconds(begin: dict[str, Any], end: dict[str, Any]) -> float:
    times = [datetime.fromisoformat(event["at"].replace("Z", "+00:00")) for event in (begin, end)]
    return (times[1] - times[0]).total_seconds()


def _told(found: dict[str, Any]) -> str:
    before, after = (
        " and ".join("unknown" if rate is None else f"{rate:.1f}" for rate in found[name])
        for name in ("rates_before", "rates_after")
    )
    return (
        f"one slot, turns of {QUANTUM_S:g} s, tried for {TRIAL_S:g} s; {before} mini-batches/s alone, {after} "
        f"together, gain {found['gain']:.2f}, verdict after {found['took_s']:.1f} s"
    )
