"""Runs under faults whose jobs need environments: none starts in half of one, and all of them come to an end."""

import pytest

from scheduler.models import Attempt, Job
from tests.faults.preparing.preparing_run import prepared
from tests.faults.run import clean_database

SHORT_SEED, SHORT_STRIKE_S = 1, 60.0
SEEDS = (3, *range(6, 12))  # others cost up to four times as much and meet the same faults
STRIKE_S = 150.0


@pytest.mark.django_db
def test_short_run_prepares_whoever_is_killed() -> None:
    """As the long ones."""
    outcome = prepared(SHORT_SEED, strike_s=SHORT_STRIKE_S)
    print(outcome)

    assert outcome.faults["kill_builder"] >= 1
    assert Attempt.objects.exclude(job__environment=None).exists()


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.parametrize("seed", SEEDS)
def test_seed_prepares_whoever_is_killed(seed: int) -> None:
    """E1 to E3 hold all the way beside all other invariants, and after healing everything drains."""
    outcome = prepared(seed, strike_s=STRIKE_S)
    print(outcome)

    assert outcome.num_faults >= 20
    assert Job.objects.exclude(environment=None).count() >= 5


@pytest.mark.long
@pytest.mark.django_db
def test_same_seed_prepares_the_same_way() -> None:
    """Digests of traces: files of the run are real, and nothing in it may follow from when they were written."""
    digests = []
    for _ in range(2):
        with clean_database():
            digests.append(prepared(SHORT_SEED, strike_s=SHORT_STRIKE_S).digest)

    assert digests[0] == digests[1]
