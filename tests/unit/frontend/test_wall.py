"""The map of the wall fills its place; its causes are short enough to be read whole; its band has its hours."""

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from frontend.components.times import Range, Series
from frontend.pages.wall.causes import FAILURES, PREEMPTIONS, why_failed, why_preempted, why_waits
from frontend.pages.wall.drawing import band_of, hours_of
from frontend.pages.wall.layout import LABEL, LEAST, PAGE_S, TALL, WIDE, page_of
from frontend.pages.wall.words import day_and_time
from scheduler.core.model.lifecycle import EndCause
from scheduler.core.model.plan import WaitReason
from scheduler.selectors.rows import Json
from tests.unit.frontend.words.test_every_reason_has_words import PLANNED, STOPS

UNTIL = datetime(2026, 3, 6, 14, 32, tzinfo=UTC)
LONG = "a-queue-with-a-long-name"
LETTERS = 30  # of a cause, for which a line has room
EVIDENCE: Json = {
    "queue": "language", "queue_held_gpus": 110, "queue_quota_gpus": 128, "ahead_jobs": 128, "free_gpus": 16,
    "job": f"J-2048 {LONG}", "until": "completed", "drained": LONG, "largest_free_gpus": 128, "retry_at": "14:32 UTC",
}  # fmt: skip
ABOVE: Json = {**EVIDENCE, "queue": LONG, "queue_held_gpus": 2}


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 5, 8, 9, 12, 16, 24, 36, 48])
def test_one_page_of_servers_fills_the_map(servers: int) -> None:
    """In one of the two directions it is full; nothing is larger than its place."""
    page = page_of([8] * servers, 0.0)
    shape = page.shape
    server_wide = shape.columns * shape.cell_wide + (shape.columns - 1) * shape.cell_gap
    server_tall = LABEL + shape.lines * shape.cell_tall + (shape.lines - 1) * shape.cell_gap
    wide = shape.across * server_wide + (shape.across - 1) * shape.gap
    tall = shape.rows * server_tall + (shape.rows - 1) * shape.gap

    assert (page.pages, page.first, page.last) == (1, 0, servers)
    assert (shape.columns, shape.lines) == (4, 2), "as they are built in"
    assert shape.across * shape.rows >= servers
    assert wide <= WIDE + 0.01
    assert tall <= TALL + 0.01
    assert max(wide / WIDE, tall / TALL) > 0.98
    assert min(wide / WIDE, tall / TALL) > 0.8
    assert min(shape.cell_wide, shape.cell_tall) >= LEAST


def test_cells_get_smaller_with_more_servers() -> None:
    """From a hundred pixels and more on full HD to twenty."""
    shapes = [page_of([8] * servers, 0.0).shape for servers in (1, 2, 4, 8, 16, 24, 48)]
    sizes = [shape.cell_wide * shape.cell_tall for shape in shapes]

    assert sizes == sorted(sizes, reverse=True)
    assert shapes[0].cell_wide > 10
    assert shapes[-1].cell_tall < 3


@pytest.mark.parametrize(("servers", "gpus"), [(60, 8), (1000, 8), (16, 64), (7, 512), (9, 128), (61, 1)])
def test_more_servers_than_fit_take_turns(servers: int, gpus: int) -> None:
    """Each server is on one page, and each page is shown in its turn, no cell smaller than it may be."""
    first = page_of([gpus] * servers, 0.0)
    pages = [page_of([gpus] * servers, number * PAGE_S + 0.5) for number in range(first.pages)]

    assert [page.number for page in pages] == list(range(first.pages))
    assert [number for page in pages for number in range(page.first, page.last)] == list(range(servers))
    assert page_of([gpus] * servers, first.pages * float(PAGE_S)) == first
    assert all(page.shape.least_side >= LEAST for page in pages)


@pytest.mark.parametrize(
    ("gpus", "pages"),
    [
        ([384, *[8] * 100], 4),
        ([*[8] * 50, 384, *[8] * 50], 5),
        ([256, *[8] * 40], 2),
        ([2000, *[8] * 40], 2),
        ([*[8] * 40, 2000, *[8] * 40], 3),
    ],
)
def test_a_wide_server_leaves_the_others_their_page(gpus: list[int], pages: int) -> None:
    """Only its own page has few servers; only cells of a server that is too wide for a whole map are smaller."""
    found = [page_of(gpus, number * float(PAGE_S)) for number in range(pages)]

    assert found[0].pages == pages
    assert [number for page in found for number in range(page.first, page.last)] == list(range(len(gpus)))
    for page in found:
        shown = gpus[page.first : page.last]
        assert shown == [2000] or page.shape.least_side >= LEAST, shown


def test_a_map_without_servers_has_one_page() -> None:
    """And a server that has not told its devices has a place."""
    assert (page_of([], 7.0).pages, page_of([], 7.0).last) == (1, 0)
    assert page_of([0], 7.0).last == 1


def test_a_note_takes_no_place_from_a_name() -> None:
    """Servers that stand close have their names alone."""
    roomy, close = page_of([8] * 4, 0.0).shape, page_of([8] * 48, 0.0).shape

    assert roomy.has_room("gpu-of-the-cellar-017", "drained")
    assert not close.has_room("gpu-017", "2 free")
    assert close.letters() >= 6


