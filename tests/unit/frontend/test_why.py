"""What the page of a job draws of its waiting: the bar of what held it back, the map, the checks and the list."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpRequest

from frontend.components.devices import GPUS
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.checks import checks_title, row_of
from frontend.pages.jobs.waiting.course import PARTS_MOST, course_of
from frontend.pages.jobs.waiting.freeing import freeing_of, room_for
from frontend.pages.jobs.waiting.server_map import QUEUES_MOST, holders_of, short_clock
from scheduler.models import Job
from scheduler.selectors.cluster.next_free import NextFreeRow
from scheduler.selectors.jobs.reason_rows import CheckRow

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _course(*entries: dict[str, Any]) -> Subject:
    """Return a job with these entries on its timeline, one after another."""
    subject, timeline, at = Subject(request=HttpRequest(), job=Job(), at=NOW, zone=UTC), [], NOW - timedelta(days=2)
    for entry in entries:
        end = at + timedelta(seconds=entry["duration_s"])
        timeline.append({"kind": "wait", "start": at.isoformat(), "end": end.isoformat(), **entry})
        at = end
    subject.__dict__["timeline"] = timeline  # as if it had been read
    return subject


def _subject(*waits_s: float) -> Subject:
    """Return a job that waited so long one time after another, for two reasons in turn."""
    reasons = ("behind_policy_order", "no_capacity")
    return _course(*({"reason": reasons[at % 2], "duration_s": wait_s} for at, wait_s in enumerate(waits_s)))


def _plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_many_short_waits_are_one_part() -> None:
    """Hundreds of turns between two long waits take the place of their sum, not of hundreds of parts."""
    held = course_of(_subject(36_000, *[30, 90] * 200, 36_000))

    assert [part.span for part in held.parts] == [36_000, 24_000, 36_000]
    assert "400 short waits" in _plain(held.parts[1].title)
    assert _plain(held.waited) == "1 d 2 h"
    assert held.is_in_order


def test_each_longer_wait_is_a_part_of_its_own() -> None:
    """Only neighbours that are short are put together; less than a second is left out."""
    held = course_of(_subject(500, 0.4, 300, 3, 200))

    assert [part.span for part in held.parts] == [500, 300, 3, 200]
    assert not course_of(_subject()).parts


def test_a_run_between_waits_is_told_apart_and_its_preemption_is_a_mark() -> None:
    """How long it ran is no part of how long it waited."""
    ran = {"kind": "attempt", "duration_s": 1_800, "receipt": {"rule": "quota_reclaim"}}
    waits = [{"reason": reason, "duration_s": 600} for reason in ("queue_quota", "behind_policy_order")]
    held = course_of(_course(waits[0], ran, waits[1]))

    assert [(part.words, part.is_preempted) for part in held.parts] == [
        ("Quota of the queue", False),
        ("Ran", False),
        ("Behind other jobs", True),
    ]
    assert _plain(held.waited) == "20 min"


def test_more_parts_than_six_are_summed_up_by_reason() -> None:
    """The longest first. More than six reasons are the five longest and the rest."""
    held = course_of(_subject(*[600, 400] * 5))
    assert [(part.words, part.span) for part in held.parts] == [("Behind other jobs", 3_000), ("Too few free", 2_000)]
    assert not held.is_in_order

    reasons = ("queue_quota", "queue_max", "user_limit", "dependency", "no_capacity", "fragmentation", "backoff", "new")
    held = course_of(_course(*({"reason": one, "duration_s": 900 - at} for at, one in enumerate(reasons))))
    assert len(held.parts) == PARTS_MOST
    assert (held.parts[0].words, held.parts[-1].words) == ("Quota of the queue", "Other")
    assert sum(part.span for part in held.parts) == sum(900 - at for at in range(8))


def _row(server: str, *ends: tuple[int, int], free: int = 0, gpus: int = 8) -> NextFreeRow:
    """Return a server with jobs that end so many seconds from now and free so many GPUs."""
    shown: Any = {"id": None, "number": None, "name": "another job", "queue": "another queue", "color_slot": 0}
    return {
        "server": server,
        "num_gpus": gpus,
        "free_gpus": free,
        "ends": [{"at": f"2026-01-05T12:{at // 60:02}:00Z", "num_gpus": count, "job": shown} for at, count in ends],
        "first_at": None,
        "whole_at": None,
        "last_job": None,
    }


def test_the_first_server_with_room_counts_what_is_free_and_what_ends() -> None:
    """A job of four: two free and two more soon are earlier than a whole server later."""
    rows = [_row("late", (1800, 8)), _row("soon", (60, 1), (600, 1), (1200, 4), free=2), _row("never", (60, 2))]
    room = room_for(rows, 4)

    assert room
    assert (room.server, room.num_gpus, room.is_whole) == ("soon", 4, False)
    assert room.at == NOW + timedelta(seconds=600)
    whole = room_for(rows, 8)
    assert whole
    assert (whole.server, whole.is_whole) == ("soon", True)
    assert room_for(rows, 9) is None


def _waiting(reason: str, *, gpus: int = 4, max_servers: int = 1) -> Subject:
    """Return a job that waits for this reason, without an estimate."""
    job = Job(num_gpus=gpus, smoke_due=False, spec={"resources": {"max_servers": max_servers}})
    subject = Subject(request=HttpRequest(), job=job, at=NOW, zone=UTC)
    subject.__dict__["device"] = GPUS
    subject.__dict__["explain"] = {"reason": reason, "estimate": None, "num_ahead": 2}
    subject.__dict__["servers"] = []
    return subject


@pytest.mark.parametrize(
    ("reason", "room"),
    [
        ("behind_policy_order", "free has room for it now, and jobs ahead go first"),
        ("fragmentation", None),
        ("cpu_or_memory", None),
        ("queue_quota", None),
    ],
)
def test_ends_of_jobs_are_not_told_where_room_is_not_what_it_waits_for(reason: str, room: str | None) -> None:
    """Beside a server with room now, a later one is not the first."""
    freeing = freeing_of(_waiting(reason), [_row("free", free=8), _row("late", (1800, 8))])

    assert (freeing and freeing.title) == room
    assert freeing_of(_waiting("queue_quota"), [_row("late", (1800, 8))]) is None


def test_a_job_that_may_take_several_servers_is_not_told_of_one() -> None:
    """Four here and four there are enough for its eight."""
    rows = [_row("node-1", (600, 4), (1800, 4)), _row("node-2", (600, 4), (2400, 4))]
    freeing = freeing_of(_waiting("no_capacity", gpus=8, max_servers=2), rows)

    assert freeing
    assert (_plain(freeing.title), freeing.room) == ("It may take up to 2 servers", None)
    assert not any("Too few" in event.detail for event in freeing.events)
    alone = freeing_of(_waiting("no_capacity", gpus=8), rows)
    assert alone
    assert alone.title == "node-1 is the first whole server for it"


def _gpu(queue: str | None, slot: int | None = None, *, healthy: bool = True) -> Any:
    return {"allocated": queue is not None, "queue": queue, "color_slot": slot, "healthy": healthy}


def test_the_legend_counts_the_gpus_of_each_queue_and_what_none_holds() -> None:
    """Queues by size, those that the reader may not see last; free, drained and broken only where there are some."""
    up: Any = {"state": "up", "gpus": [_gpu("vision", 1), *[_gpu("nlp", 2)] * 2, *[_gpu("another queue", 0)] * 4]}
    down: Any = {"state": "draining", "gpus": [_gpu(None), _gpu(None, healthy=False)]}
    free: Any = {"state": "up", "gpus": [_gpu(None)]}

    assert [(one.name, one.count) for one in holders_of([up, down])] == [
        ("nlp", 2),
        ("vision", 1),
        ("another queue", 4),
        ("drained", 1),
        ("broken", 1),
    ]
    assert holders_of([free])[0].css == "free"


def test_what_takes_no_jobs_is_not_free() -> None:
    """Nor is a GPU that broke under its job still that of a queue."""
    rows: list[Any] = [{"state": state, "gpus": [_gpu(None)] * 8} for state in ("lost", "joining")]
    broke: Any = {"state": "up", "gpus": [_gpu("vision", 1, healthy=False)]}

    assert [(one.name, one.count) for one in holders_of(rows)] == [("on servers that are not up", 16)]
    assert [(one.name, one.count) for one in holders_of([broke])] == [("broken", 1)]


def test_past_eight_queues_the_legend_has_the_largest_and_the_rest() -> None:
    """So many colours can be told apart."""
    row: Any = {"state": "up", "gpus": [_gpu(f"team-{n}", n % 8 + 1) for n in range(12) for _ in range(n + 1)]}
    holders = holders_of([row])

    assert len(holders) == QUEUES_MOST
    assert (holders[0].name, holders[-1].name, holders[-1].css) == ("team-11", "other queues", "q0")
    assert sum(one.count for one in holders) == 78


def test_a_time_of_another_day_is_that_day_in_the_map() -> None:
    """A column has room for no more."""
    subject = _subject()
    days = [short_clock(subject, NOW + timedelta(days=days)) for days in (0, 1, 9)]

    assert days == ["12:00", "Tue", "14 Jan"]


def _check(name: str, text: str = "", *, ok: bool = True) -> CheckRow:
    return {"name": name, "ok": ok, "text": text}


PASSING = [
    _check("Scheduler"),
    _check("Quota of nlp", "36 + 8 of 40"),
    _check("Jobs that it waits for", "no other job"),
    _check("GPUs in the cluster", "needs 8, 9 free"),
    _check("GPUs on one server", "needs 8, largest is 8"),
    _check("CPU and memory"),
]


def test_the_row_of_checks_has_five_and_what_else_fails() -> None:
    """Of a kind what fails is shown, else the first; that no limit is set is said."""
    row = row_of(PASSING)
    assert [check["name"] for check in row] == ["Quota of nlp", "Limit", "Waits for", "CPU, memory", "Free GPUs"]
    assert (row[1]["text"], row[4]["text"]) == ("none is set", "needs 8, 9 free")

    spread = _check("GPUs on one server", "needs 8, largest is 7", ok=False)
    row = row_of([*PASSING[:4], spread, PASSING[5], _check("Jobs ahead", "3 go first", ok=False)])
    assert [check["name"] for check in row if not check["ok"]] == ["Free GPUs", "Jobs ahead"]
    assert row[4]["text"] == "needs 8, largest is 7"
    assert checks_title(row) == "4 of 6\u00a0checks pass"
    assert row_of([]) == []
