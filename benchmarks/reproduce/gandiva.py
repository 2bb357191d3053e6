"""Gandiva: early feedback, packing on a cluster, and searches with and without feedback."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.models.searches import SearchCase, found_by_feedback_s, found_in_order_s
from benchmarks.reproduce.row import Row, against
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.round.config import Introspection, SchedulerConfig
from scheduler.introspection.migration import Migration
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.affinity import Affinity
from scheduler.policies.fifo import Fifo
from scheduler.simulator.draws import Draws
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.speeds.measured import gavel_models, gavel_pairs, gavel_profile
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.workloads import philly_like
from scheduler.simulator.workloads.philly import SIMPLE_GANGS, draw_gangs

TITLE = "Gandiva"
SOURCE = "Xiao et al., *Gandiva: Introspective Cluster Scheduling for Deep Learning*, OSDI 2018."

MINUTE_S, HOUR_S = 60.0, 3_600.0
FOLDER = Path("fixtures/profiles")
# Suspend and resume on the same server, and a start anywhere else.
RESUME_S, RESTART_S = 1.0, 35.0
# The 180 GPUs of the paper and a span in which nothing but the start of the workload is left out.
SERVERS, GPUS, WINDOW_S = 45, 4, 6 * HOUR_S
STREAM = 600


def rows() -> list[Row]:
    """Return the figures."""
    return [*_searches(), *_feedback(), _six_jobs(), _two_jobs(), *_cluster()]


def _searches() -> list[Row]:
    """100 configurations on 16 GPUs."""
    search = SearchCase(
        configurations=100,
        num_gpus=16,
        run_s=889 * MINUTE_S,
        winner=80,
        winner_s=850 * MINUTE_S,
        feedback_s=16 * MINUTE_S,
    )
    setting = "100 configurations, 16 GPUs, feedback after 16 minutes"
    note = "length, winner and its run time are not published; they are set to agree with the 90 % row"
    in_order, by_feedback = (each(search) / MINUTE_S for each in (found_in_order_s, found_by_feedback_s))
    found = [
        Row(
            figure="accuracy > 90 %, in order",
            published="5296.7 min",
            ours=f"{in_order:.1f} min",
            setting=setting,
            ratio=in_order / 5296.7,
            note=note,
        ),
        against("accuracy > 90 %, feedback first", 935.4, by_feedback, "min", setting=setting, note=note),
        against("accuracy > 90 %, in order over feedback", 5.66, in_order / by_feedback, "times", setting=setting),
    ]
    found.append(_simulated(search))
    found.append(
        Row(
            figure="accuracy > 70 % and > 80 %",
            published="134.1 and 543.1 min against 134.1 and 2489.1",
            ours="not computed",
            setting="",
            note="which configuration reaches them, and when, is not published; two free numbers would fit any figure",
        )
    )
    found.append(
        against(
            "accuracy > 80 %, printed time in order over printed time with feedback",
            5.25,
            2489.1 / 543.1,
            "times",
            setting="",
            note="the printed times do not give the printed ratio; 2849.1 min would, so two digits seem to be swapped",
        )
    )
    return found


def _simulated(search: SearchCase) -> Row:
    """The same search in the simulator: whole turns of the feedback time, then the winner alone on its GPU."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=search.run_s)] * search.configurations
    waves_s = math.ceil(search.configurations / search.num_gpus) * search.feedback_s
    in_order = _run(jobs, 2, 8).records
    ends_s = in_order.end_s[search.winner] - search.run_s + search.winner_s
    in_turns = _run(jobs, 2, 8, Slicing(quantum_s=search.feedback_s), until_s=waves_s).records
    left_s = search.winner_s - float(in_turns.service_gpu_s[search.winner])
    return Row(
        figure="accuracy > 90 %, in order; feedback first, simulated",
        published="5296.7 min; 935.4 min",
        ours=f"{ends_s / MINUTE_S:.1f} min; {(waves_s + left_s) / MINUTE_S:.1f} min",
        setting="two servers of 8 GPUs, turns of 16 minutes in the simulator until all had one",
        note="100 configurations on 16 GPUs take seven whole turns, the arithmetic above counts 6.25",
    )


