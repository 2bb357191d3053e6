"""Who runs when queues have quotas and lend what they do not use, on one server, against the rule written out.

On one server only counts matter: a job within the quota of its queue runs; the others borrow, first those that begin
inside the fair share of their queue, in the order of the policy, stepping over whoever no longer fits.
"""

import os
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random

import pytest

from scheduler.core.model.plan import PreemptRule
from scheduler.core.round.plan_round import plan_round
from scheduler.policies import POLICIES
from tests.oracle.test_rounds import config_of
from tests.support.oracle.cases import Case, random_case, smallest
from tests.support.oracle.orders import ORDERS
from tests.support.simulator.strategies import QueueRow, ServerRow

CASES = int(os.environ.get("ORACLE_CASES", "150"))


def _fair_shares(case: Case) -> list[Fraction]:
    """Return quota first, then what is idle by weight, nobody above its demand: raised drop by drop."""
    demand = [
        Fraction(sum(job.num_gpus for job in case.jobs if job.queue == queue and job.num_gpus <= case.num_gpus))
        for queue in range(len(case.queues))
    ]
    shares = [min(want, Fraction(queue.quota_gpus)) for want, queue in zip(demand, case.queues, strict=True)]
    weight = [Fraction(queue.weight) for queue in case.queues]
    left = Fraction(case.num_gpus) - sum(shares, start=Fraction(0))
    while left > 0:
        thirsty = [queue for queue, want in enumerate(demand) if shares[queue] < want]
        if not thirsty:
            break
        total = sum((weight[queue] for queue in thirsty), start=Fraction(0))
        step = min(left / total, *((demand[queue] - shares[queue]) / weight[queue] for queue in thirsty))
        for queue in thirsty:
            shares[queue] += step * weight[queue]
        left -= step * total
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rights:
    """Jobs by what their queue entitles them to, each in the order of the policy."""

    covered: list[int]
    inside: list[int]
    beyond: list[int]


def _rights(case: Case, order: list[int]) -> _Rights:
    jobs, shares = case.jobs, _fair_shares(case)
    possible = [job for job in order if jobs[job].num_gpus <= case.num_gpus]
    quota = [queue.quota_gpus for queue in case.queues]
    covered = []
    for job in possible:
        if jobs[job].num_gpus <= quota[jobs[job].queue]:
            quota[jobs[job].queue] -= jobs[job].num_gpus
            covered.append(job)
    used = [Fraction(queue.quota_gpus - left) for queue, left in zip(case.queues, quota, strict=True)]
    inside, beyond = [], []
    for job in possible:
        if job in covered:
            continue
        queue = jobs[job].queue
        # The gang that crosses the line still counts as inside; whoever comes after it does not.
        if used[queue] < shares[queue]:
            inside.append(job)
        else:
            beyond.append(job)
        used[queue] += jobs[job].num_gpus
    return _Rights(covered=covered, inside=inside, beyond=beyond)


def _runs(case: Case, order: list[int]) -> set[int]:
    jobs, rights = case.jobs, _rights(case, order)
    free, running = case.num_gpus, set()
    for job in [*rights.covered, *rights.inside, *rights.beyond]:
        if jobs[job].num_gpus <= free:
            running.add(job)
            free -= jobs[job].num_gpus
    return running


def _queued_case(rng: Random) -> Case:
    case = random_case(rng, most_servers=1, running=False)
    size = rng.choice([4, 8, 12, 16])
    num_queues, left, queues = rng.randint(1, 4), size, []
    for _ in range(num_queues):
        quota = rng.randint(0, left)
        left -= quota
        queues.append(QueueRow(quota_gpus=quota, weight=rng.choice([1.0, 1.0, 2.0, 0.5])))
    free, jobs = size, []
    for job in case.jobs:
        runs = rng.random() < 0.5 and job.num_gpus <= free
        free -= job.num_gpus if runs else 0
        jobs.append(
            replace(
                job,
                queue=rng.randrange(num_queues),
                seats=((0, job.num_gpus),) if runs else (),
                first_start_s=9_000.0 if runs else job.first_start_s,
                held_at_s=9_000.0,
                waited_s=0.0 if runs else job.waited_s,
            )
        )
    server = ServerRow(num_gpus=size, num_cpus=3.0 * size, memory_bytes=64 * 2.0**30 * size)
    return replace(case, jobs=tuple(jobs), queues=tuple(queues), servers=(server,), racks=(0,))


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in ORDERS and ORDERS[name].preemptive])
def test_who_runs_within_quotas(policy: str) -> None:
    """Covered jobs, then borrowers inside their fair share, then the others; who runs already does not matter."""
    rng = Random(f"quotas-{policy}")

    def differs(case: Case) -> object:
        plan = plan_round(case.snapshot(), config_of(policy, "consolidate", "proportional"))
        plain = _runs(case, ORDERS[policy].of(case))
        core = set(plan.grants.job.tolist())
        return core != plain and (core, plain)

    for _ in range(CASES):
        case = _queued_case(rng)
        if differs(case):
            least = smallest(case, differs)
            pytest.fail(f"{policy} {least.queues}\n{least.told()}\ncore, oracle {differs(least)}")


def _holds(rule: PreemptRule, case: Case, order: list[int], victim: int, by: int) -> bool:
    """Return whether what the rule says of two jobs is true."""
    rights = _rights(case, order)
    if rule is PreemptRule.QUOTA_RECLAIM:
        return by in rights.covered and victim not in rights.covered
    if rule is PreemptRule.OVER_SHARE:
        return by in rights.inside and victim in rights.beyond and case.jobs[by].queue != case.jobs[victim].queue
    return rule is PreemptRule.POLICY_ORDER and order.index(by) < order.index(victim)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name in ORDERS and ORDERS[name].preemptive])
def test_what_is_said_of_a_preemption_is_true(policy: str) -> None:
    """Of every job that has to stop, the rule holds between it and the job that takes its GPUs."""
    rng, told = Random(f"rules-{policy}"), Counter[PreemptRule]()

    def wrong(case: Case) -> object:
        plan = plan_round(case.snapshot(), config_of(policy, "consolidate", "proportional"))
        order = ORDERS[policy].of(case)
        told.update(stop.rule for stop in plan.preemptions)
        return [
            (stop.job, stop.by_job, stop.rule)
            for stop in plan.preemptions
            if not _holds(stop.rule, case, order, stop.job, stop.by_job)
        ]

    for _ in range(CASES):
        case = _queued_case(rng)
        if wrong(case):
            least = smallest(case, wrong)
            pytest.fail(f"{policy} {least.queues}\n{least.told()}\njob, by, rule: {wrong(least)}")
    assert min(told[PreemptRule.QUOTA_RECLAIM], told[PreemptRule.OVER_SHARE]) > 0
