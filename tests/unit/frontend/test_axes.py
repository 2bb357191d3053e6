"""Ticks of counts and of durations: even, few, and enough of them to read a value."""

from datetime import UTC, datetime, timedelta

import pytest

from frontend.components.charts import Json, even_axis, time_axis
from frontend.pages.jobs.charts.figures import ChartScene, frac_chart
from frontend.pages.overview.completion import completion
from scheduler.selectors.cluster.rows import CompletionTimes


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (17, [0, 5, 10, 15, 20]),
        (67, [0, 20, 40, 60, 80]),
        (100, [0, 20, 40, 60, 80, 100]),
        (4_321, [0, 1_000, 2_000, 3_000, 4_000, 5_000]),
    ],
)
def test_ticks_of_counts_are_even(most: int, ticks: list[int]) -> None:
    """Not 0, 4, 8, 12, 17."""
    axis = even_axis(most)

    assert axis["tickvals"] == ticks
    assert axis["range"] == [0, ticks[-1]]


@pytest.mark.parametrize("hours", [1, 12, 24, 50, 54, 55, 59, 61, 72, 100, 168, 700])
def test_no_day_is_named_twice(hours: int) -> None:
    """Where days are named, ticks are whole days apart, in half a page too, where Plotly chooses others."""
    begin = datetime(2026, 3, 7, 14, 0, tzinfo=UTC)
    end = begin + timedelta(hours=hours)
    half = frac_chart("cpu", "CPU use", [begin, end], [0.5, 0.5], ChartScene(zone=UTC, now=end, gaps=()))
    assert half.figure is not None

    for axis in (time_axis(begin, end, UTC), half.figure["layout"]["xaxis"]):
        days_apart = axis.get("dtick", 0) / 86_400_000
        assert (axis["tickformat"] in ("%a %-d", "%-d %b")) == (days_apart >= 1)
        assert days_apart < 1 or days_apart.is_integer()


@pytest.mark.parametrize("begin", [datetime(2026, 1, 31, 14, 7, tzinfo=UTC), datetime(2026, 3, 7, tzinfo=UTC)])
def test_no_two_ticks_have_one_text(begin: datetime) -> None:
    """Over any span up to 30 days, and as many as stand side by side; a day's own two ends may."""
    for hours in range(1, 721):
        end = begin + timedelta(hours=hours) - timedelta(seconds=hours == 24)
        axis = time_axis(begin, end, UTC)
        texts = texts_of(axis, begin, end)

        assert len(texts) == len(set(texts)), (hours, texts)
        assert sum(map(len, texts)) <= 63, (hours, texts)


def texts_of(axis: Json, begin: datetime, end: datetime) -> list[str]:
    """Return the texts of the ticks of a time axis as Plotly makes them: steps are counted from the year 2000."""
    step, tick = timedelta(milliseconds=axis["dtick"]), datetime(2000, 1, 1, tzinfo=UTC)
    tick += -((tick - begin) // step) * step
    texts = []
    while tick <= end:
        if tick >= begin:
            texts.append(tick.strftime(axis["tickformat"]))
        tick += step
    return texts


@pytest.mark.parametrize("hours", [25, 30, 36, 48])
def test_over_more_than_a_day_each_tick_names_its_day(hours: int) -> None:
    """Not 00:00, 06:00 and so on twice; in half a page too, where Plotly chooses the step."""
    begin = datetime(2026, 3, 7, 14, 7, tzinfo=UTC)
    end = begin + timedelta(hours=hours)
    half = frac_chart("cpu", "CPU use", [begin, end], [0.5, 0.5], ChartScene(zone=UTC, now=end, gaps=()))
    assert half.figure is not None

    assert 3 <= len(texts_of(time_axis(begin, end, UTC), begin, end)) <= 7
    assert half.figure["layout"]["xaxis"]["tickformat"] == "%a %H:%M"
    assert half.figure["layout"]["xaxis"]["nticks"] == 6


@pytest.mark.parametrize(
    ("jct_s", "words"),
    [
        ([1_800.0, 3_000.0], ["30 min", "1 h", "2 h"]),
        ([60.0, 90.0], ["1 min", "2 min", "5 min"]),
        ([5.0, 80_000.0], ["10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]),
        ([0.2], ["1 s", "2 s", "5 s"]),
        ([20 * 86_400.0], ["20 d", "50 d"]),
    ],
)
def test_axis_of_durations_has_ticks_wherever_it_lies(jct_s: list[float], words: list[str]) -> None:
    """In words of durations, also where all jobs took about as long."""
    waits = jct_s
    summary: CompletionTimes = {
        "since": "2026-03-06T12:00:00Z", "count": len(jct_s), "mean_s": jct_s[0], "p50_s": jct_s[0], "p90_s": jct_s[-1],
        "p99_s": jct_s[-1], "wait_p50_s": waits[0], "wait_p90_s": waits[-1], "jct_s": jct_s, "wait_s": waits,
    }  # fmt: skip
    figure = completion(summary, "last 24 h").figure
    assert figure is not None
    axis = figure["layout"]["xaxis"]
    told = [text.replace("\u00a0", " ") for text in axis["ticktext"]]

    assert 2 <= len(told) <= 8
    assert [word for word in words if word in told] == words, told
    low, high = axis["range"]
    assert all(10**low <= tick <= 10**high for tick in axis["tickvals"])
