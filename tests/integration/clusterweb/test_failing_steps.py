"""Notes about failing parts of the control plane: of several threads, of processes that come and go, on a full disk."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from scheduler.models import Cluster, Event
from scheduler.services.cluster.failing_steps import AGAIN_AFTER, FailureNotes
from scheduler.services.cluster.settings import cluster_row
from tests.support.rows.factories import AT

pytestmark = pytest.mark.django_db
LATER = AT + AGAIN_AFTER
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _cluster(db: None) -> None:
    cluster_row()


def failing() -> dict[str, Any]:
    """Return what is noted, with the error of each."""
    return {step: found["error"] for step, found in Cluster.objects.get().failing_steps.items()}


def told() -> list[tuple[str, str]]:
    """Return what was told, oldest first."""
    rows = Event.objects.filter(kind="step").order_by("pk")
    return [(event.data["step"], event.reason) for event in rows]


def full(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
    """Refuse to write, as a full disk does; to read is well."""
    if sql.startswith(("INSERT", "UPDATE", "DELETE")):
        raise OperationalError("database or disk is full")
    return execute(sql, *arguments)


def test_threads_leave_the_notes_of_others_alone() -> None:
    """Each writes its own part of the one row."""
    first, second = FailureNotes("what-if"), FailureNotes("shadow")
    first.fails("what-if studies", "one", at=AT)
    second.fails("shadow policy", "two", at=AT)
    assert failing() == {"what-if studies": "one", "shadow policy": "two"}

    first.works("what-if studies", at=AT)

    assert failing() == {"shadow policy": "two"}


def test_process_that_starts_removes_what_an_earlier_one_left() -> None:
    """Which was killed while a step failed; what others note is left."""
    FailureNotes("what-if").fails("what-if studies", "one", at=AT)
    FailureNotes("shadow").fails("shadow policy", "two", at=AT)
    FailureNotes("what-if").works("what-if studies", at=AT)

    assert failing() == {"shadow policy": "two"}


def test_note_that_a_second_process_removed_is_made_again() -> None:
    """Without telling it twice."""
    first, second = FailureNotes("what-if"), FailureNotes("what-if")
    first.fails("what-if studies", "one", at=AT)
    second.works("what-if studies", at=AT)
    assert failing() == {}

    first.fails("what-if studies", "one", at=LATER)

    assert failing() == {"what-if studies": "one"}
    assert told() == [("what-if studies", "failing")]


def test_note_that_the_disk_does_not_take_is_written_later(caplog: pytest.LogCaptureFixture) -> None:
    """With the time at which the failure began; the log says once that it could not be told."""
    notes = FailureNotes("steps")
    with connection.execute_wrapper(full):
        for seconds in range(60):
            notes.fails("samples", "disk full", at=AT + timedelta(seconds=seconds))
    assert failing() == {}
    assert [record.message for record in caplog.records] == ["failures_not_noted"]

    notes.fails("samples", "disk full", at=AT + DAY)

    assert failing() == {"samples": "disk full"}
    assert Event.objects.get().at == AT


def test_failure_that_is_over_before_the_disk_takes_it_is_told_as_well() -> None:
    """Both events are written, with their times; of a step that came and went often, two."""
    notes = FailureNotes("steps")
    with connection.execute_wrapper(full):
        for minute in range(5):
            notes.fails("samples", "disk full", at=AT + timedelta(minutes=minute))
            notes.works("samples", at=AT + timedelta(minutes=minute + 1))
    notes.works("leases", at=AT + DAY)

    assert failing() == {}
    assert told() == [("samples", "failing"), ("samples", "well")]
    assert [event.at for event in Event.objects.order_by("pk")] == [AT, AT + timedelta(minutes=5)]