def test_each_cause_fits_its_line() -> None:
    """Names within a cause lose their middle; a cause is never cut."""
    assert set(FAILURES) == set(EndCause) - PLANNED
    assert set(PREEMPTIONS) == STOPS
    causes = [why_preempted(rule, by=by, own="own") for rule in STOPS for by in ("", LONG)]
    causes += [why_failed(cause, 137) for cause in FAILURES]
    causes += [why_waits(reason, evidence) for reason in WaitReason for evidence in (EVIDENCE, ABOVE, {})]

    assert not [cause for cause in causes if len(cause) > LETTERS or not cause]


@pytest.mark.parametrize(
    ("reason", "evidence", "words"),
    [
        (WaitReason.QUEUE_QUOTA, {"queue_held_gpus": 10, "queue_quota_gpus": 12}, "2 of its queue's quota left"),
        (
            WaitReason.QUEUE_QUOTA,
            {"queue": "research", "queue_held_gpus": 2, "queue_quota_gpus": 8},
            "6 of research's quota left",
        ),
        (
            WaitReason.QUEUE_QUOTA,
            {"queue": "A queue above vision", "queue_held_gpus": 2, "queue_quota_gpus": 8},
            "6 of the quota above left",
        ),
        (
            WaitReason.QUEUE_QUOTA,
            {"queue": "A queue above vision", "queue_held_gpus": 8, "queue_quota_gpus": 8},
            "the quota above is used up",
        ),
        (WaitReason.QUEUE_MAX, {"queue": "A queue above vision"}, "a queue above holds all it may"),
        (WaitReason.QUEUE_MAX, {"queue": LONG}, "a-qu\u2026name holds all it may"),
        (
            WaitReason.QUEUE_QUOTA,
            {"queue": "nlp", "queue_held_gpus": 8, "queue_quota_gpus": 8},
            "nlp's quota is used up",
        ),
        (WaitReason.NO_CAPACITY, {"free_gpus": 0}, "none is free"),
        (WaitReason.BEHIND_POLICY_ORDER, {"ahead_jobs": 1, "free_gpus": 2}, "1 job ahead, 2 are free"),
        (WaitReason.BEHIND_POLICY_ORDER, {"ahead_jobs": 3, "first_needs_gpus": 8, "free_gpus": 2}, "3 jobs ahead"),
        (WaitReason.BEHIND_POLICY_ORDER, {"ahead_jobs": 0}, "next in line"),
        (WaitReason.NEVER_FEASIBLE, {"drained": "gpu-06"}, "gpu-06 is drained"),
    ],
)
def test_reasons_are_told_with_their_number(reason: WaitReason, evidence: Json, words: str) -> None:
    """What is short of, in a few words."""
    assert why_waits(reason, evidence).replace("\u00a0", " ") == words


@pytest.mark.parametrize(
    ("text", "told"),
    [("14:32", ("", "14:32")), ("Wed 00:07", ("Wed", "00:07")), ("30 Nov 00:07", ("30 Nov", "00:07")), ("", ("", ""))],
)
def test_the_day_of_a_time_stands_apart(text: str, told: tuple[str, str]) -> None:
    """So that the time has room for large figures."""
    assert day_and_time(text) == told


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        (24, ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]),
        (3, ["12:00", "12:30", "13:00", "13:30", "14:00"]),
        (1, ["13:40", "13:50", "14:00", "14:10", "14:20"]),
    ],
)
def test_the_band_has_full_hours(hours: int, told: list[str]) -> None:
    """Few enough to be read, none at an edge."""
    span = timedelta(hours=hours)
    found = hours_of(Range(since=UNTIL - span, until=UNTIL, words=""), UTC)

    assert [time for time, _ in found] == told
    assert all(5 <= at <= 95 for _, at in found)
    assert [at for _, at in found] == sorted(at for _, at in found)


def test_the_band_has_drained_devices_on_top_and_ends_now() -> None:
    """Between all devices and those that are left; the dot is where busy ends; the remark amid what was free."""
    free = [0.0, 0.0, 0.0, 4.0, 4.0, 4.0, 0.0, 0.0, 0.0]
    course: dict[str, list[float | None]] = {name: [0.0] * 9 for name in ("unknown_gpus", "broken_gpus")}
    course |= {"num_gpus": [10.0] * 9, "drained_gpus": [2.0] * 9}
    course |= {name: [8.0 - value for value in free] for name in ("allocated_gpus", "busy_gpus")}
    band = band_of(cast(Series, course), [f"0{hour}:00" for hour in range(9)])
    low, high = (float(point.split(",")[1]) for point in (band.drained.split()[-1], band.drained.split()[0]))

    assert 0 < high < low < 14 / 2
    assert band.low == "40\u00a0% was free at 04:00"
    assert 100 * low / 14 < band.low_y < 60
    assert band.now_at == pytest.approx(100 * low / 14, abs=0.1)
    assert not band_of(cast(Series, {**course, "drained_gpus": [0.0] * 9}), ["0"] * 9).drained
