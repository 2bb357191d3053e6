"""Time axes of simulation charts: log scale over many decades, or hours since the begin."""

import math

from frontend.components.charts import Json

_TICKS_S = (
    (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3_600.0, "1 h"), (36_000.0, "10 h"),
    (4 * 86_400.0, "4 d"), (40 * 86_400.0, "40 d"), (400 * 86_400.0, "400 d"),
)  # fmt: skip
_STEPS_S = (
    60,
    300,
    900,
    3_600,
    3 * 3_600,
    6 * 3_600,
    86_400,
    2 * 86_400,
    4 * 86_400,
    7 * 86_400,
    14 * 86_400,
    28 * 86_400,
    182 * 86_400,
)


def log_time_axis(least_s: float, most_s: float) -> Json:
    """Return a log axis with ticks at spoken times."""
    low, high = math.log10(max(1.0, least_s)), math.log10(max(10.0, most_s))
    return {
        "type": "log",
        "range": [low, max(high, low + 0.5)],
        "showgrid": True,
        "gridcolor": "var(--grid)",
        "tickvals": [value for value, _ in _TICKS_S],
        "ticktext": [text for _, text in _TICKS_S],
        "hoverformat": ".3s",
    }


def elapsed_axis(until_h: float, *, most_ticks: int = 8) -> Json:
    """Return an axis of hours since the begin, ticks at whole minutes, hours or days."""
    span_s = max(1.0, until_h * 3_600)
    step_s = next((step for step in _STEPS_S if span_s / step <= most_ticks), _STEPS_S[-1])
    unit, size = ("d", 86_400) if step_s >= 86_400 else ("h", 3_600) if step_s >= 3_600 else ("min", 60)
    offsets = [index * step_s for index in range(int(span_s // step_s) + 1)]
    return {
        "range": [0, span_s / 3_600],
        "tickvals": [offset / 3_600 for offset in offsets],
        "ticktext": [f"{offset // size} {unit}" if offset else "0" for offset in offsets],
        "unifiedhovertitle": {"text": "after %{x:.1f} h"},
    }
