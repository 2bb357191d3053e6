"""The simulator beside reality: the same 40 jobs run by two agents, and replayed with what was measured on them."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from statistics import mean

from benchmarks.fidelity.calibration import Measured, calibrate
from benchmarks.fidelity.live import Field, product, run_jobs, seconds, settings_set
from benchmarks.fidelity.replay import lived, replayed
from benchmarks.fidelity.workload import planned_jobs
from benchmarks.reproduce.row import Row, against

TITLE = "Fidelity of the simulator"
SOURCE = (
    "Synergy's own simulator is 0.6 to 6 % off its cluster. Here the published column is what really happened: "
    "40 jobs that train five models on one CPU slot of each of two agents. Policies by service received are left out: "
    "with levels near the lengths of the jobs, a second of one job decides over minutes of another."
)
JOBS = 40
DETAILS = Path("benchmarks/results/fidelity.json")
# Policy and its options.
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "FIFO": ("fifo", {}),
    "priorities, with preemption": ("priority", {"preemptive": True}),
}


def rows() -> list[Row]:
    """Return the figures; what they were computed from is kept in ``DETAILS``."""
    found: list[Row] = []
    with product() as field:
        measured = calibrate(field)
        details: dict[str, object] = {"measured": asdict(measured)}
        for name in ARMS:
            figures, details[name] = _arm(field, name, measured)
            found += figures
    DETAILS.write_text(json.dumps(details, indent=1) + "\n", encoding="utf-8")
    return found


def _arm(field: Field, name: str, measured: Measured) -> tuple[list[Row], dict[str, object]]:
    policy, options = ARMS[name]
    settings_set(field.client, policy, options)
    start_s = mean(measured.start_s.values())
    planned = planned_jobs(JOBS, field.kinds, num_slots=field.num_slots, start_s=start_s)
    steps = [measured.steps(job.kind, job.training_s) for job in planned]
    load = os.getloadavg()[0]
    jobs = run_jobs(field, planned, steps)
    real = lived(jobs)
    ours = replayed(planned, steps, jobs, measured, policy, options, num_slots=field.num_slots)
    setting = f"{JOBS} jobs, two slots; load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    figures = [
        against(
            f"{name}: average completion time",
            round(real.average_jct_s, 1),
            ours.average_jct_s,
            "s",
            setting=setting,
            note=f"preempted {real.preemptions} times, {ours.preemptions} in the replay",
        ),
        against(f"{name}: makespan", round(real.makespan_s, 1), ours.makespan_s, "s", setting=setting),
    ]
    lived_s = [
        [round(seconds(attempt[key]), 2) for attempt in job["attempts"] for key in ("created_at", "ended_at")]
        for job in jobs
    ]
    details: dict[str, object] = {
        "jobs": [
            {
                "kind": job.kind,
                "steps": count,
                "submitted_at_s": round(seconds(row["submitted_at"]), 2),
                "attempts_s": at,
            }
            for job, count, row, at in zip(planned, steps, jobs, lived_s, strict=True)
        ],
        "really": asdict(real),
        "replayed": asdict(ours),
    }
    return figures, details
