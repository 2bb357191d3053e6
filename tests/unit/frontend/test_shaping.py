"""Shaping of series, and the findings that charts of a job state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from frontend.pages.jobs.charts.figures import ChartScene, Gap, frac_chart, loss_chart, memory_chart, rate_chart
from frontend.pages.jobs.charts.progress import ends_at
from frontend.pages.jobs.charts.shaping import MOST_POINTS, smoothed, thin, with_holes
from frontend.pages.jobs.head import ordinal

AT = datetime(2026, 3, 7, 14, 0, tzinfo=UTC)


def scene(*gaps: Gap) -> ChartScene:
    """Return a scene in UTC."""
    return ChartScene(zone=UTC, now=AT, gaps=gaps)


def moments(count: int) -> list[datetime]:
    """Return a moment every ten seconds."""
    return [AT + timedelta(seconds=10 * index) for index in range(count)]


@pytest.mark.parametrize("count", [0, 1, MOST_POINTS, MOST_POINTS + 1, 20_000])
def test_thinning_keeps_the_newest_and_stays_small(count: int) -> None:
    """A chart ends at the last value and never has more points than it can show."""
    kept = thin(count)

    assert len(kept) <= MOST_POINTS
    assert kept[-1:] == ([count - 1] if count else [])


def test_smoothing_of_a_constant_is_the_constant() -> None:
    """An average neither lags nor starts cold."""
    assert smoothed(range(50), [2.0] * 50) == pytest.approx([2.0] * 50)


def test_smoothing_follows_points_that_are_far_apart() -> None:
    """Few values after many close ones: the line ends near them, not at the average of what was long ago."""
    steps = [*range(100), *range(1_000, 11_000, 1_000)]
    losses = [2.0] * 100 + [0.5] * 10

    assert smoothed(steps, losses)[-1] == pytest.approx(0.5, abs=1e-6)
    assert smoothed(steps, losses)[50] == pytest.approx(2.0, abs=1e-3)


def test_a_falling_loss_is_called_falling_with_its_change() -> None:
    """The title is the finding."""
    steps = list(range(0, 10_000, 100))
    chart = loss_chart(steps, [4.0 - 3.0 * step / 10_000 for step in steps], scene(), empty="")

    assert chart.title.startswith("Loss is still falling, ")
    assert "k steps" in chart.title


@pytest.mark.parametrize(
    ("slope", "title"),
    [
        (-3e-4, "Loss ended at 1.03; smoothed it went down "),
        (1e-4, "Loss ended at 1.99; smoothed it went up "),
        (0, "Loss was level"),
    ],
)
def test_the_loss_of_a_job_that_has_ended_does_nothing_any_more(slope: float, title: str) -> None:
    """What is over is told as such."""
    steps = list(range(0, 10_000, 100))
    begin = 4.0 if slope < 0 else 1.0
    over = replace(scene(), is_over=True)

    assert loss_chart(steps, [begin + slope * step for step in steps], over, empty="").title.startswith(title)


@pytest.mark.parametrize("count", [3, 20])
def test_the_title_tells_the_loss_that_was_reported(count: int) -> None:
    """The smoothed value lags behind; the facts of the page tell the reported one."""
    losses = [2.0 - 1.9 * step / (count - 1) for step in range(count)]

    chart = loss_chart(list(range(count)), losses, replace(scene(), is_over=True), empty="")

    assert " 0.100" in chart.title
    assert chart.legend[0].label == "smoothed"


def test_a_level_loss_is_called_level() -> None:
    """No change is not sold as one."""
    steps = list(range(100))

    assert loss_chart(steps, [1.5] * 100, scene(), empty="").title.startswith("Loss has been level at 1.50")


def test_a_rising_loss_is_called_rising() -> None:
    """Bad news is said as well."""
    steps = list(range(100))

    assert loss_chart(steps, [1.0 + step / 50 for step in steps], scene(), empty="").title.startswith("Loss is rising")


def test_a_step_back_to_a_checkpoint_breaks_the_line() -> None:
    """Steps that were trained twice are two lines, not a zigzag."""
    chart = loss_chart([0, 10, 20, 10, 20, 30], [3, 2, 1, 2, 1, 0.5], scene(), empty="")

    assert chart.figure is not None
    assert chart.figure["data"][0]["x"] == [0, 10, 20, None, 10, 20, 30]


def test_a_preemption_is_a_band_over_the_steps_it_cost() -> None:
    """From the step it resumed at to the step it had reached."""
    gap = Gap(start=AT, end=AT, last_step=50, resume_step=40, words="Preempted, back after 4 min")
    chart = loss_chart(list(range(100)), [2.0] * 100, scene(gap), empty="")

    assert chart.figure is not None
    (band,) = chart.figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (40, 50)
    assert chart.figure["layout"]["annotations"][0]["text"] == "Preempted, back after 4 min"


@pytest.mark.parametrize("losses", [[], [1.0]])
def test_too_little_is_a_sentence_and_no_figure(losses: list[float]) -> None:
    """A line needs two points."""
    chart = loss_chart([0] * len(losses), losses, scene(), empty="Loss appears when the job reports it.")

    assert chart.figure is None
    assert chart.empty == "Loss appears when the job reports it."


def test_negative_and_zero_losses_are_not_drawn_logarithmically() -> None:
    """A logarithm of them does not exist."""
    chart = loss_chart([0, 1, 2], [5.0, 0.0, -5.0], scene(), empty="")

    assert chart.figure is not None
    assert chart.figure["layout"]["yaxis"].get("type") != "log"


def test_a_slower_rate_is_called_slower() -> None:
    """The newest values against the usual ones."""
    rates: list[float | None] = [*([4.0] * 50), *([2.0] * 5)]

    assert rate_chart(moments(55), rates, scene(), empty="").title == "Slower now, 2.00 against 4.00 steps/s"


def test_a_hole_in_the_samples_is_a_hole_in_the_line() -> None:
    """Nothing was measured there, so nothing is drawn."""
    at = [*moments(10), *(moment + timedelta(hours=1) for moment in moments(10))]
    chart = frac_chart("cpu", "CPU use", at, [0.5] * 20, scene())

    assert chart.figure is not None
    assert chart.figure["data"][0]["y"].count(None) == 1


def test_memory_is_told_against_what_was_given() -> None:
    """Every number is comparable."""
    chart = memory_chart(moments(3), [1 * 2**30, 2 * 2**30, 1 * 2**30], scene(), granted=4 * 2**30)

    assert chart.title == "Memory reached 2.0\u00a0GiB of 4.0\u00a0GiB"


@pytest.mark.parametrize(
    ("step", "total_steps", "rate"),
    [(None, 100, 1.0), (10, None, 1.0), (10, 100, None), (10, 100, 0.0), (100, 100, 1.0), (0, 10**15, 1e-9)],
)
def test_no_end_is_named_without_step_total_and_rate(
    step: int | None, total_steps: int | None, rate: float | None
) -> None:
    """An estimate is computed or left out."""
    assert ends_at(step=step, total_steps=total_steps, steps_per_s=rate, now=AT) is None


def test_the_end_follows_from_what_is_left_and_the_rate() -> None:
    """90 steps at 1.5 a second take a minute."""
    assert ends_at(step=10, total_steps=100, steps_per_s=1.5, now=AT) == AT + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_places_in_line_are_ordinals(count: int, words: str) -> None:
    """As people say them."""
    assert ordinal(count) == words


def test_a_line_breaks_where_samples_are_missing_for_long() -> None:
    """Long beside those around it: old samples, which are further apart than new ones, are no holes."""
    old = [AT + timedelta(minutes=10 * index) for index in range(6)]
    new = [old[-1] + timedelta(seconds=10 * index) for index in range(1, 30)]
    late = [new[-1] + timedelta(minutes=5, seconds=10 * index) for index in range(30)]
    values = [1.0] * (len(old) + len(new) + len(late))
    _, drawn = with_holes([*old, *new, *late], values, UTC)

    assert [index for index, value in enumerate(drawn) if value is None] == [len(old) + len(new)]


def test_samples_that_come_when_something_happens_make_no_holes() -> None:
    """Some are seconds apart, most half an hour: no break, but where the job had no GPUs."""
    at = [AT]
    for seconds in [2, 500, 1800, 2, 330, 1800, 1000, 1800, 40, 1800, 1800, 2, 1800, 900, 1800]:
        at.append(at[-1] + timedelta(seconds=seconds))
    stop = Gap(start=at[7] + timedelta(seconds=5), end=at[8], last_step=None, resume_step=None, words="")

    for gaps, breaks in (((), []), ((stop,), [8])):
        chart = frac_chart("cpu", "CPU use", at, [0.5] * len(at), scene(*gaps))
        assert chart.figure is not None
        assert [index for index, value in enumerate(chart.figure["data"][0]["y"]) if value is None] == breaks
