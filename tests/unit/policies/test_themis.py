"""Themis: the auction, the filter and leases."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.profile import Profile
from scheduler.policies.math.auction import NOTHING, Bid, award, levels
from scheduler.policies.themis import Market, Themis, offered_jobs
from tests.support.simulator.elastic import elastic_job, holding
from tests.support.simulator.strategies import NOW_S, JobRow, ServerRow, snapshot_of

# Work, most GPUs, age and work left of three apps; speed(k) = min(k, most)^0.9.
APPS = {"A": (8.0, 4, 4.0, 6.0), "B": (16.0, 8, 2.0, 14.0), "C": (4.0, 2, 0.0, 4.0)}


def _rho(app: str, gpus: int) -> float:
    work, most, age, left = APPS[app]
    ideal = work / min(8 / 3, most) ** 0.9
    return float((age + left / min(gpus, most) ** 0.9) / ideal)


def _bids() -> list[Bid]:
    values = {app: [NOTHING, *(1 / _rho(app, gpus) for gpus in range(1, 9))] for app in APPS}
    return [Bid(num_gpus=tuple(range(9)), value=tuple(values[app])) for app in APPS]


def test_auction_of_three_apps() -> None:
    """Themis example 1: the fair point (2, 4, 2), what each may keep, and the grants 1, 3, 1 with 3 left over."""
    assert [round(_rho("A", gpus), 3) for gpus in (1, 2, 3, 4)] == [3.022, 2.180, 1.883, 1.729]
    assert [round(_rho("B", gpus), 3) for gpus in (1, 2, 3, 4, 6)] == [2.418, 1.436, 1.089, 0.910, 0.724]
    result = award(_bids(), 8)

    assert result.fair_gpus.tolist() == [2, 4, 2]
    assert round(float(np.exp(result.value)), 3) == 0.504
    assert [round(part, 3) for part in result.kept_part.tolist()] == [0.796, 0.793, 0.759]
    assert result.num_gpus.tolist() == [1, 3, 1]


@pytest.mark.parametrize(("absent", "others"), [(0, [6, 2]), (1, [4, 2]), (2, [3, 5])])
def test_auction_without_one_app(absent: int, others: list[int]) -> None:
    """Themis example 1: what the two others would take."""
    bids = _bids()
    del bids[absent]
    # An app takes no more than it can use, so the values of more GPUs than that are equal and the fewest are taken.
    assert award(bids, 8).fair_gpus.tolist() == others


@given(
    rates=st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.1, 9.0), st.integers(1, 9)), min_size=1, max_size=6),
    gpus=st.integers(1, 12),
)
def test_payments_are_parts(rates: list[tuple[float, float, int]], gpus: int) -> None:
    """Every bidder keeps more than nothing and no more than all of its fair share; a single bidder keeps all."""
    bids = [
        Bid(num_gpus=tuple(range(most + 1)), value=(NOTHING, *(1 / (age + left / k) for k in range(1, most + 1))))
        for age, left, most in rates
    ]
    result = award(bids, gpus)

    assert ((result.kept_part > 0) & (result.kept_part <= 1)).all()
    assert result.fair_gpus.sum() <= gpus
    assert len(bids) > 1 or result.kept_part.tolist() == [1.0]


def test_the_auction_finds_the_best_product() -> None:
    """On 200 random markets of three apps no other split has a larger product of values."""
    draws = np.random.default_rng(3)
    for _ in range(200):
        gpus = int(draws.integers(1, 9))
        values = np.sort(draws.uniform(0.05, 3.0, size=(3, gpus + 1)), axis=1)
        bids = [Bid(num_gpus=tuple(range(gpus + 1)), value=tuple(row)) for row in values.tolist()]
        best = max(
            values[0, a] * values[1, b] * values[2, c]
            for a in range(gpus + 1)
            for b in range(gpus + 1 - a)
            for c in range(gpus + 1 - a - b)
        )
        assert np.exp(award(bids, gpus).value) == pytest.approx(best)


def test_telling_a_worse_state_does_not_pay() -> None:
    """Homogeneous market in shares of any size: claiming to be twice as badly off never raises what one keeps.

    Values proportional to GPUs with one weight each; the fluid mechanism splits evenly whatever the weights, and a
    common factor on a bidder's table changes neither its share nor its payment.
    """
    draws = np.random.default_rng(5)
    for _ in range(1_000):
        bidders, gpus = int(draws.integers(2, 5)), int(draws.integers(4, 13))
        weights = draws.uniform(0.2, 5.0, size=bidders)
        bids = [
            Bid(num_gpus=tuple(range(gpus + 1)), value=(NOTHING, *(w * k for k in range(1, gpus + 1)))) for w in weights
        ]
        honest = award(bids, gpus)
        lied = [replace(bids[0], value=(NOTHING, *(value / 2 for value in bids[0].value[1:]))), *bids[1:]]
        kept = award(lied, gpus)
        assert kept.fair_gpus[0] * kept.kept_part[0] <= honest.fair_gpus[0] * honest.kept_part[0] + 1e-9


def test_filter_offers_to_the_worst_part_of_the_apps() -> None:
    """Themis example 2: of five apps 0.8 offers to one, 0.4 to three; never fewer with less fairness, always one."""
    assert (offered_jobs(0.8, 5), offered_jobs(0.4, 5), offered_jobs(0.0, 5), offered_jobs(1.0, 5)) == (1, 3, 5, 1)
    counts = [offered_jobs(step / 20, 13) for step in range(21)]
    assert counts == sorted(counts, reverse=True)


def test_bids_name_powers_of_two_and_the_most() -> None:
    """A job on one GPU or more names 0, 1, 2, 4 ... and its most; a gang of 3 at least begins there."""
    assert levels(1, 6) == (0, 1, 2, 4, 6)
    assert levels(3, 12) == (0, 3, 4, 8, 12)
    assert levels(4, 4) == (0, 4)


def test_a_spread_gang_is_worth_less() -> None:
    """A job that halves its speed over servers bids no more for 6 spread GPUs than for 4 on one server."""
    spread = Profile(skew=0.2 + 4 / 3)  # 1 / (1 + 1.5 * 4 / 3 * 1 / 2) = .5 on two servers
    job = replace(elastic_job(work_s=3_600.0, max_gpus=6), profile=spread)
    snapshot = snapshot_of([job], [ServerRow(num_gpus=4), ServerRow(num_gpus=4)])
    bid = Market.of(snapshot, 8).bid(0, 0, 8)

    assert max(bid.num_gpus) == 4
    assert award([bid], 8).num_gpus.tolist() == [4]


def test_a_spread_gang_is_worth_what_was_measured() -> None:
    """Three GPUs on each of two servers were measured at half speed, four at full speed."""
    job = replace(elastic_job(work_s=3_600.0, max_gpus=8), profile=Profile(spread=((3.0, 0.5), (4.0, 1.0))))
    market = Market.of(snapshot_of([job], [ServerRow(num_gpus=4), ServerRow(num_gpus=4)]), 8)

    assert market.table.speed[market.row[0], [4, 6, 8]].tolist() == [4.0, 4.0, 8.0]


def test_alone_with_all_it_can_use_a_job_is_not_worse_off() -> None:
    """Alone on the cluster rho is at most 1; equal jobs with equal shares have rho 1."""
    alone = snapshot_of([elastic_job(work_s=100.0, max_gpus=8, arrival_s=NOW_S)], [ServerRow()])
    assert Market.of(alone, 8).rho(np.array([8])).tolist() == pytest.approx([1.0])
    jobs = [replace(elastic_job(work_s=100.0, max_gpus=8, arrival_s=NOW_S), sharers=4.0) for _ in range(4)]
    assert Market.of(snapshot_of(jobs, [ServerRow()]), 8).rho(np.full(4, 2)).tolist() == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("fairness", [0.0, 0.4, 0.8, 1.0])
def test_nothing_is_left_that_somebody_can_use(fairness: float) -> None:
    """Withheld and unwanted GPUs go on until no job can use one, gangs included."""
    jobs = [elastic_job(work_s=100.0 * number, max_gpus=number, arrival_s=NOW_S - number) for number in (1, 2, 3, 5)]
    jobs.append(JobRow(num_gpus=4, remaining_s=500.0, arrival_s=NOW_S - 9))
    shares = Themis(fairness=fairness).shares(snapshot_of(jobs, [ServerRow(num_gpus=8)]), 8)

    assert shares.sum() == 8
    everything = Themis(fairness=fairness).shares(snapshot_of(jobs, [ServerRow(num_gpus=32)]), 32)
    assert everything.tolist() == [1, 2, 3, 5, 4]


def test_a_lease_is_kept_until_it_ends_and_won_again_without_a_change() -> None:
    """Inside its lease a job keeps its GPUs against a worse-off one; when it ends, they are bid for."""
    jobs = [
        elastic_job(work_s=10_000.0, max_gpus=4, arrival_s=NOW_S - 1_200.0),
        elastic_job(work_s=10_000.0, max_gpus=4),
    ]
    snapshot = holding(snapshot_of(jobs, [ServerRow(num_gpus=4)]), [4, 0])

    def shares(since_s: float, *, round_s: float = 60.0) -> list[int]:
        held_at = np.array([NOW_S - since_s, np.inf])
        aged = replace(snapshot, jobs=replace(snapshot.jobs, held_at_s=held_at), round_s=round_s)
        return [int(share) for share in Themis().shares(aged, 4)]

    assert shares(600.0) == [4, 0]
    assert shares(1_200.0) != [4, 0]
    # Rounds come when they come: a lease ends in the first one after its end, and only there.
    for round_s in (10.0, 60.0, 300.0):
        assert shares(1_199.9, round_s=round_s) == shares(1_200.0 + round_s, round_s=round_s) == [4, 0]
        assert shares(1_199.9 + round_s, round_s=round_s) != [4, 0]
    alone = replace(snapshot_of(jobs[:1], [ServerRow(num_gpus=4)]))
    renewed = holding(alone, [4])
    renewed = replace(renewed, jobs=replace(renewed.jobs, held_at_s=np.array([NOW_S - 1_200.0])))
    assert Themis().shares(renewed, 4).tolist() == [4]


def test_strawman_gives_everything_to_the_worst_off() -> None:
    """Themis example 1, strawman: the oldest takes 4, the next 4, the third nothing."""
    rows = [
        replace(elastic_job(work_s=left, max_gpus=most, arrival_s=NOW_S - age), sharers=3.0, total_s=work)
        for work, most, age, left in APPS.values()
    ]
    assert Themis(auction=False).shares(snapshot_of(rows, [ServerRow()]), 8).tolist() == [4, 4, 0]
