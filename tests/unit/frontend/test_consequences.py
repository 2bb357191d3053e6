"""The preview of a quota in words: the title is the largest change that is believable, and what is cut is unknown."""

from frontend.pages.queues.consequences import consequences
from scheduler.whatif.rows import ForecastReport, ForecastRow, ForecastWait

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3_600.0, 60.0


def wait(
    now_s: float | None, change: tuple[float | None, float | None, float | None], direction: str = ""
) -> ForecastWait:
    """Return a wait now and after a change of (low, middle, high)."""
    low_s, change_s, high_s = change
    then_s = None if now_s is None or change_s is None else now_s + change_s
    return {
        "now_s": now_s,
        "changed_s": then_s,
        "changed_low_s": then_s,
        "changed_high_s": then_s,
        "change_s": change_s,
        "change_low_s": low_s,
        "change_high_s": high_s,
        "direction": direction,
    }


def row(name: str, p50: ForecastWait | None, p90: ForecastWait | None) -> ForecastRow:
    """Return one queue."""
    return {
        "name": name,
        "color_slot": 1,
        "quota_gpus": {"now": 8, "changed": 4},
        "jobs": 10.0,
        "p50": p50,
        "p90": p90,
        "mean": p50,
        "preemptions": {"now": 1.0, "changed": 2.5},
    }


def report(*rows: ForecastRow, horizon_s: float = DAY_S) -> ForecastReport:
    """Return a forecast."""
    return {
        "at": "",
        "round": 7,
        "known": True,
        "reason": "",
        "sentence": "From 5 jobs.",
        "horizon_s": horizon_s,
        "futures": 20,
        "queues": list(rows),
        "starts_now": [],
        "stops_now": [],
        "sums": [],
        "checked": "",
    }


NOTHING = wait(5 * MINUTE_S, (-40.0, 20.0, 50.0))


def test_the_title_is_the_largest_change_of_any_quantile_with_its_interval() -> None:
    """A median that stays does not hide that the slowest tenth waits ten hours longer."""
    slow = wait(8 * HOUR_S, (6 * HOUR_S, 10 * HOUR_S, 14 * HOUR_S), "longer")
    own = wait(18 * MINUTE_S, (-12 * MINUTE_S, -9 * MINUTE_S, -5 * MINUTE_S), "shorter")

    found = consequences(report(row("vision", own, NOTHING), row("nlp", NOTHING, slow)), most_horizon_s=3 * DAY_S)

    assert found.title == "nlp's slowest tenth waits 10\u00a0h longer"
    assert found.span == "(6\u00a0h to 14\u00a0h)"
    assert [line.change for line in found.lines[1].waits] == ["no clear change", "+10\u00a0h"]
    assert found.lines[0].waits[0].span == "(\u221212\u00a0min to \u22125\u00a0min)"
    assert [line.tone for line in found.lines[0].waits] == ["ok", ""]


def test_a_large_change_within_its_interval_is_none() -> None:
    """Futures that do not agree on the sign tell nothing, however large the middle is."""
    wide = wait(8 * HOUR_S, (-3 * HOUR_S, 10 * HOUR_S, 20 * HOUR_S))

    found = consequences(report(row("nlp", NOTHING, wide)), most_horizon_s=3 * DAY_S)

    assert (found.title, found.span) == ("No queue's wait clearly changes", "")
    assert [line.change for line in found.lines[0].waits] == ["no clear change"] * 2


def test_what_the_horizon_cuts_is_unknown_and_never_the_title() -> None:
    """A wait that goes beyond the simulated time has its row, without a number, and one may look farther."""
    beyond = wait(19 * HOUR_S, (5 * HOUR_S, None, None), "longer")
    never = wait(None, (None, None, None))

    found = consequences(report(row("recsys", never, beyond)), most_horizon_s=3 * DAY_S)

    assert found.title == "No queue's wait clearly changes"
    p50, p90 = found.lines[0].waits
    assert (p50.now, p50.then, p50.change) == ("unknown", "unknown", "unknown")
    assert (p90.then, p90.change, p90.span, p90.is_beyond) == ("unknown", "longer", ", beyond 1\u00a0d", True)
    assert (found.cut, found.can_look_farther) == (["recsys"], True)
    assert not consequences(
        report(row("a", never, never), horizon_s=3 * DAY_S), most_horizon_s=3 * DAY_S
    ).can_look_farther


def test_places_on_the_axis_rise_with_time_and_end_where_it_is_unknown() -> None:
    """One logarithmic axis for all queues; the band of ``then`` never runs backwards."""
    steps = [wait(at_s, (60.0, 60.0, 60.0), "longer") for at_s in (0.0, 120.0, HOUR_S, 23 * HOUR_S)]

    lines = [
        line.waits[0] for line in consequences(report(*(row("q", one, one) for one in steps)), most_horizon_s=1).lines
    ]

    places = [line.from_percent for line in lines]
    assert places == sorted(places)
    assert places[0] == 0.0
    assert max(line.to_percent for line in lines) <= 86.0
    assert all(line.width_percent >= 0 and line.band_percent >= 0 for line in lines)
