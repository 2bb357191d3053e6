"""A finished scenario as its page shows it: the table of metrics, the charts, the title."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frontend.components.charts import Chart, chart_said
from frontend.components.devices import DeviceWord
from frontend.components.formats import NBSP, digits_of, duration, number, percent
from frontend.pages.simulation.comparison import TOO_FEW, Stroke, jct_chart, rho_chart, strokes, use_chart, wait_chart
from frontend.pages.simulation.figures_table import TITLES, change_said
from frontend.pages.simulation.queue_waits import queue_waits_chart
from frontend.pages.simulation.single import arm_charts
from frontend.pages.whatif.title import best_variant, title_of
from scheduler.models import Scenario, ScenarioRun
from scheduler.models.scenario import RunState
from scheduler.selectors.rows import MetricRow
from scheduler.selectors.whatif import Changes, PairedChange
from scheduler.simulator.report.figures import Figures, figures_from_json

# What the charts of all variants show, for titles that find nothing.
DRAWN = {
    "jct": "Completion times",
    "waits": "Waits by GPUs asked for",
    "rho": "Finish-time fairness",
    "use": "Use of the GPU time",
    "queue-waits": "Waits by queue",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantCell:
    """One metric of one variant. ``tone`` is ``ok``, ``bad`` or empty."""

    title: str
    text: str
    spread: str
    change: str
    tone: str
    wins: bool
    sure: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow:
    """One variant."""

    name: str
    cells: list[VariantCell]
    unfinished: int
    stroke: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantPart:
    """What is shown of one variant while it is chosen."""

    name: str
    charts: list[Chart]
    shown: bool

    @property
    def later(self) -> bool:
        """Return whether its charts are drawn only when it is chosen."""
        return not self.shown


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedScenario:
    """Everything a page needs of a finished scenario."""

    title: str
    heads: list[str]
    rows: list[VariantRow]
    chosen: int
    charts: list[Chart]
    parts: list[VariantPart]
    hashes: list[tuple[str, str]]
    seed: int


def figures_read(scenario: Scenario, names: Sequence[str]) -> dict[int, Figures]:
    """Return the figures of the variants whose run with the first seed is done; none before that of the baseline."""
    runs = ScenarioRun.objects.filter(scenario=scenario, seed=scenario.seeds[0], state=RunState.COMPLETED)
    runs = runs.filter(variant__lt=len(names))
    found = {variant: figures for variant, figures in runs.values_list("variant", "figures") if figures}
    return {variant: figures_from_json(found[variant]) for variant in sorted(found)} if 0 in found else {}


def shown_so_far(
    scenario: Scenario,
    figures: Mapping[int, Figures],
    metrics: Sequence[MetricRow],
    names: Sequence[str],
    *,
    changes: Changes,
    device: DeviceWord,
) -> FinishedScenario | None:
    """Return what is known already of a scenario that goes on or was cancelled; None while there is nothing."""
    done = sorted(figures)
    if not done:
        return None
    known: list[MetricRow] = [
        {
            **metric,
            "variants": [metric["variants"][at] for at in done],
            "winner": done.index(metric["winner"]) if metric["winner"] in done else None,
        }
        for metric in metrics
    ]
    known_changes = {key: [of_variants[at] for at in done] for key, of_variants in changes.items()}
    found, called = [figures[at] for at in done], [names[at] for at in done]
    return shown(scenario, found, known, called, changes=known_changes, device=device)


def shown(
    scenario: Scenario,
    figures: Sequence[Figures],
    metrics: Sequence[MetricRow],
    names: Sequence[str],
    *,
    changes: Changes,
    device: DeviceWord,
) -> FinishedScenario:
    """Return the page of a scenario whose runs have ended.

    Args:
        scenario: The scenario.
        figures: Of its variants, with the first seed.
        metrics: ``selectors.whatif.scenario_metrics``.
        names: Of its variants.
        changes: ``selectors.whatif.scenario_changes``.
        device: What the devices of its servers are called.
    """
    summaries = [one.summary for one in figures]
    by_key = {metric["key"]: metric for metric in metrics}
    chosen = best_variant(by_key["avg_jct_s"])
    drawn = strokes(len(figures), chosen)
    by_queue = queue_waits_chart(figures, names, drawn)
    charts = [
        jct_chart(figures, names, drawn),
        wait_chart(figures, names, drawn),
        rho_chart(figures, names, drawn),
        use_chart(figures, names),
        *([by_queue] if by_queue else []),
    ]
    return FinishedScenario(
        title=device.said(title_of(by_key["avg_jct_s"], figures, names, chosen, changes=changes), names=names),
        heads=list(TITLES.values()),
        rows=_rows(by_key, names, drawn, chosen, changes),
        chosen=chosen,
        charts=[chart_said(_of_seed(one, len(scenario.seeds)), device, names=names) for one in charts],
        parts=[
            VariantPart(
                name=name,
                charts=[chart_said(chart, device, names=names) for chart in arm_charts(one, prefix=f"variant-{at}")],
                shown=at == chosen,
            )
            for at, (name, one) in enumerate(zip(names, figures, strict=True))
        ],
        hashes=[(name, one["plan_hash"]) for name, one in zip(names, summaries, strict=True)],
        seed=scenario.seeds[0],
    )


def _of_seed(chart: Chart, seeds: int) -> Chart:
    """Return a chart of the first seed; beside a table over several its title finds nothing that may contradict it."""
    return chart if seeds == 1 else replace(chart, title=f"{DRAWN[chart.id]}, first of {seeds} seeds")


def _rows(
    metrics: dict[str, MetricRow], names: Sequence[str], drawn: Sequence[Stroke], chosen: int, changes: Changes
) -> list[VariantRow]:
    rows = []
    for at, name in enumerate(names):
        left = metrics["unfinished"]["variants"][at]
        cells = [_cell(metrics[key], title, at, changes[key][at]) for key, title in TITLES.items()]
        rows.append(
            VariantRow(
                name=name,
                cells=cells,
                unfinished=round(left["mean"] or 0),
                stroke=drawn[at].kind,
                chosen=0 < at == chosen,
            )
        )
    return rows


def _cell(metric: MetricRow, title: str, at: int, paired: PairedChange | None) -> VariantCell:
    own, own_mean, base_mean = metric["variants"][at], metric["variants"][at]["mean"], metric["variants"][0]["mean"]
    wins = metric["winner"] == at
    if own_mean is None:
        missing = TOO_FEW if own["seeds"] else "not made"
        return VariantCell(title=title, text=missing, spread="", change="", tone="", wins=False, sure=None)
    change, tone = "", ""
    if at and base_mean is not None:
        change, tone = change_said(own_mean, base_mean, kind=metric["kind"], best=metric["best"])
    sure = metric["sure"] if wins else None
    # One precision down a column: that of its largest figure.
    digits = digits_of(max(one["mean"] for one in metric["variants"] if one["mean"] is not None))
    half_width = own["half_width"]
    spread = f"\u00b1{NBSP}{_text(metric, half_width, digits)}" if half_width else ""
    if len(set(own["draws"])) > 1:
        spread = " and ".join(_text(metric, value, digits) for value in own["draws"])
    return VariantCell(
        title=title,
        text=_text(metric, own_mean, digits),
        spread=spread,
        change=change,
        tone=tone if _is_clear(paired) else "",  # what may be chance is neither good news nor bad
        wins=wins,
        sure=sure,
    )


def _is_clear(paired: PairedChange | None) -> bool:
    """Return whether a change is beyond chance; one seed knows nothing of chance, and the page says so."""
    return paired is None or len(paired.fracs) == 1 or not paired.may_be_chance


def _text(metric: MetricRow, value: float, digits: int) -> str:
    if metric["kind"] == "time":
        return duration(value)
    if metric["kind"] == "share":
        return percent(value, 1)
    return number(value) if metric["kind"] == "count" else number(value, digits)
