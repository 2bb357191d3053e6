"""Synergy: its table on 32 GPUs, completion times by load on 128 and 512, and the optimistic profile."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from benchmarks.models.cache import MinIo, Pipeline, epoch_by_items_s
from benchmarks.reproduce.row import Row, against
from benchmarks.reproduce.synergy_cluster import HOUR_S, middle, run, workload
from scheduler.choices import build_config
from scheduler.core.operations.metrics import percentile
from scheduler.core.performance.cache_model import Storage, epoch_s
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.state.outcome import Records
from scheduler.simulator.traces import read_trace

TITLE = "Synergy"
SOURCE = "Mohan et al., *Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters* (Synergy), OSDI 2022."

TRACES = Path("fixtures/traces")
JOBS = 1_500
MIXES = ((20, 70, 10), (33, 33, 33))
# Jobs an hour on 128 GPUs, which the GPU-proportional share can serve up to 7.6 of.
RATES: Mapping[str, Sequence[float]] = {"fifo": (6, 9, 12), "srtf": (9, 12), "las": (9, 12)}
_NO_COST = "restarts are free, as in the published simulator"


def rows() -> list[Row]:
    """Return the figures."""
    curves, best = _curves()
    return [*_makespan(), *_completion(), *curves, *_long(best), *_large(), *_profile()]


def _config(policy: str, arm: str) -> SchedulerConfig:
    """Return the configuration of an arm: ``proportional``, ``released``, ``tune`` or ``opt``.

    Released is Tune as its simulator does it: all jobs are placed anew in every round, in the order of the policy.
    Where cores are not in proportion, its SRTF counts the time that remains at full speed.
    """
    mechanism, options = {
        "proportional": ("proportional", {}),
        "released": ("tune", {"repack": True, "sort_by_demand": False}),
        "tune": ("tune", {}),
        "opt": ("opt", {"repack": True}),
    }[arm]
    counts = policy == "srtf" and arm in ("released", "opt")
    return build_config(
        policy=policy,
        policy_options={"with_speed_up": True} if counts else {},
        mechanism=mechanism,
        mechanism_options=options,
    )


_ARMS = {
    "proportional": "GPU-proportional",
    "released": "Tune as released",
    "tune": "Tune, running jobs stay",
    "opt": "Opt",
}


def _trace(name: str, policy: str) -> dict[str, Records]:
    jobs = read_trace(TRACES / f"synergy_{name}.csv").jobs
    return {arm: run(jobs, _config(policy, arm), servers=4).records for arm in _ARMS}


def _makespan() -> list[Row]:
    """The static trace, first in, first out."""
    found = {arm: _makespan_h(records) for arm, records in _trace("static", "fifo").items()}
    setting = "synergy_static.csv, 100 jobs, 32 GPUs, rounds of 300 s"
    return [
        *(
            against(f"FIFO makespan, {_ARMS[arm]}", published, found[arm], "h", setting=setting, note=note)
            for arm, published, note in (
                ("proportional", 15.67, "15.25 h in an independent re-simulation of the same trace; 16 h deployed"),
                ("released", 11.33, "10.97 h in an independent re-simulation; 11.6 h deployed"),
                ("tune", 11.33, "our default: no job is moved, which costs some of the gain"),
                (
                    "opt",
                    11.01,
                    "ours places whole jobs and still ends before the published bound; why is not known",
                ),
            )
        ),
        against(
            "FIFO makespan, GPU-proportional over Tune as released",
            1.4,
            found["proportional"] / found["released"],
            "times",
            setting=setting,
        ),
    ]


def _makespan_h(records: Records) -> float:
    return float(records.end_s.max() - records.arrival_s.min()) / HOUR_S


def _completion() -> list[Row]:
    """The dynamic trace, shortest remaining time first."""
    setting = "synergy_dynamic.csv, 100 jobs, 32 GPUs, rounds of 300 s"
    published = {"proportional": (4.52, 16.85), "released": (3.19, 8.54), "tune": (3.19, 8.54), "opt": (3.06, 8.21)}
    notes = {
        "proportional": "3.86 h in an independent re-simulation of the released trace, which therefore is not all that "
        "the published table was made from; 4.81 h deployed",
        "released": "3.20 h in an independent re-simulation; 3.21 h deployed",
        "tune": "our default: no job is moved",
        "opt": "",
    }
    found = []
    average_h = {}
    for arm, records in _trace("dynamic", "srtf").items():
        jct_h = sorted((records.jct_s / HOUR_S).tolist())
        average_h[arm] = sum(jct_h) / len(jct_h)
        average, p99 = published[arm]
        what, note = f"SRTF completion time, {_ARMS[arm]}", notes[arm]
        found.append(against(f"{what}: average", average, average_h[arm], "h", setting=setting, note=note))
        slow = f"the 99th of 100 jobs; the longest takes {jct_h[-1]:.2f} h"
        found.append(against(f"{what}: p99", p99, percentile(jct_h, 0.99), "h", setting=setting, note=slow))
    ratio = average_h["proportional"] / average_h["released"]
    note = "1.21 in an independent re-simulation of the same trace"
    figure = "SRTF average, GPU-proportional over Tune as released"
    return [*found, against(figure, 1.5, ratio, "times", setting=setting, note=note)]


def _curves() -> tuple[list[Row], float]:
    """Return completion times by load on 128 GPUs, and the largest factor between them."""
    found, best = [], 0.0
    for policy, rates in RATES.items():
        # The share does not look at models, so both mixes have the same baseline.
        baseline_h = [_mean_h(policy, "proportional", rate, MIXES[0]) for rate in rates]
        for mix in MIXES:
            tuned_h = [_mean_h(policy, "tune", rate, mix) for rate in rates]
            factors = [share_h / tune_h for share_h, tune_h in zip(baseline_h, tuned_h, strict=True)]
            best = max(best, *factors)
            points = zip(rates, baseline_h, tuned_h, factors, strict=True)
            found.append(
                Row(
                    figure=f"{policy.upper()} average completion time, image, language, speech {mix}: "
                    "GPU-proportional and Tune by jobs an hour",
                    published="",
                    ours="; ".join(
                        f"{rate}: {share_h:.1f} and {tune_h:.1f} h ({factor:.2f} times)"
                        for rate, share_h, tune_h, factor in points
                    ),
                    setting=f"{JOBS} jobs of 1 GPU, 128 GPUs, the middle 80 % of them",
                    note="the share saturates at 7.6 jobs an hour; Tune with running jobs that stay; " + _NO_COST,
                )
            )
    return found, best


def _mean_h(
    policy: str, arm: str, per_hour: float, mix: Sequence[float], *, num_jobs: int = JOBS, servers: int = 16
) -> float:
    jobs = workload(num_jobs=num_jobs, servers=servers, per_hour=per_hour, mix=mix)
    return float(middle(run(jobs, _config(policy, arm), servers=servers)).mean())


def _long(best: float) -> list[Row]:
    """The window of the paper: jobs 4000 to 5000, by when an overloaded line has become long."""
    setting, rate, mix = "5,500 jobs, FIFO, 128 GPUs, 9 jobs an hour, jobs 4,000 to 5,000", 9, MIXES[0]
    jobs = workload(num_jobs=5_500, servers=16, per_hour=rate, mix=mix)
    shared_h, tuned_h = (
        run(jobs, _config("fifo", arm), servers=16).records.jct_s[4_000:5_000] / HOUR_S
        for arm in ("proportional", "tune")
    )
    mean_h, factor = float(tuned_h.mean()), float(shared_h.mean() / tuned_h.mean())
    least_h = sum(job.run_s / max(map(max, job.profile.relative_speed)) for job in jobs) / len(jobs) / HOUR_S
    note = (
        f"with our draws the jobs need {rate * least_h / 128:.2f} times the GPUs even if all ran at full speed, so the "
        "line grows under any mechanism; the published trace must have asked for less"
    )
    return [
        against("FIFO with Tune, (20, 70, 10): average", 21.88, mean_h, "h", setting=setting, note=note),
        against("FIFO with Tune, (20, 70, 10): p99", 156.9, percentile(sorted(tuned_h), 0.99), "h", setting=setting),
        Row(
            figure="the same, GPU-proportional over Tune",
            published="",
            ours=f"{factor:.2f} times",
            setting=setting,
            note=f"{shared_h.mean():.1f} h with the share",
        ),
        against(
            "average completion time, up to",
            3.4,
            max(best, factor),
            "times",
            setting="largest factor of this section",
            note="not reached. Between the loads at which the share and Tune saturate the factor grows with the length "
            "of the trace; load and length of the published one are not in the talk",
        ),
    ]


def _large() -> list[Row]:
    """512 GPUs."""
    found, num_jobs = [], 4_000
    for rate in (36, 48):
        mean_h = [
            _mean_h("fifo", arm, rate, mix, num_jobs=num_jobs, servers=64)
            for arm, mix in (("proportional", MIXES[0]), *(("tune", mix) for mix in MIXES))
        ]
        share_h, tuned_h, other_h = mean_h
        found.append(
            Row(
                figure="FIFO on 512 GPUs: GPU-proportional; Tune (20, 70, 10); Tune (33, 33, 33)",
                published="",
                ours=f"{share_h:.1f}; {tuned_h:.1f} ({share_h / tuned_h:.2f} times); "
                f"{other_h:.1f} h ({share_h / other_h:.2f} times)",
                setting=f"{num_jobs} jobs of 1 GPU, {rate} an hour, 64 servers, the middle 80 % of them",
                note=f"as {rate // 4} jobs an hour on 128 GPUs; " + _NO_COST,
            )
        )
    return found


def _profile() -> list[Row]:
    """The modelled memory axis against epochs read item by item."""
    items, size_bytes, prep_s, cores_measured = 3_000, 110_000, 0.0036, (1, 2, 3, 4, 5, 6, 9, 12, 24)
    storage, chance, off = Storage(), Random(1), []
    for tenth in range(11):
        cache_bytes = items * size_bytes * tenth // 10
        for cores in cores_measured:
            cache, order = MinIo(cache_bytes), list(range(items))
            for item in order:
                cache.get(item, size_bytes)
            chance.shuffle(order)
            pipeline = Pipeline(storage=storage, prep_items_per_s=cores / prep_s)
            seen_s = epoch_by_items_s(cache, order, size_bytes=size_bytes, pipeline=pipeline)
            told_s = epoch_s(
                prep_s=items * prep_s / cores,
                dataset_bytes=items * size_bytes,
                cache_bytes=cache_bytes,
                storage=storage,
            )
            off.append(abs(seen_s / told_s - 1))
    return [
        Row(
            figure="modelled memory axis of the profile against an epoch item by item: largest difference",
            published="within 3 %",
            ours=f"{max(off):.2%}, {sum(off) / len(off):.2%} on average",
            setting=f"{len(off)} points: 11 sizes of the cache, {len(cores_measured)} numbers of cores; 10 GB/s from "
            "memory, 500 MB/s from disk, which 17 cores keep busy",
            note="against our own simulation of reader and cores, which shares the assumptions of the model, not a "
            f"measured ResNet-18: this checks the formula only. {len(cores_measured)} points "
            f"are measured, {len(off) - len(cores_measured)} modelled",
        )
    ]
