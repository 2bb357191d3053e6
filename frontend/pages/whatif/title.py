"""The title of an answer: what the best variant changes against the first over all seeds, and its drawback."""

from collections.abc import Sequence

from frontend.components.formats import duration, percent, significant
from scheduler.core.operations.metrics import has_percentile
from scheduler.selectors.rows import MetricRow
from scheduler.simulator.report.figures import Figures

# The least ratio at which a drawback is worth telling.
_WORTH_TELLING = 1.2
_FEW_JOBS = 10
_LEAST_WAIT_S = 60.0


def best_variant(mean_jct: MetricRow) -> int:
    """Return the variant that the answer is about: the one with the shortest mean beside the baseline."""
    means = {at: cell["mean"] for at, cell in enumerate(mean_jct["variants"]) if at and cell["mean"] is not None}
    return min(means, key=lambda at: (means[at], at), default=0)


def title_of(mean_jct: MetricRow, figures: Sequence[Figures], names: Sequence[str], chosen: int) -> str:
    """Return the title, one sentence with its number."""
    base, own = (mean_jct["variants"][at]["mean"] or 0.0 for at in (0, chosen))
    compared = {0: base, chosen: own}
    without_end = [names[at] for at, mean in compared.items() if not mean and not figures[at].jct.value.size]
    if without_end:
        return f"No job ends under {' or '.join(without_end)}"
    change = own / base - 1 if base else 0.0
    if chosen == 0 or abs(change) < 0.005:
        ends = f"in {duration(base)} on average"
        return f"{names[chosen]} ends jobs as soon as {names[0]}, {ends}" if chosen else f"Jobs end {ends}"
    word = "sooner" if change < 0 else "later"
    title = f"{names[chosen]} ends jobs {percent(abs(change))} {word}"
    if change < 0 and mean_jct["winner"] == chosen and mean_jct["sure"] is False:
        return f"{title}, which may be chance"
    drawback = _drawback(figures[0], figures[chosen]) if change < 0 else ""
    return f"{title}, but {drawback}" if drawback else f"{title} than {names[0]}"


def _drawback(base: Figures, own: Figures) -> str:
    """Return what gets worse most, with its number; empty where nothing gets clearly worse."""
    before = {gang.label: gang for gang in base.gangs}
    found: list[tuple[float, str]] = []
    for gang in own.gangs:
        old = before.get(gang.label)
        if old is not None and gang.jobs >= _FEW_JOBS:
            ratio = max(gang.p90_s, _LEAST_WAIT_S) / max(old.p90_s, _LEAST_WAIT_S)
            found.append((ratio, f"1 in 10 {gang.label}-GPU jobs waits {_times(ratio, 'longer', 'as long')}"))
    for key, words in (("p99_jct_s", "the slowest 1 % of jobs take"), ("max_rho", "the worst-off job takes")):
        was, now = float(base.summary[key]), float(own.summary[key])  # type: ignore[literal-required]
        if key == "p99_jct_s" and not has_percentile(min(base.summary["finished"], own.summary["finished"]), 0.99):
            continue
        if was > 0:
            found.append((now / was, f"{words} {_times(now / was, 'longer', 'as long')}"))
    ratio, text = max(found, default=(1.0, ""))
    return text if ratio >= _WORTH_TELLING else ""


def _times(ratio: float, more: str, plain: str) -> str:
    return f"{significant(round(ratio, 1))} times {plain}" if ratio >= 1.95 else f"{percent(ratio - 1)} {more}"
