"""Sentences of the what-if pages."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from frontend.components.devices import GPUS
from frontend.pages.simulation.comparison import TOO_FEW, rho_chart, strokes, wait_chart
from frontend.pages.simulation.figures_table import figure_rows
from frontend.pages.simulation.queue_waits import queue_waits_chart
from frontend.pages.simulation.single import arm_charts
from frontend.pages.whatif.results import shown
from frontend.pages.whatif.title import interval_words, title_of
from frontend.pages.whatif.words import fidelity_view, start_words
from scheduler.selectors.rows import FidelityRow, MetricCell, MetricRow
from scheduler.selectors.whatif import PairedChange
from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.report.curves import Course, curve, waits_by_gang, waits_by_queue
from scheduler.simulator.report.figures import Figures, figures_from_json, figures_to_json
from scheduler.simulator.report.summary_text import METRICS
from tests.support.simulator.outcomes import outcome_of, records_of


def row(key: str, happened: float, replayed: float) -> FidelityRow:
    """Return one figure of a past window."""
    return {
        "key": key, "kind": "time", "happened": happened, "replayed": replayed, "error_frac": replayed / happened - 1,
    }  # fmt: skip


def test_card_of_a_past_window_tells_the_largest_error_of_times() -> None:
    """A wait of a minute that was none in the replay is in the table, and not what the title says of hours."""
    view = fidelity_view([row("avg_jct_s", 3600.0, 3510.0), row("avg_queueing_s", 98.0, 0.0)])

    assert view is not None
    title = (
        "Replayed under the settings that held then, completion times are within 2.5 % of what happened; "
        "mean wait 0 s, really 1 min 38 s"
    )
    assert view.title.replace("\u00a0", " ") == title
    assert [cells[3].replace("\u00a0", " ") for cells in view.rows] == ["2.5 %", "100.0 %"]


def test_figures_that_only_tell_when_one_looked_are_left_out_with_a_word() -> None:
    """Of a window that goes on the makespan is the window, and so may p99 be."""
    every = [row(key, 3600.0, 3510.0) for key in ("avg_jct_s", "p99_jct_s", "makespan_s")]
    whole, goes_on = fidelity_view(every), fidelity_view(every[:1])

    assert whole is not None
    assert whole.note == ""
    assert goes_on is not None
    assert goes_on.note == "p99 JCT and Makespan are not compared: jobs of the window go on, here or in the replay."


def test_when_most_jobs_wait_is_told_as_on_the_axis() -> None:
    """Of a replay that begins at a moment of today: what is kept of such a moment is no second."""
    at_s = np.arange(1_764_437_000.0, 1_764_438_200.0, 10.0, dtype=np.float64)
    zeros, waiting = np.zeros(120), np.zeros(120)
    waiting[100] = 5.0
    over_time = Course(
        at_s=at_s, step_s=10.0, allocated=zeros, useful=zeros, running=zeros, waiting=waiting, largest_free=zeros,
        queues=np.zeros((120, len(figures_of_jobs(5).queue_names))),
    )  # fmt: skip
    figures = replace(figures_of_jobs(5), course=over_time)
    charts = arm_charts(figures_from_json(json.loads(json.dumps(figures_to_json(figures)))), prefix="a")

    assert "At most 5 jobs wait at once, after 17 min" in [chart.title.replace("\u00a0", " ") for chart in charts]


def test_a_trace_is_named_with_what_is_known_of_it() -> None:
    """Before its jobs are read only that it was uploaded."""
    assert start_words({"kind": "trace"}) == "An uploaded trace"
    assert start_words({"kind": "trace"}, "month.csv on 12 servers") == "Trace month.csv on 12 servers"
    past = {"kind": "past", "since": "2026-03-07T14:00:00Z", "until": "2026-03-09T14:00:00Z"}
    assert start_words(past) == "Replay of 7 Mar 14:00 to 9 Mar 14:00 UTC"
    assert start_words(past, "12 jobs of 7 Mar 14:00") == "Replay of 12 jobs of 7 Mar 14:00"


@pytest.mark.parametrize(
    ("happened", "off"),
    [
        ([row("avg_jct_s", 3600.0, 3900.0), row("avg_queueing_s", 500.0, 260.0)], ""),
        ([row("avg_jct_s", 3600.0, 4000.0)], "mean JCT was really 1 h, replayed 1 h 7 min"),
        ([row("avg_queueing_s", 10_020.0, 39.0)], "mean wait was really 2 h 47 min, replayed 39 s"),
        ([row("avg_queueing_s", 39.0, 10_020.0)], "mean wait was really 39 s, replayed 2 h 47 min"),
        ([row("avg_queueing_s", 50.0, 1.0)], ""),
    ],
)
def test_answer_is_doubted_where_its_replay_is_far_off(happened: list[FidelityRow], off: str) -> None:
    """By more than a tenth, for waits by more than a factor of two, either way; short waits are as good as none."""
    view = fidelity_view(happened)

    assert view is not None
    assert view.doubt.replace("\u00a0", " ") == off


def test_variant_under_which_no_job_ends_is_named() -> None:
    """Its mean is 0 s, which is no completion: as when the servers that the jobs need are drained."""
    means = cast(Any, {"variants": [{"mean": 0.0}, {"mean": 0.0}], "winner": None, "sure": None})
    figures = cast(Any, [SimpleNamespace(jct=SimpleNamespace(value=np.array([])))] * 2)

    assert title_of(means, figures, ["las", "fifo"], 1, changes={}) == "No job ends under las or fifo"
    assert title_of(means, figures, ["las"], 0, changes={}) == "No job ends under las"


def figures_of_jobs(count: int) -> Figures:
    """Return the figures of a replay of so many jobs of one GPU, which wait 100 s, 200 s and so on."""
    waits_s = [100.0 * (row + 1) for row in range(count)]
    return figures_of_waits(waits_s, num_gpus=[1] * count)


def figures_of_waits(waits_s: list[float], *, num_gpus: list[int]) -> Figures:
    """Return the figures of a replay of jobs that wait so long; those of one GPU are in queue a, others in b."""
    queue = np.array([gpus > 1 for gpus in num_gpus], dtype=np.int64)
    ends_s = [wait_s + 10.0 for wait_s in waits_s]
    records = records_of(num_gpus=num_gpus, queue=queue, queueing_s=waits_s, end_s=ends_s)
    outcome = outcome_of(records, num_gpus=4)
    return Figures(
        summary=summarize(outcome), jct=curve(records.jct_s), rho=curve(records.rho), gangs=waits_by_gang(records),
        course=None, room_share=0.0, gantt=None, bar_names=(), bar_queues=(), bar_gpus=(),
        queue_names=("a", "b"), server_gpus=(4,), queue_waits=waits_by_queue(records, ("a", "b")),
    )  # fmt: skip


@pytest.mark.parametrize(("count", "p50", "p90", "p99"), [(1, 0, 0, 0), (5, 1, 0, 0), (10, 1, 1, 0), (100, 1, 1, 1)])
def test_no_percentile_is_told_that_so_few_jobs_cannot_have(count: int, p50: int, p90: int, p99: int) -> None:
    """It would be the figure of the slowest job: the table and both charts of waits say that they are too few."""
    figures, drawn = figures_of_jobs(count), strokes(1, 0)
    cells = {cell.title: cell.text for cell in figure_rows([figures], ["live"], drawn, chosen=0)[0].cells}
    waits = [wait_chart([figures], ["live"], drawn), queue_waits_chart([figures], ["live"], drawn)]

    assert [cells[title] != TOO_FEW for title in ("p50 JCT", "p99 JCT")] == [bool(p50), bool(p99)]
    for chart in filter(None, waits):
        assert [text != TOO_FEW for text in chart.table_rows[0][-2:]] == [bool(p50), bool(p90)]
        assert ("Too few jobs" in chart.title, chart.figure is None) == (not p90, not p90)
    assert rho_chart([figures], ["live"], drawn).title.startswith("1 in 100 jobs" if p99 else "The worst-off job")


def test_a_size_of_too_few_jobs_is_not_told_to_wait_less_than_a_minute() -> None:
    """Nor its queue: the titles speak of every size and of every queue."""
    drawn = strokes(1, 0)
    for wait_s, is_short in ((18_000.0, False), (5.0, True)):
        figures = figures_of_waits([1.0] * 10 + [wait_s], num_gpus=[1] * 10 + [4])
        for chart in filter(
            None, (wait_chart([figures], ["live"], drawn), queue_waits_chart([figures], ["live"], drawn))
        ):
            assert ("less than a minute" in chart.title) is is_short


def test_two_draws_have_no_interval_and_stand_beside_their_mean() -> None:
    """An interval of two is wider than the figures; a percentile that the jobs of a seed cannot have has no mean."""
    drawn: MetricCell = {"mean": 1_290.0, "half_width": None, "draws": [720.0, 1_860.0], "seeds": 2}
    unknown: MetricCell = {"mean": None, "half_width": None, "draws": [], "seeds": 2}
    metrics: list[MetricRow] = [
        {"key": metric.key, "kind": metric.kind, "best": metric.best, "winner": None, "sure": None,
         "variants": [unknown if metric.rank == 0.99 else drawn]}
        for metric in METRICS
    ]  # fmt: skip
    scenario = cast(Any, SimpleNamespace(seeds=[1, 2]))
    cells = {
        cell.title: cell
        for cell in shown(
            scenario,
            [figures_of_jobs(5)],
            metrics,
            ["live"],
            changes={metric["key"]: [None] for metric in metrics},
            device=GPUS,
        )
        .rows[0]
        .cells
    }

    assert cells["Mean JCT"].text.replace("\u00a0", " ") == "22 min"
    assert cells["Mean JCT"].spread.replace("\u00a0", " ") == "12 min and 31 min"
    assert (cells["p99 JCT"].text, cells["p99 JCT"].spread) == (TOO_FEW, "")


@pytest.mark.parametrize(
    ("fracs", "half_width", "words"),
    [
        ((-0.09,), None, "one seed: no interval"),
        ((-0.07, 0.02), None, "7 % sooner and 2 % later in two seeds: too few for an interval"),
        ((-0.08, -0.09, -0.085), 0.045, "95 % interval 4 to 13 %"),
        ((0.08, 0.09, 0.085), 0.045, "95 % interval 4 to 13 %"),
        ((-0.3, 0.1, -0.07), 0.11, "95 % interval 2 % later to 20 % sooner: may be chance"),
        ((0.3, -0.1, 0.07), 0.11, "95 % interval 20 % later to 2 % sooner: may be chance"),
    ],
)
def test_how_sure_a_change_is_stands_beside_it(fracs: tuple[float, ...], half_width: float | None, words: str) -> None:
    """Its interval seed by seed, that it may be chance, or that so few seeds have none."""
    paired = PairedChange(fracs=fracs, half_width=half_width)

    assert interval_words(paired).replace("\u00a0", " ") == words


def test_title_tells_the_interval_and_only_drawbacks_of_all_seeds() -> None:
    """What is worse in the first seed alone may be chance."""
    figures = [figures_of_waits([100.0] * 20, num_gpus=[1] * 20), figures_of_waits([900.0] * 20, num_gpus=[1] * 20)]
    means = cast(Any, {"variants": [{"mean": 1_000.0}, {"mean": 910.0}], "winner": 1, "sure": True})
    sooner = PairedChange(fracs=(-0.08, -0.09, -0.10), half_width=0.02)
    worse, chance = (PairedChange(fracs=(1.9, 2.0, 2.1), half_width=width) for width in (0.2, 3.0))
    titles = [
        title_of(
            means, figures, ["las", "srtf"], 1,
            changes={"avg_jct_s": [None, sooner], "p99_jct_s": [None, None], "max_rho": [None, rho]},
        )
        for rho in (worse, chance)
    ]  # fmt: skip

    begin = "srtf ends jobs 9 % sooner than las (95 % interval 7 to 11 %)"
    assert [title.replace("\u00a0", " ") for title in titles] == [
        f"{begin}, but the worst-off job takes 3.00 times as long",
        begin,
    ]


def test_charts_of_one_of_several_seeds_find_nothing_that_the_table_denies() -> None:
    """Their titles say what is drawn, and that it is one seed; with one seed they find what they show."""
    figures = [figures_of_jobs(20), figures_of_jobs(30)]
    cell: MetricCell = {"mean": 1_290.0, "half_width": 10.0, "draws": [], "seeds": 3}
    metrics: list[MetricRow] = [
        {"key": metric.key, "kind": metric.kind, "best": metric.best, "winner": None, "sure": None,
         "variants": [cell, cell]}
        for metric in METRICS
    ]  # fmt: skip
    changes = {metric["key"]: [None, None] for metric in metrics}
    titles = []
    for seeds in ([4, 5, 6], [4]):
        scenario = cast(Any, SimpleNamespace(seeds=seeds))
        found = shown(scenario, figures, metrics, ["las", "srtf"], changes=changes, device=GPUS)
        titles.append([chart.title for chart in found.charts])

    assert titles[0] == [
        "Completion times, first of 3 seeds",
        "Waits by GPUs asked for, first of 3 seeds",
        "Finish-time fairness, first of 3 seeds",
        "Use of the GPU time, first of 3 seeds",
        "Waits by queue, first of 3 seeds",
    ]
    assert titles[1][0].startswith("Half of all jobs end within")


def test_a_change_that_may_be_chance_has_no_colour() -> None:
    """Also where the variant is not the best of all."""
    cell: MetricCell = {"mean": 1_290.0, "half_width": 10.0, "draws": [], "seeds": 3}
    better: MetricCell = {**cell, "mean": 1_000.0}
    metrics: list[MetricRow] = [
        {"key": metric.key, "kind": metric.kind, "best": metric.best, "winner": None, "sure": None,
         "variants": [cell, better]}
        for metric in METRICS
    ]  # fmt: skip
    scenario = cast(Any, SimpleNamespace(seeds=[1, 2, 3]))
    tones = []
    for half_width in (0.3, 0.1):
        paired = PairedChange(fracs=(-0.2, -0.3, -0.2), half_width=half_width)
        changes = {metric["key"]: [None, paired] for metric in metrics}
        figures = [figures_of_jobs(20)] * 2
        found = shown(scenario, figures, metrics, ["las", "srtf"], changes=changes, device=GPUS)
        tones.append(next(cell.tone for cell in found.rows[1].cells if cell.title == "Mean JCT"))

    assert tones == ["", "ok"]


@pytest.mark.parametrize(
    ("wait_s", "verdict"),
    [
        (3_600.0, "Reliable."),
        (3_900.0, "Reliable."),
        (5_000.0, "Reliable for completion times, less for waits."),
        (2_500.0, "Reliable for completion times, less for waits."),
    ],
)
def test_an_answer_is_relied_on_for_what_was_replayed_well(wait_s: float, verdict: str) -> None:
    """Waits within a factor of two make no answer doubtful, and beyond a tenth none that is right about waits."""
    view = fidelity_view([row("avg_jct_s", 7_200.0, 7_300.0), row("avg_queueing_s", 3_600.0, wait_s)])

    assert view is not None
    assert (view.verdict, view.doubt) == (verdict, "")
