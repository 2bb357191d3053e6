"""AFS and CoDDL: completion times by load, how often jobs are reconfigured, and what a burst of arrivals costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.models.reconfigurations import Change, thrashing_replay
from benchmarks.reproduce.elastic_cluster import CLUSTER_GPUS, CURVES, as_wide_as_useful, replay, workload
from benchmarks.reproduce.row import Row
from scheduler.core.model.profile import scaling
from scheduler.core.model.tables import FloatArray
from scheduler.core.round.config import Policy
from scheduler.policies.afs_l import AfsL
from scheduler.policies.afs_p import AfsP
from scheduler.policies.las import Las
from scheduler.policies.maxmin import Maxmin
from scheduler.policies.optimus import Optimus
from scheduler.policies.srsf import Srsf
from scheduler.policies.srtf import Srtf
from scheduler.policies.themis import Themis
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.costs import Manager, ReconfigurationCosts
from scheduler.simulator.state.outcome import Stays

TITLE = "AFS and CoDDL"
SOURCE = "Hwang et al., *Elastic Resource Sharing for Distributed Deep Learning*, NSDI 2021."

HOUR_S = 3_600.0
LOADS = (0.7, 1.0, 1.3)
SEEDS = (1, 2)
JOBS = 400
SETTING = (
    f"{JOBS} elastic jobs, lengths like Philly's, scaling of eight models on A100, {CLUSTER_GPUS} GPUs, loads "
    f"{', '.join(map(str, LOADS))}, seeds {', '.join(map(str, SEEDS))}, mean of the middle 80 %"
)
# The burst: one job runs, the others come within minutes; it is followed a while longer.
BURST_JOBS, BURST_S, FOLLOWED_S = 60, 600.0, 1_200.0


@dataclass(frozen=True, slots=True)
class Arm:
    """A policy; whether its gangs are the widest that are of use; seconds between rounds."""

    policy: Callable[[], Policy]
    wide: bool = False
    round_s: float = 60.0
    # Leases end at moments of their own, between which nothing happens: every round has to be looked at.
    skip: bool = True


ARMS: Mapping[str, Arm] = {
    "AFS-L": Arm(AfsL),
    "AFS-P": Arm(AfsP),
    "SRTF": Arm(Srtf),
    "SRTF, widest gangs": Arm(Srtf, wide=True),
    "SRSF": Arm(Srsf),
    "SRSF, widest gangs": Arm(Srsf, wide=True),
    "max-min": Arm(Maxmin),
    "Optimus": Arm(Optimus),
    "Tiresias-L": Arm(Las),
    "Tiresias-L, widest gangs": Arm(Las, wide=True),
    "Themis": Arm(Themis, round_s=300.0, skip=False),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """Mean completion time in seconds and changes of a job's GPUs after its first start, by load."""

    jct_s: list[float]
    changes: list[float]


def rows() -> list[Row]:
    """Return the figures."""
    found = {name: _figures(arm) for name, arm in ARMS.items()}
    return [
        *_against(found, "AFS-L", {"SRTF": 2.67, "SRSF": None, "max-min": None, "Optimus": None}),
        *_against(found, "AFS-P", {"Tiresias-L": 3.11, "Themis": 2.2, "Optimus": None, "max-min": None}),
        *(_times(name, each) for name, each in found.items()),
        *_reconfigurations(found),
        _managers(),
        *_burst(1.0),
        *_burst(0.02),
    ]


def _figures(arm: Arm) -> Figures:
    jct_s, changes = [], []
    for load in LOADS:
        means = []
        for seed in SEEDS:
            jobs = workload(JOBS, load=load, seed=seed)
            jobs = as_wide_as_useful(jobs) if arm.wide else jobs
            records = replay(jobs, arm.policy(), round_s=arm.round_s, skip=arm.skip).records
            many = records.reconfigurations + records.preemptions
            means.append((_middle(records.jct_s), float(np.mean(many))))
        jct_s.append(float(np.mean([mean for mean, _ in means])))
        changes.append(float(np.mean([mean for _, mean in means])))
    return Figures(jct_s=jct_s, changes=changes)


def _middle(jct_s: FloatArray) -> float:
    """Return the mean without the first and last tenth of the arrivals, when the cluster fills and empties."""
    edge = len(jct_s) // 10
    return float(np.mean(jct_s[edge : len(jct_s) - edge]))


def _against(found: Mapping[str, Figures], ours: str, others: Mapping[str, float | None]) -> list[Row]:
    """How many times longer jobs take under the others."""
    told = []
    for other, published in others.items():
        for name in (other, f"{other}, widest gangs"):
            if name not in found:
                continue
            times = [theirs / own for theirs, own in zip(found[name].jct_s, found[ours].jct_s, strict=True)]
            told.append(
                Row(
                    figure=f"mean completion time, {name} over {ours}, times",
                    published=f"up to {published:g}" if published else "",
                    ours=f"{', '.join(f'{each:.2f}' for each in times)}: up to {max(times):.2f}",
                    setting=SETTING,
                    ratio=max(times) / published if published else None,
                    note=_NOTES.get(name, ""),
                )
            )
    return told


_GANGS = "the gangs users would ask for are half the widest useful ones, which is a choice of our generator; "
_NOTES = {
    "SRTF": _GANGS + "the paper's trace and speeds are not public, and its largest gain is over all its settings",
    "SRTF, widest gangs": "gangs of the most GPUs a job can use, where the last ones gain little",
    "Tiresias-L": _GANGS + "two levels, limit 3,250 GPU-seconds as published with Tiresias, no job is promoted",
    "Tiresias-L, widest gangs": "first started, first served in the lower level, with gangs that scale badly",
    "Themis": "single jobs, no placement gains to bid for; rounds of 300 s, leases of 20 min",
    "Optimus": "exact remaining times, as in the paper's comparison; decides at arrivals and ends",
}


