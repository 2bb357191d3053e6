"""The ledger adds up: GPU-hours, courses and loans of random holdings agree with each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.tables import FloatArray
from scheduler.core.operations.ledger import Holdings, gpu_seconds, held_over_time, loans, means_between, steps_at
from tests.support.suite.examples import tried

ACCOUNTS = 3
BEGIN_S, END_S = 100.0, 1_100.0


@st.composite
def some_holdings(draw: st.DrawFn) -> Holdings:
    """Return holdings that begin and end before, in and after the range."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, ACCOUNTS - 1), st.integers(1, 8), st.integers(0, 1_200), st.none() | st.integers(0, 900)
            ),
            max_size=12,
        )
    )
    begin_s = np.array([float(row[2]) for row in rows])
    return Holdings(
        account=np.array([row[0] for row in rows], dtype=np.int64),
        num_gpus=np.array([float(row[1]) for row in rows]),
        begin_s=begin_s,
        end_s=np.array([np.inf if row[3] is None else row[2] + float(row[3]) for row in rows]),
    )


def over_range(holdings: Holdings, also_at_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what is held over the range."""
    return held_over_time(holdings, accounts=ACCOUNTS, since_s=BEGIN_S, until_s=END_S, also_at_s=also_at_s)


@given(holdings=some_holdings(), cut_s=st.integers(100, 1_100))
def test_gpu_seconds_are_those_of_the_course_and_add_up_over_ranges(holdings: Holdings, cut_s: int) -> None:
    """The sum by holding is the area under the course, and two halves of a range are the whole."""
    whole = gpu_seconds(holdings, since_s=BEGIN_S, until_s=END_S)
    at_s, held = over_range(holdings, np.array([float(cut_s)]))
    area = (held[:-1] * np.diff(at_s)[:, None]).sum(axis=0)

    np.testing.assert_allclose(np.bincount(holdings.account, whole, ACCOUNTS), area)
    halves = [gpu_seconds(holdings, since_s=a, until_s=b) for a, b in ((BEGIN_S, cut_s), (cut_s, END_S))]
    np.testing.assert_allclose(sum(halves), whole)
    assert (whole >= 0).all()


@given(holdings=some_holdings(), parts=st.integers(1, 30))
def test_means_of_parts_have_the_area_of_the_whole(holdings: Holdings, parts: int) -> None:
    """A chart of few points neither loses nor invents a GPU-second."""
    at_s, held = over_range(holdings, np.zeros(0))
    edges_s = np.linspace(BEGIN_S, END_S, parts + 1)

    means = means_between(at_s, held[:, 0], edges_s)

    np.testing.assert_allclose((means * np.diff(edges_s)).sum(), (held[:-1, 0] * np.diff(at_s)).sum(), atol=1e-6)


@tried(200)
@given(
    holdings=some_holdings(),
    quotas=st.lists(st.lists(st.integers(0, 10), min_size=2, max_size=2), min_size=ACCOUNTS, max_size=ACCOUNTS),
    capacity=st.integers(0, 60),
)
def test_what_is_borrowed_is_lent_and_nobody_lends_more_than_it_leaves(
    holdings: Holdings, quotas: list[list[int]], capacity: int
) -> None:
    """Every borrowed GPU-second has one lender; no queue lends what it uses, borrows its own, or does both at once."""
    changed_at_s = np.array([600.0])
    at_s, held = over_range(holdings, changed_at_s)
    quota = np.stack([steps_at(at_s, changed_at_s, np.array(of, dtype=np.float64)) for of in quotas], axis=1)
    span_s = np.diff(at_s)[:, None]

    found = loans(at_s, held, quota, np.full(len(at_s), float(capacity)))

    borrowed_gpu_s = (np.maximum(0.0, held - quota)[:-1] * span_s).sum(axis=0)
    unused_gpu_s = (np.maximum(0.0, quota - held)[:-1] * span_s).sum(axis=0)
    np.testing.assert_allclose(found.gpu_s.sum(axis=0), borrowed_gpu_s, atol=1e-6)
    assert (found.gpu_s[:-1].sum(axis=1) <= unused_gpu_s + 1e-6).all()
    assert (found.gpu_s >= -1e-9).all()
    for account in range(ACCOUNTS):
        lends = found.now_gpus[account].sum() > 1e-9
        assert not (lends and found.now_gpus[:, account].sum() > 1e-9)


def test_gpus_without_a_quota_are_lent_first_and_the_rest_in_proportion_to_what_is_left() -> None:
    """Ten GPUs, quotas 2, 3 and 3: the first holds 8, of the 6 too many 2 are nobody's and the others leave 2 each.."""
    holdings = Holdings(
        account=np.array([0]), num_gpus=np.array([8.0]), begin_s=np.array([0.0]), end_s=np.array([np.inf])
    )
    at_s, held = over_range(holdings, np.zeros(0))

    found = loans(at_s, held, np.tile([2.0, 3.0, 3.0], (len(at_s), 1)), np.full(len(at_s), 10.0))

    np.testing.assert_allclose(found.now_gpus[:, 0], [0.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(found.gpu_s[:, 0], [0.0, 2_000.0, 2_000.0, 2_000.0])
