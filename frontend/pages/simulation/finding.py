"""The title of a comparison: the chosen arm, and what it changes against the first."""

from collections.abc import Sequence

from frontend.components.formats import duration, percent
from scheduler.simulator.state.outcome import Summary


def in_question(summaries: Sequence[Summary]) -> int:
    """Return the arm that a report is about: the one with the shortest mean beside the baseline."""
    others = range(1, len(summaries))
    return min(others, key=lambda arm: summaries[arm]["avg_jct_s"], default=0)


def finding(summaries: Sequence[Summary], names: Sequence[str], chosen: int) -> str:
    """Return the title, one sentence with its number."""
    mean_s = summaries[chosen]["avg_jct_s"]
    if chosen == 0:
        used = percent(summaries[0]["avg_gpu_occupancy"])
        return f"Jobs end {duration(mean_s)} after their submission on average; {used} of the GPU time is allocated"
    base_s = summaries[0]["avg_jct_s"]
    change = mean_s / base_s - 1 if base_s else 0.0
    if abs(change) < 0.005:
        return f"{names[chosen]} ends jobs as soon as {names[0]}"
    word = "sooner" if change < 0 else "later"
    return f"{names[chosen]} ends jobs {percent(abs(change))} {word} than {names[0]}"
