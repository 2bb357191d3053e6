"""What the page of a job draws of its waiting."""

from datetime import UTC, datetime, timedelta

from django.http import HttpRequest

from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.why import pieces_of
from scheduler.models import Job

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _subject(*waits_s: float) -> Subject:
    """Return a job that waited so long one time after another, for two reasons in turn."""
    subject, timeline, at = Subject(request=HttpRequest(), job=Job(), at=NOW, zone=UTC), [], NOW - timedelta(days=2)
    for number, wait_s in enumerate(waits_s):
        reason = ("behind_policy_order", "no_capacity")[number % 2]
        timeline.append({"kind": "wait", "reason": reason, "start": at.isoformat(), "duration_s": wait_s})
        at += timedelta(seconds=wait_s)
    subject.__dict__["timeline"] = timeline  # as if it had been read
    return subject


def test_many_short_waits_are_one_piece() -> None:
    """Hundreds of turns between two long waits take the place of their sum, not of hundreds of pieces."""
    pieces, total = pieces_of(_subject(36_000, *[30, 90] * 200, 36_000))

    assert [(piece.span, bool(piece.words)) for piece in pieces] == [(36_000, True), (24_000, False), (36_000, True)]
    assert "400 short waits" in pieces[1].title.replace("\u00a0", " ")
    assert total.replace("\u00a0", " ") == "1 d 2 h"


def test_each_longer_wait_is_a_piece_of_its_own() -> None:
    """Only neighbours that are short are put together; less than a second is left out."""
    pieces, _ = pieces_of(_subject(500, 0.4, 300, 3, 200))

    assert [piece.span for piece in pieces] == [500, 300, 3, 200]
    assert not pieces_of(_subject())[0]