def _run(
    jobs: list[SimJob], servers: int, gpus: int, *parts: Introspection, until_s: float = np.inf, series: bool = False
) -> Outcome:
    config = SchedulerConfig(policy=Fifo(), locality=Affinity(), mechanism=Proportional(), introspection=tuple(parts))
    return simulate(
        Replay(
            jobs,
            _servers(servers, gpus),
            _queue(),
            config,
            round_s=60.0,
            restart_s=RESTART_S,
            resume_s=RESUME_S,
            until_s=until_s,
            keep_series=series,
        )
    )


def _servers(count: int, gpus: int) -> ServerTable:
    return ServerTable(
        server_id=np.arange(count),
        num_gpus=np.full(count, gpus),
        num_cpus=np.full(count, 6.0 * gpus),
        memory_bytes=np.full(count, 62.5e9 * gpus),
        rack=np.zeros(count, dtype=np.int64),
    )


def _queue() -> QueueTable:
    return QueueTable(
        queue_id=np.zeros(1, dtype=np.int64),
        parent=np.full(1, -1),
        quota_gpus=np.zeros(1, dtype=np.int64),
        weight=np.ones(1),
        may_borrow=np.ones(1, dtype=np.bool_),
        max_gpus=np.full(1, 1_000_000),
    )


def _feedback() -> list[Row]:
    """20 jobs of 10 h on 4 GPUs, 100 mini-batches in a minute."""
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=10 * HOUR_S)] * 20
    in_order = _run(jobs, 1, 4).records.first_start_s.mean() / HOUR_S
    in_turns = _run(jobs, 1, 4, Slicing(), until_s=HOUR_S).records.first_start_s.mean() / MINUTE_S
    return [
        Row(
            figure="mean wait for the first mini-batches: in order; in turns",
            published="20 h; 2 min (worked example)",
            ours=f"{in_order:.1f} h; {in_turns:.1f} min",
            setting="20 jobs of 10 h on 4 GPUs, quantum 60 s",
        )
    ]


def _six_jobs() -> Row:
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=100 * HOUR_S)] * 6
    outcome = _run(jobs, 1, 4, Slicing(), until_s=10 * HOUR_S, series=True)
    service_s = outcome.records.service_gpu_s
    assert outcome.series is not None
    return Row(
        figure="6 ResNet-50 jobs on 4 GPUs: share of each, GPUs in use",
        published="equal shares, same total throughput",
        ours=f"{service_s.min() / (10 * HOUR_S):.3f} to {service_s.max() / (10 * HOUR_S):.3f}, "
        f"{service_s.sum() / (10 * HOUR_S):.2f}",
        setting="10 h in turns of 60 s",
    )


def _two_jobs() -> Row:
    """Two jobs that each keep half a GPU busy, which is the case that the paper describes without numbers."""
    small = Profile(gpu_util_frac=0.45)
    jobs = [SimJob(arrival_s=0.0, num_gpus=1, run_s=2 * HOUR_S, profile=small)] * 2
    turns, packs = _run(jobs, 1, 1, Slicing()), _run(jobs, 1, 1, Slicing(), Packing())
    return Row(
        figure="2 super-resolution jobs on one GPU: end in turns; with packing",
        published="starts in turns, packs after profiling, stays packed, higher total",
        ours=f"{turns.records.end_s.max() / HOUR_S:.2f} h; {packs.records.end_s.max() / HOUR_S:.2f} h",
        setting="each keeps a GPU 45 % busy alone; 5 % for sharing",
    )


def _workload() -> list[SimJob]:
    """Jobs of Gavel's models that arrive within the first hours, half as many again as there are GPUs for."""
    size = 220
    gangs = draw_gangs(Draws(1, "gangs"), size, SIMPLE_GANGS, widest=GPUS).tolist()
    arrivals_s = np.sort(Draws(1, "arrivals").uniform(size) * HOUR_S).tolist()
    jobs = [
        SimJob(arrival_s=round(arrival_s, 3), num_gpus=gpus, run_s=100 * HOUR_S)
        for arrival_s, gpus in zip(arrivals_s, gangs, strict=True)
    ]
    return _with_models(jobs)


