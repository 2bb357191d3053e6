"""Snapshots that pages read while rounds write."""

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.job_table import job_table
from tests.support.rows.factories import AT, job_make

pytestmark = pytest.mark.django_db


def test_job_that_got_its_place_between_two_queries_is_left_out() -> None:
    """It runs by its own row and holds nothing by the leases, which were read before; the others are there."""
    started, waits = job_make(state=JobState.RUNNING), job_make()

    table, job_pks, attempt_pks = job_table({started.queue_id: 0, waits.queue_id: 0}, [], at=AT)

    assert (len(table), job_pks, attempt_pks) == (1, [waits.pk], {})