def _times(name: str, figures: Figures) -> Row:
    return Row(
        figure=f"mean completion time by load, hours; changes of a job's GPUs: {name}",
        published="",
        ours=f"{', '.join(f'{each / HOUR_S:.1f}' for each in figures.jct_s)}; "
        f"{', '.join(f'{each:.2f}' for each in figures.changes)}",
        setting=SETTING,
    )


def _reconfigurations(found: Mapping[str, Figures]) -> list[Row]:
    told = []
    for ours, other in (("AFS-L", "SRTF"), ("AFS-P", "Tiresias-L")):
        pairs = zip(found[ours].changes, found[other].changes, strict=True)
        times = [own / theirs for own, theirs in pairs]
        told.append(
            Row(
                figure=f"changes of a job's GPUs, {ours} over {other}, times",
                published="6.3 on average, 22 at most",
                ours=f"{np.mean(times):.1f} on average, {max(times):.1f} at most",
                setting=SETTING,
                ratio=float(np.mean(times)) / 6.3,
                note="starts after the first, stops and resizes all count one; by load "
                f"{', '.join(f'{each:.1f}' for each in times)}. What the paper averages over is not known to us",
            )
        )
    return told


def _managers() -> Row:
    """What reconfiguration costs the whole workload."""
    load = 1.0
    mean_s = [
        float(
            np.mean(
                [
                    _middle(replay(workload(JOBS, load=load, seed=seed), AfsP(), costs=costs).records.jct_s)
                    for seed in SEEDS
                ]
            )
        )
        for costs in (ReconfigurationCosts(manager=Manager.RESTART), ReconfigurationCosts())
    ]
    return Row(
        figure="mean completion time under AFS-P: restart; concurrent",
        published="",
        ours=f"{mean_s[0] / HOUR_S:.3f} h; {mean_s[1] / HOUR_S:.3f} h",
        setting=SETTING.replace(f"loads {', '.join(map(str, LOADS))}", f"load {load}"),
        note="jobs of hours lose little by half a minute a change; bursts are where it matters, below",
    )


def _burst(shorter: float) -> list[Row]:
    """One job submitted at the start, and a burst of arrivals: how far it gets under each manager."""
    job, changes = _changes(shorter)
    begin, later = changes[0][1], changes[1:]

    def speed(num_gpus: int) -> float:
        return scaling(job.profile, num_gpus)

    ends_s = [*(at_s for at_s, _ in later), FOLLOWED_S]
    free = sum((end_s - at_s) * speed(gpus) for (at_s, gpus), end_s in zip(changes, ends_s, strict=True))
    setting = (
        f"{job.model} on {begin} GPUs, then {BURST_JOBS} jobs in {BURST_S / 60:.0f} min, lengths {shorter:g} times "
        f"Philly's, AFS-P at every event, {len(later)} new shares, {FOLLOWED_S / 60:.0f} min"
    )
    told = []
    for manager in Manager:
        costs = ReconfigurationCosts(manager=manager)
        progress = thrashing_replay(later, speed, costs, start_gpus=begin, until_s=FOLLOWED_S)
        late_s = max(0.0, progress.stretches[-1].begin_s - later[-1][0])
        note = f"{progress.carried_out} changes carried out, {progress.cancelled} cancelled; {_BURST_NOTES[manager]}"
        told.append(
            Row(
                figure=f"a job in a burst of arrivals, {manager}: work done, time at a stand, last change late by",
                published="a plot: restarts stall the job, cancelling does not",
                ours=f"{progress.work / free:.0%} of that with free changes, {progress.paused_s:.0f} s, {late_s:.0f} s",
                setting=setting,
                note=note,
            )
        )
    return told


_BURST_NOTES = {
    Manager.RESTART: "30 s to start workers and 4 to 14 s to switch over, one change after another",
    Manager.CONCURRENT: "changes queue up, so shares are handed over late and part of the work is done on GPUs that "
    "were due to others",
    Manager.CONCURRENT_CANCEL: "a share that lasts less than the start of its workers is never used",
}


def _changes(shorter: float) -> tuple[SimJob, list[Change]]:
    """Return the first job of a burst, and its shares from a moment on."""
    crowd = workload(BURST_JOBS, load=1.0, seed=1)
    faster = BURST_S / crowd[-1].arrival_s
    model = "vgg16-256"
    first = replace(crowd[0], arrival_s=0.0, num_gpus=16, max_gpus=32, run_s=100 * HOUR_S)
    first = replace(first, model=model, profile=CURVES[model])
    jobs = [replace(job, arrival_s=60.0 + job.arrival_s * faster, run_s=job.run_s * shorter) for job in crowd]
    stays = replay([first, *jobs], AfsP(), round_s=None, stays=True, until_s=FOLLOWED_S).stays
    assert stays is not None
    return first, _shares(stays, 0)


def _shares(stays: Stays, job: int) -> list[Change]:
    """Return from when on the job held how many GPUs."""
    mine = stays.job == job
    begin_s, end_s, gpus = stays.begin_s[mine], stays.end_s[mine], stays.num_gpus[mine]
    shares: list[Change] = []
    for at_s in np.unique(begin_s).tolist():
        held = int(gpus[(begin_s <= at_s) & (at_s < end_s)].sum())
        if not shares or shares[-1][1] != held:
            shares.append((at_s, held))
    return shares
