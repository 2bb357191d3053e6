"""The simulator compared with real runs: the same jobs run by two agents, and replayed."""

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.fidelity.calibration import Job, calibrate, steps_of
from benchmarks.fidelity.live import product, run_jobs, seconds, settings_set, wait_for_beat
from benchmarks.fidelity.replay import Outcome, lived, replayed
from benchmarks.fidelity.workload import STEP_S, Planned, planned_jobs
from benchmarks.reproduce.row import Row, against

TITLE = "Fidelity of the simulator"
SOURCE = (
    "Synergy's own simulator is 0.6 to 6 % off its cluster. Here the published column is what really happened: jobs on "
    "three CPU slots of each of two agents, whose steps take as long on a busy core, as beside a GPU. The replay knows "
    "when they were submitted, how many steps they train, and what was measured before: a start, a stop, and a second "
    "start. It is given no number of the run it is compared with. Jobs come twice as fast as six slots can train them: "
    "where jobs of a lower level take every gap in the line, a tenth of a second decides which of them does, in both. "
    "For the same reason no job ends within a second of the limit of a level."
)
JOBS, RUNS = 60, 3
DETAILS = Path("benchmarks/results/fidelity.json")
# Policy and its options. Half of the jobs end in the first level of ``las``.
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "FIFO": ("fifo", {}),
    "priorities, with preemption": ("priority", {"preemptive": True}),
    "least attained service": ("las", {"queue_limits_gpu_s": [12.0]}),
}


def rows() -> list[Row]:
    """Return the figures; what they were computed from is kept in ``DETAILS``."""
    pairs: dict[str, list[tuple[Outcome, Outcome]]] = {name: [] for name in ARMS}
    with product() as field:
        measured = calibrate(field)
        details: dict[str, object] = {"measured": asdict(measured)}
        for run in range(1, RUNS + 1):
            planned = planned_jobs(JOBS, field.kinds, num_slots=field.num_slots, start_s=measured.start_s, seed=run)
            steps = [steps_of(plan.training_s, STEP_S[plan.kind]) for plan in planned]
            for name, (policy, options) in ARMS.items():
                settings_set(field.client, policy, options)
                wait_for_beat(field.client)
                jobs = run_jobs(field, planned, steps)
                ours = replayed(planned, steps, jobs, measured, policy, options, num_slots=field.num_slots)
                pairs[name].append((lived(jobs), ours))
                details[f"{name}, run {run}"] = {
                    "jobs": [_lived(*one) for one in zip(planned, steps, jobs, strict=True)],
                    "really": asdict(lived(jobs)),
                    "replayed": asdict(ours),
                }
    DETAILS.write_text(json.dumps(details, indent=1) + "\n", encoding="utf-8")
    return [row for name, of_arm in pairs.items() for row in _figures(name, of_arm)]


def _figures(name: str, pairs: list[tuple[Outcome, Outcome]]) -> list[Row]:
    """Return a row for each figure, of the run in which the replay is furthest off."""
    found = []
    for figure, key, unit in (
        ("mean completion time", "average_jct_s", "s"),
        ("makespan", "makespan_s", "s"),
        ("preemptions", "preemptions", ""),
    ):
        values = [(float(getattr(real, key)), float(getattr(ours, key))) for real, ours in pairs]
        if not any(real for real, _ in values):
            continue
        ratios = [ours / real for real, ours in values]
        real, ours = max(values, key=lambda one: abs(one[1] / one[0] - 1))
        found.append(
            against(
                f"{name}: {figure}",
                round(real, 1),
                ours,
                unit,
                setting=f"{JOBS} jobs, six slots; the furthest off of {len(values)} runs",
                note=f"all: {', '.join(f'{ratio:.3f}' for ratio in ratios)}",
            )
        )
    return found


def _lived(plan: Planned, steps: int, job: Job) -> dict[str, object]:
    """Return what became of one job, times in POSIX seconds: begin and end of each attempt after each other."""
    times_s = [seconds(attempt[key]) for attempt in job["attempts"] for key in ("created_at", "ended_at")]
    return {
        "kind": plan.kind,
        "priority": plan.priority,
        "steps": steps,
        "submitted_at_s": round(seconds(job["submitted_at"]), 2),
        "attempts_s": [round(at_s, 2) for at_s in times_s],
    }
