"""What-if scenarios and uploaded traces as rows: progress, runs, and each metric with its winner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Count, QuerySet

from scheduler.models import Scenario, ScenarioRun, TraceFile
from scheduler.models.scenario import AS_IT_WAS, SCENARIO_OPEN, RunState
from scheduler.selectors.rows import (
    EarlyRow,
    FidelityRow,
    Json,
    MetricCell,
    MetricRow,
    ScenarioDetail,
    ScenarioProgress,
    ScenarioRow,
    ScenarioRunDetail,
    ScenarioRunRow,
    TraceFileRow,
)
from scheduler.selectors.times import iso, seconds_between
from scheduler.selectors.visibility import Actor, is_admin, may_ask_what_if
from scheduler.simulator.report.summary_text import LEAST_SEEDS, METRICS, Metric, mean_of
from scheduler.simulator.study.variants import variant_from, variant_names

EarlyJson = Mapping[str, float]  # EarlyFigure as it is stored

# A worker says every second that it works on a scenario.
SILENT_AFTER_S = 15.0
# Where a replay of what happened is further off than this, answers from the same window are not to be trusted.
MOST_ERROR_FRAC = 0.1
MOST_TIMES_OFF, LEAST_WAIT_S = 2.0, 60.0  # of mean waits; shorter ones are as good as none


def trace_files_visible(user: Actor) -> QuerySet[TraceFile]:
    """Return the uploaded traces that ``user`` may use, newest first, each with its number of scenarios."""
    files = TraceFile.objects.select_related("owner").annotate(uses=Count("scenarios")).order_by("-id")
    if is_admin(user):
        return files
    return files.filter(owner_id=user.pk) if may_ask_what_if(user) else files.none()


def trace_file_path(file: TraceFile) -> Path:
    """Return where the bytes of an uploaded trace are."""
    return Path(settings.TRACES_DIR) / f"{file.pk}.trace"


def trace_file_row(file: TraceFile) -> TraceFileRow:
    """Return one uploaded trace as plain JSON data."""
    return {
        "id": file.pk,
        "name": file.name,
        "owner": file.owner.username,
        "bytes": file.num_bytes,
        "created_at": iso(file.created_at),
        "scenarios": getattr(file, "uses", 0),  # a file that was only just kept has none
    }


def scenario_row(scenario: Scenario) -> ScenarioRow:
    """Return one line of the list as plain JSON data."""
    return {
        "id": scenario.pk,
        "name": scenario.name,
        "owner": scenario.owner.username,
        "state": scenario.state,
        "error": scenario.error,
        "created_at": iso(scenario.created_at),
        "ended_at": iso(scenario.ended_at),
        "start": scenario.start,
        "variants": [
            {"name": name, **variant} for name, variant in zip(names_of(scenario), scenario.variants, strict=True)
        ],
        "seeds": scenario.seeds,
    }


def names_of(scenario: Scenario) -> list[str]:
    """Return the names of its variants."""
    return variant_names([variant_from(variant) for variant in scenario.variants])


def scenario_progress(scenario: Scenario, at: datetime) -> ScenarioProgress:
    """Return how far it is: each run, and all of them as a share from 0 to 1."""
    return scenarios_progress([scenario], at)[scenario.pk]


def scenarios_progress(scenarios: Sequence[Scenario], at: datetime) -> dict[str, ScenarioProgress]:
    """Return ``scenario_progress`` of several by one query, by their ids."""
    runs: dict[str, list[ScenarioRun]] = {scenario.pk: [] for scenario in scenarios}
    for run in ScenarioRun.objects.filter(scenario__in=runs).defer("figures", "summary").order_by("seed", "variant"):
        runs[run.scenario_id].append(run)
    return {scenario.pk: _progress(scenario, runs[scenario.pk], at) for scenario in scenarios}


def _progress(scenario: Scenario, runs: Sequence[ScenarioRun], at: datetime) -> ScenarioProgress:
    shares = [_share(run) for run in runs]
    beats = [run.heartbeat_at for run in runs if run.heartbeat_at] + [scenario.heartbeat_at or scenario.created_at]
    is_open = scenario.state in SCENARIO_OPEN
    of_baseline = {run.seed: run.early for run in runs if run.variant == 0}
    return {
        "id": scenario.pk,
        "state": scenario.state,
        "error": scenario.error,
        "frac": sum(shares) / len(shares) if shares else 0.0,
        "runs_done": sum(run.state == RunState.COMPLETED for run in runs),
        "num_runs": len(runs),
        "silent": is_open and seconds_between(max(beats), at) > SILENT_AFTER_S,
        "elapsed_s": seconds_between(scenario.created_at, scenario.ended_at or at),
        "runs": [_run_row(run, baseline=of_baseline.get(run.seed) if run.variant else None) for run in runs],
    }


def _share(run: ScenarioRun) -> float:
    if run.state == RunState.COMPLETED:
        return 1.0
    return run.done_jobs / run.num_jobs if run.num_jobs else 0.0


def _run_row(run: ScenarioRun, *, baseline: Sequence[EarlyJson] | None = None) -> ScenarioRunRow:
    return {
        "variant": run.variant,
        "seed": run.seed,
        "state": run.state,
        "error": run.error,
        "frac": _share(run),
        "done_jobs": run.done_jobs,
        "num_jobs": run.num_jobs,
        "attempts": run.attempts,
        "cpu_s": sum(run.costs.values()),
        "early": _early_row(run.early, baseline or ()),
    }


def _early_row(early: Sequence[EarlyJson], baseline: Sequence[EarlyJson]) -> EarlyRow | None:
    """Return the latest figure of a run; with a baseline, that of the latest moment that both have passed."""
    if not early:
        return None
    at_s = {one["passed_s"]: one["wait_s"] for one in baseline}
    shown = next((one for one in reversed(early) if one["passed_s"] in at_s), early[-1])
    return {
        "passed_s": shown["passed_s"],
        "come": int(shown["come"]),
        "ended": int(shown["ended"]),
        "wait_s": shown["wait_s"],
        "baseline_wait_s": at_s.get(shown["passed_s"]),
    }


def scenario_detail(scenario: Scenario, at: datetime) -> ScenarioDetail:
    """Return one scenario with its progress and, for each metric, mean, uncertainty and winner."""
    return {
        **scenario_row(scenario),
        "about": scenario.about.get("text", ""),
        "warnings": scenario.about.get("warnings", []),
        "progress": scenario_progress(scenario, at),
        "metrics": scenario_metrics(scenario),
        "fidelity": scenario.about.get("fidelity"),
        "doubts": doubts(scenario.about.get("fidelity")),
    }


def doubts(fidelity: Sequence[FidelityRow] | None) -> list[str]:
    """Return the keys of the figures whose replay is so far off that answers from the window are not to be trusted."""
    return [row["key"] for row in fidelity or () if _is_far_off(row)]


def _is_far_off(row: FidelityRow) -> bool:
    if row["key"] == "avg_queueing_s":
        low_s, high_s = sorted((row["happened"], row["replayed"]))
        return high_s >= LEAST_WAIT_S and low_s * MOST_TIMES_OFF < high_s
    return row["error_frac"] is not None and abs(row["error_frac"]) > MOST_ERROR_FRAC


def run_detail(scenario: Scenario, *, variant: int, seed: int) -> ScenarioRunDetail | None:
    """Return one run with its figures and curves; None when there is none."""
    run = ScenarioRun.objects.filter(scenario=scenario, variant=min(variant, 2**15), seed=min(seed, 2**62)).first()
    if run is None:
        return None
    return {**_run_row(run), "summary": run.summary, "figures": run.figures, "costs": run.costs}


def scenario_metrics(scenario: Scenario) -> list[MetricRow]:
    """Return for each metric a mean and the half width of its 95 % interval over seeds, by variant, and the best.

    ``sure`` says whether the paired difference over seeds is beyond chance; null with one seed.
    """
    summaries = _summaries(scenario)
    return [_metric(metric, len(scenario.variants), summaries) for metric in METRICS]


def _summaries(scenario: Scenario) -> dict[int, dict[int, Json]]:
    """Return the summaries of the runs that have ended, by variant and seed."""
    summaries: dict[int, dict[int, Json]] = {}
    runs = ScenarioRun.objects.filter(scenario=scenario, state=RunState.COMPLETED).exclude(variant=AS_IT_WAS)
    for variant, seed, summary in runs.values_list("variant", "seed", "summary"):
        summaries.setdefault(variant, {})[seed] = summary or {}
    return summaries


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedChange:
    """How a variant differs from the first in one metric, seed by seed: the same seed is the same workload.

    Attributes:
        fracs: The difference of each seed as a part of the mean of the first variant.
        half_width: Of the 95 % interval of their mean; None below ``LEAST_SEEDS``.
    """

    fracs: tuple[float, ...]
    half_width: float | None

    @property
    def mean(self) -> float:
        """Return the change of the mean."""
        return sum(self.fracs) / len(self.fracs)

    @property
    def may_be_chance(self) -> bool:
        """Return whether nothing is known against chance: the interval holds 0, or there is none."""
        return self.half_width is None or abs(self.mean) <= self.half_width


Changes = Mapping[str, Sequence[PairedChange | None]]  # by metric, then by variant


def scenario_changes(scenario: Scenario) -> Changes:
    """Return for each metric how the variants differ from the first; None where a run or the metric is missing."""
    summaries = _summaries(scenario)
    return {
        metric.key: [
            _paired(metric, summaries.get(at, {}), summaries.get(0, {})) for at in range(len(scenario.variants))
        ]
        for metric in METRICS
    }


def _paired(metric: Metric, own: Mapping[int, Json], base: Mapping[int, Json]) -> PairedChange | None:
    key = metric.key
    seeds = [seed for seed in sorted(own) if seed in base and None not in (own[seed].get(key), base[seed].get(key))]
    known = all(metric.is_of(one[seed]["finished"]) for one in (own, base) for seed in seeds)
    base_mean = sum(float(base[seed][key]) for seed in seeds) / len(seeds) if seeds else 0.0
    if not (known and base_mean > 0):
        return None
    fracs = [(float(own[seed][key]) - float(base[seed][key])) / base_mean for seed in seeds]
    half_width = mean_of(fracs).half_width if len(seeds) >= LEAST_SEEDS else None
    return PairedChange(fracs=tuple(fracs), half_width=half_width)


def _metric(metric: Metric, variants: int, summaries: Mapping[int, Mapping[int, Json]]) -> MetricRow:
    key, best = metric.key, metric.best
    cells: list[MetricCell] = []
    for variant in range(variants):
        ended = [summary for _, summary in sorted(summaries.get(variant, {}).items()) if summary.get(key) is not None]
        values = [float(summary[key]) for summary in ended]
        is_known = bool(ended) and all(metric.is_of(summary["finished"]) for summary in ended)
        found = mean_of(values) if is_known else None
        cells.append(
            {
                "mean": None if found is None else found.mean,
                "half_width": found.half_width if found and len(values) >= LEAST_SEEDS else None,
                "draws": values if found and len(values) == 2 else [],
                "seeds": len(values),
            }
        )
    means = {variant: cell["mean"] for variant, cell in enumerate(cells) if cell["mean"] is not None}
    winner = None
    if best and len(means) == variants and len(set(means.values())) > 1:
        winner = (min if best == "min" else max)(means, key=lambda variant: means[variant])
    return {
        "key": key,
        "kind": metric.kind,
        "best": best,
        "variants": cells,
        "winner": winner,
        "sure": None if winner is None else _sure(key, winner, means, summaries),
    }


def _sure(
    key: str, winner: int, means: Mapping[int, float], summaries: Mapping[int, Mapping[int, Json]]
) -> bool | None:
    """Return whether the winner beats every other variant beyond chance, seed by seed; None with one seed."""
    common = set.intersection(*(set(found) for found in summaries.values()))
    if len(common) < 2:
        return None
    own = summaries[winner]
    for other in means:
        if other == winner:
            continue
        # The same seed is the same workload: differences tell more than the two means.
        found = mean_of([own[seed][key] - summaries[other][seed][key] for seed in common])
        if abs(found.mean) <= found.half_width:
            return False
    return True
