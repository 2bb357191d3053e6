"""Many rows are written as by one update for each of them."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from benchmarks.support.postgres import postgres, programs
from scheduler.models import Job
from scheduler.services.many_rows import RowChange, rows_update
from tests.support.rows.factories import AT, job_make

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_values(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Times, texts, numbers, JSON and nothing at all; rows with the same columns share a statement."""
    first, second, third, other = jobs = [job_make() for _ in range(4)]
    wait = {"wait_since": AT + timedelta(microseconds=1), "wait_evidence": {"free": 1}, "wait_position": 3}
    changes: list[RowChange] = [
        (first.pk, wait),
        (second.pk, wait | {"wait_since": None}),
        (third.pk, {"loss": 0.5, "step": 7}),
    ]
    with django_assert_num_queries(2):
        rows_update(Job, changes)

    for job in jobs:
        job.refresh_from_db()
    assert (first.wait_since, first.wait_evidence, first.wait_position) == (wait["wait_since"], {"free": 1}, 3)
    assert (second.wait_since, second.wait_evidence, second.wait_position) == (None, {"free": 1}, 3)
    assert (third.loss, third.step, third.wait_position) == (0.5, 7, None)
    assert (other.loss, other.step, other.wait_position) == (None, None, None)


def test_nothing_to_write_asks_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """No row, no statement."""
    with django_assert_num_queries(0):
        rows_update(Job, [])


@pytest.mark.long
@pytest.mark.skipif(programs() is None, reason="ROWS BY ARRAYS ARE NOT TESTED: no PostgreSQL here")
def test_postgresql_writes_them_the_same_way(processes: None) -> None:
    """By another statement; the tests above in a process of their own, as this one has its database already."""
    with postgres() as url:
        ours = ("DJANGO_SETTINGS_MODULE", "VAR_DIR", "PYTEST_")  # the set-up of this run and of its worker
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "not postgresql", __file__]
        done = subprocess.run(command, env=env | {"DATABASE_URL": url}, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "100%" in done.stdout