def _with_models(jobs: list[SimJob]) -> list[SimJob]:
    """Return the jobs with models of Gavel's, drawn evenly."""
    models, pairs = gavel_models(FOLDER), gavel_pairs(FOLDER)
    names = sorted(pairs)
    kinds = np.floor(Draws(1, "models").uniform(len(jobs)) * len(names)).astype(np.int64).tolist()
    return [
        replace(
            job,
            profile=gavel_profile(
                models[names[kind]], name=names[kind], num_gpus=job.num_gpus, beside=pairs[names[kind]]
            ),
        )
        for job, kind in zip(jobs, kinds, strict=True)
    ]


def _cluster() -> list[Row]:
    """180 GPUs under overload for six hours: useful work and first feedback."""
    jobs = _workload()
    gpus = SERVERS * GPUS
    setting = (
        f"{len(jobs)} jobs of Gavel's models within an hour, {sum(job.num_gpus for job in jobs)} GPUs asked, "
        f"{gpus} there, {WINDOW_S / HOUR_S:.0f} h"
    )
    arms: dict[str, tuple[Introspection, ...]] = {
        "first in, first out": (),
        "turns": (Slicing(),),
        "turns and packing": (Slicing(), Packing()),
        "turns, packing and migration": (Slicing(), Packing(), Migration()),
    }
    useful: dict[str, float] = {}
    wait_s: dict[str, float] = {}
    for name, parts in arms.items():
        outcome = _run(jobs, SERVERS, GPUS, *parts, until_s=WINDOW_S, series=True)
        assert outcome.series is not None
        at_s, rate = outcome.series.at_s, outcome.series.useful_gpus
        useful[name] = float(np.sum(rate * np.diff(np.append(at_s, WINDOW_S)))) / WINDOW_S
        start_s = np.minimum(outcome.records.first_start_s, WINDOW_S)
        wait_s[name] = float(np.mean(start_s - outcome.records.arrival_s)) + MINUTE_S
    best = "turns, packing and migration"
    found = [
        against(
            "cluster throughput, packing and migration over turns alone",
            1.26,
            useful[best] / useful["turns"],
            "times",
            setting=setting,
            note="the paper's workload is not public; speeds of pairs are Gavel's, measured on V100",
        ),
    ]
    found.append(_first_batches(arms["first in, first out"], arms[best]))
    found += [
        Row(
            figure=f"useful GPUs, minutes to the first mini-batches: {name}",
            published="",
            ours=f"{useful[name]:.1f}, {wait_s[name] / MINUTE_S:.1f}",
            setting=setting,
        )
        for name in arms
    ]
    return found


def _first_batches(baseline: tuple[Introspection, ...], best: tuple[Introspection, ...]) -> Row:
    """The wait for the first 100 mini-batches, in a stream of jobs that runs to its end."""
    gpus, told, means_h = SERVERS * GPUS, [], []
    for load in (1.0, 1.15, 1.3):
        jobs = _with_models(philly_like(num_jobs=STREAM, cluster_gpus=gpus, load=load, seed=4))
        both = [_run(jobs, SERVERS, GPUS, *parts).records for parts in (baseline, best)]
        first_s = [float(np.mean(each.first_start_s - each.arrival_s)) + MINUTE_S for each in both]
        told.append(f"{first_s[0] / first_s[1]:.1f} at load {load}")
        means_h.append(" and ".join(f"{float(np.mean(each.jct_s)) / HOUR_S:.1f}" for each in both))
    return Row(
        figure="mean time to the first 100 mini-batches, first in, first out over Gandiva, times",
        published="4.5",
        ours="; ".join(told),
        setting=f"{STREAM} jobs like Philly's, Gavel's models, {gpus} GPUs, to their end; 100 mini-batches a minute",
        note="the ratio is the length of the first arm's line, which the load decides; the paper's is not public. "
        f"Mean completion {', '.join(means_h)} h",
    )
