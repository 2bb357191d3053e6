"""The title of an answer: what the best variant changes against the first over all seeds, and its drawback."""

from collections.abc import Sequence

from frontend.components.formats import NBSP, duration, percent, significant
from scheduler.core.operations.metrics import has_percentile
from scheduler.selectors.rows import MetricRow
from scheduler.selectors.whatif import Changes, PairedChange
from scheduler.simulator.report.figures import Figures

# The least ratio at which a drawback is worth telling.
_WORTH_TELLING = 1.2
_FEW_JOBS = 10
_LEAST_WAIT_S = 60.0
_LEAST_CHANGE = 0.005
_WORST = {"p99_jct_s": "the slowest 1 % of jobs take", "max_rho": "the worst-off job takes"}


def best_variant(mean_jct: MetricRow) -> int:
    """Return the variant that the answer is about: the one with the shortest mean beside the baseline."""
    means = {at: cell["mean"] for at, cell in enumerate(mean_jct["variants"]) if at and cell["mean"] is not None}
    return min(means, key=lambda at: (means[at], at), default=0)


def title_of(
    mean_jct: MetricRow, figures: Sequence[Figures], names: Sequence[str], chosen: int, *, changes: Changes
) -> str:
    """Return the title, one sentence with its number and how sure that is."""
    base, own = (mean_jct["variants"][at]["mean"] or 0.0 for at in (0, chosen))
    compared = {0: base, chosen: own}
    without_end = [names[at] for at, mean in compared.items() if not mean and not figures[at].jct.value.size]
    if without_end:
        return f"No job ends under {' or '.join(without_end)}"
    if not chosen:
        return f"Jobs end in {duration(base)} on average"
    paired = changes["avg_jct_s"][chosen]
    sure = f" ({interval_words(paired)})" if paired else ""
    change = own / base - 1 if base else 0.0
    if abs(change) < _LEAST_CHANGE:
        return f"{names[chosen]} ends jobs as soon as {names[0]}, in {duration(base)} on average{sure}"
    title = f"{names[chosen]} ends jobs {_sooner(change)} than {names[0]}{sure}"
    drawback = "" if change > 0 else _drawback(figures, chosen, changes)
    return f"{title}, but {drawback}" if drawback else title


def interval_words(paired: PairedChange) -> str:
    """Return how sure a change of times is: its 95 % interval over seeds, or why it has none."""
    if len(paired.fracs) == 1:
        return "one seed: no interval"
    if paired.half_width is None:
        return f"{_sooner(paired.fracs[0])} and {_sooner(paired.fracs[1])} in two seeds: too few for an interval"
    low, high = sorted((paired.mean - paired.half_width, paired.mean + paired.half_width), key=abs)
    if paired.may_be_chance:
        return f"95{NBSP}% interval {_sooner(max(low, high))} to {_sooner(min(low, high))}: may be chance"
    return f"95{NBSP}% interval {percent(abs(low)).removesuffix(f'{NBSP}%')} to {percent(abs(high))}"


def _sooner(change: float) -> str:
    return f"{percent(abs(change))} {'later' if change > 0 else 'sooner'}"


def _drawback(figures: Sequence[Figures], chosen: int, changes: Changes) -> str:
    """Return what gets worse most, with its number; empty where nothing gets clearly worse.

    The figures are of the first seed, so with several only what all seeds tell counts.
    """
    paired = changes["avg_jct_s"][chosen]
    if paired is None or len(paired.fracs) == 1:
        return _drawback_of_one(figures[0], figures[chosen])
    found = [
        (1 + change.mean, f"{words} {_times(1 + change.mean, 'longer', 'as long')}")
        for key, words in _WORST.items()
        if (change := changes[key][chosen]) is not None and not change.may_be_chance
    ]
    ratio, text = max(found, default=(1.0, ""))
    return text if ratio >= _WORTH_TELLING else ""


def _drawback_of_one(base: Figures, own: Figures) -> str:
    """Return what gets worse most in one seed, also for jobs of one size."""
    before = {gang.label: gang for gang in base.gangs}
    found: list[tuple[float, str]] = []
    for gang in own.gangs:
        old = before.get(gang.label)
        if old is not None and gang.jobs >= _FEW_JOBS:
            ratio = max(gang.p90_s, _LEAST_WAIT_S) / max(old.p90_s, _LEAST_WAIT_S)
            found.append((ratio, f"1 in 10 {gang.label}-GPU jobs waits {_times(ratio, 'longer', 'as long')}"))
    for key, words in _WORST.items():
        was, now = float(base.summary[key]), float(own.summary[key])  # type: ignore[literal-required]
        if key == "p99_jct_s" and not has_percentile(min(base.summary["finished"], own.summary["finished"]), 0.99):
            continue
        if was > 0:
            found.append((now / was, f"{words} {_times(now / was, 'longer', 'as long')}"))
    ratio, text = max(found, default=(1.0, ""))
    return text if ratio >= _WORTH_TELLING else ""


def _times(ratio: float, more: str, plain: str) -> str:
    return f"{significant(round(ratio, 1))} times {plain}" if ratio >= 1.95 else f"{percent(ratio - 1)} {more}"
