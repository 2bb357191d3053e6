"""Themis: finish-time fairness by policy, by the fairness knob and by the length of a lease."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.reproduce.elastic_cluster import CLUSTER_GPUS, replay, workload
from benchmarks.reproduce.row import Row
from scheduler.core.model.profile import scaling
from scheduler.core.model.tables import FloatArray
from scheduler.core.operations.metrics import percentile
from scheduler.core.round.config import Policy
from scheduler.policies.ftf import Ftf
from scheduler.policies.las import Las
from scheduler.policies.maxmin import Maxmin
from scheduler.policies.themis import Themis
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.outcome import Records

TITLE = "Themis"
SOURCE = "Mahajan et al., *Themis: Fair and Efficient GPU Cluster Scheduling*, NSDI 2020."

HOUR_S = 3_600.0
JOBS, LOAD, SEEDS = 250, 3.0, (1, 2)
# The same with less contention.
FEWER_JOBS, LOWER_LOAD = 150, 2.0
ROUND_S = 300.0
SETTING = (
    f"{JOBS} jobs, lengths and gangs like Philly's, scaling on A100, {CLUSTER_GPUS} GPUs, load {LOAD}, rounds of "
    f"{ROUND_S:.0f} s, seeds {', '.join(map(str, SEEDS))} together"
)
BEST = "Themis"


@dataclass(frozen=True, slots=True)
class Figures:
    """Over the jobs of all seeds: rho, mean completion time, GPU time, changes of a job's GPUs, GPUs asked for each
    that there is when the last job comes.
    """

    rho: list[float]
    jct_s: float
    service_gpu_s: float
    changes: float
    contention: float

    def __str__(self) -> str:
        return f"{self.rho[-1]:.2f}, {percentile(self.rho, 0.95):.2f}, {np.mean(self.rho):.2f}"


def rows() -> list[Row]:
    """Return the figures."""
    arms: Mapping[str, Policy] = {
        "finish-time fairness order": Ftf(lease_s=0.0),
        "Tiresias-L": Las(),
        "equal shares": Maxmin(),
        "strawman, all to the worst-off": Themis(auction=False),
    }
    knob = {fairness: _figures(Themis(fairness=fairness)) for fairness in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
    themis = knob[0.8]
    others = {name: _figures(policy) for name, policy in arms.items()}
    return [
        *_policies({BEST: themis, **others}),
        *_beside(themis, others),
        _lighter(),
        *_knob(knob),
        *_leases({1_200.0: themis}),
    ]


def _figures(policy: Policy, *, num_jobs: int = JOBS, load: float = LOAD) -> Figures:
    rho: list[float] = []
    jct_s, service_gpu_s, changes, contention = [], 0.0, [], []
    for seed in SEEDS:
        jobs = [replace(job, max_gpus=job.num_gpus) for job in workload(num_jobs, load=load, seed=seed)]
        # Leases end at moments of their own, between which nothing happens: every round has to be looked at.
        records = replay(jobs, policy, round_s=ROUND_S, skip=not isinstance(policy, Themis)).records
        rho += finish_time_fairness(jobs, records).tolist()
        jct_s.append(float(np.mean(records.jct_s)))
        service_gpu_s += float(records.service_gpu_s.sum())
        changes.append(float(np.mean(records.reconfigurations + records.preemptions)))
        there = records.end_s > records.arrival_s.max()
        contention.append(float(records.num_gpus[there].sum()) / CLUSTER_GPUS)
    return Figures(
        rho=sorted(rho),
        jct_s=float(np.mean(jct_s)),
        service_gpu_s=service_gpu_s,
        changes=float(np.mean(changes)),
        contention=float(np.mean(contention)),
    )


def finish_time_fairness(jobs: Sequence[SimJob], records: Records) -> FloatArray:
    """Return (n,) completion time over the time alone on an equal share, with the scaling of the job.

    The share is that of the cluster among as many jobs as were active on average while it was, no more than the job
    can use; below one GPU the speed falls in proportion.
    """
    begin_s, end_s = records.arrival_s, records.end_s
    shared_s = np.minimum(end_s[:, None], end_s) - np.maximum(begin_s[:, None], begin_s)
    sharers = np.maximum(0.0, shared_s).sum(axis=1) / records.jct_s
    own_s = [
        job.run_s * scaling(job.profile, job.num_gpus) / scaling(job.profile, min(CLUSTER_GPUS / count, job.num_gpus))
        for job, count in zip(jobs, sharers.tolist(), strict=True)
    ]
    rho: FloatArray = records.jct_s / np.array(own_s)
    return rho


def _policies(found: Mapping[str, Figures]) -> list[Row]:
    return [
        Row(
            figure=f"rho: max, 95 %, mean: {name}",
            published="about 1.2 at most" if name == BEST else "",
            ours=str(each),
            setting=SETTING,
            ratio=each.rho[-1] / 1.2 if name == BEST else None,
            note=f"mean completion {each.jct_s / HOUR_S:.1f} h, {each.service_gpu_s / HOUR_S:,.0f} GPU-hours held, "
            f"{each.changes:.1f} changes of a job's GPUs, {each.contention:.1f} GPUs asked for each there is "
            "when the last job comes",
        )
        for name, each in found.items()
    ]


def _beside(themis: Figures, others: Mapping[str, Figures]) -> list[Row]:
    return [
        Row(
            figure=f"largest rho, {name} over Themis, times",
            published="more than 2.25 against earlier schedulers",
            ours=f"{each.rho[-1] / themis.rho[-1]:.2f}",
            setting=SETTING,
            ratio=each.rho[-1] / themis.rho[-1] / 2.25,
            note=_NOTE if name == "Tiresias-L" else "",
        )
        for name, each in others.items()
    ]


def _lighter() -> Row:
    themis, tiresias = (_figures(policy, num_jobs=FEWER_JOBS, load=LOWER_LOAD) for policy in (Themis(), Las()))
    return Row(
        figure="largest rho with less contention, Tiresias-L over Themis, times",
        published="",
        ours=f"{tiresias.rho[-1] / themis.rho[-1]:.2f} ({tiresias.rho[-1]:.2f} and {themis.rho[-1]:.2f})",
        setting=SETTING.replace(f"{JOBS} jobs", f"{FEWER_JOBS} jobs").replace(f"load {LOAD}", f"load {LOWER_LOAD}"),
        note=f"{themis.contention:.1f} GPUs asked for each there is when the last job comes",
    )


_NOTE = (
    "every job is an app of its own and no job minds where it runs; in the paper apps are searches of many jobs, and "
    "much of its gain is placement"
)

_WITHHELD = (
    "; the payment takes a single GPU that was won back whole, and what is withheld goes to jobs outside the offer "
    "first, so the worst-off can lose every time a lone GPU is free"
)


def _knob(found: Mapping[float, Figures]) -> list[Row]:
    return [
        Row(
            figure=f"rho: max, 95 %, mean; GPU time, with f = {fairness:g}",
            published="the largest rho falls with f, GPU time rises (a plot)",
            ours=f"{each}; {each.service_gpu_s / HOUR_S:,.0f} GPU-hours",
            setting=SETTING,
            note=f"mean completion {each.jct_s / HOUR_S:.1f} h, {each.changes:.1f} changes of a job's GPUs"
            + (_WITHHELD if 0 < fairness < 1 else ""),
        )
        for fairness, each in found.items()
    ]


def _leases(known: Mapping[float, Figures]) -> list[Row]:
    told = []
    for lease_s in (300.0, 600.0, 1_200.0, 2_400.0, 4_800.0):
        each = known[lease_s] if lease_s in known else _figures(Themis(lease_s=lease_s))
        told.append(
            Row(
                figure=f"rho: max, 95 %, mean; changes of a job's GPUs, with leases of {lease_s / 60:.0f} min",
                published="shorter is fairer and switches more (a plot)",
                ours=f"{each}; {each.changes:.1f}",
                setting=SETTING,
                note=f"mean completion {each.jct_s / HOUR_S:.1f} h{_WITHHELD if lease_s > 1_200 else ''}",
            )
        )
    return told
