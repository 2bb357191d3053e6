"""Writes the HTML report: charts of all arms, the table, styles and scripts in one file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from frontend.components.charts import Chart
from frontend.pages.simulation.comparison import jct_chart, rho_chart, strokes, use_chart, wait_chart
from frontend.pages.simulation.figures_table import figure_rows, heads
from frontend.pages.simulation.finding import finding, in_question
from frontend.pages.simulation.single import arm_charts
from scheduler.simulator.report.figures import figures_of
from scheduler.simulator.study.arms import short_names
from scheduler.simulator.study.study import Prepared, Result

_STATIC = Path(settings.BASE_DIR) / "frontend"
_STYLES = ("tokens.css", "frame.css", "components.css", "parts.css")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPart:
    """What is shown of one arm while it is chosen."""

    name: str
    charts: list[Chart]
    shown: bool

    @property
    def later(self) -> bool:
        """Return whether its charts are drawn only when it is chosen."""
        return not self.shown


def write_report(path: Path, prepared: Prepared, results: Sequence[Result], *, subtitle: str) -> None:
    """Write the report of results that share one workload."""
    path.write_text(report(prepared, results, subtitle=subtitle), encoding="utf-8")


def report(prepared: Prepared, results: Sequence[Result], *, subtitle: str) -> str:
    """Return the report as HTML."""
    names = short_names([result.arm for result in results])
    figures = [figures_of(result, prepared) for result in results]
    chosen = in_question([result.summary for result in results])
    drawn = strokes(len(results), chosen)
    context = {
        "title": finding([result.summary for result in results], names, chosen),
        "subtitle": subtitle,
        "hashes": [(name, result.summary["plan_hash"]) for name, result in zip(names, results, strict=True)],
        "warnings": prepared.trace.warnings,
        "heads": heads(),
        "rows": figure_rows(figures, names, drawn, chosen=chosen),
        "chosen": chosen,
        "charts": [
            jct_chart(figures, names, drawn),
            wait_chart(figures, names, drawn),
            rho_chart(figures, names, drawn),
            use_chart(figures, names),
        ],
        "arms": [
            ArmPart(name=name, charts=arm_charts(own, prefix=f"arm-{at}"), shown=at == chosen)
            for at, (name, own) in enumerate(zip(names, figures, strict=True))
        ],
        "style": _inlined(
            *(_STATIC / "components/static/components" / name for name in _STYLES),
            _STATIC / "pages/simulation/static/simulation/report.css",
        ),
        "script": _inlined(
            *sorted((_STATIC / "components/static/vendor").glob("plotly-*.min.js")),
            _STATIC / "components/static/components/charts.js",
            _STATIC / "pages/simulation/static/simulation/report.js",
        ),
    }
    return render_to_string("simulation/report.html", context)


def _inlined(*paths: Path) -> SafeString:
    """Return our own files for a style or script element; none of them can end it early."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    assert not any(end in text.lower() for end in ("</style", "</script"))
    return mark_safe(text)  # noqa: S308 (files of this repository, checked above)
