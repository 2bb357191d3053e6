"""Jobs like those of Microsoft's Philly clusters: durations, gangs, daily rhythm, virtual clusters, users, failures."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.simulator.draws import DAY_S, HOUR_S, Draws, arrivals, milliseconds, whole_shares, zipf
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.workloads.failing import failure_plans

Kind = Literal["simple", "empirical", "wide"]

# Source: job generator of stanford-futuredata/gavel.
SIMPLE_GANGS: Mapping[int, float] = {1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05}
# (share, from, to): minutes are 10 to a power drawn evenly from the range.
SIMPLE_MINUTES = ((0.8, 1.5, 3.0), (0.2, 3.0, 4.0))

# Source: the 33,192 Philly jobs of an hour or more in stanford-futuredata/gavel.
EMPIRICAL_GANGS: Mapping[int, float] = {1: 0.762, 2: 0.020, 4: 0.093, 8: 0.125}
# (mu, sigma) of log seconds by GPUs, fits of ours; wider gangs run as long as those of 8.
EMPIRICAL_LOG_S: Mapping[int, tuple[float, float]] = {
    1: (9.73, 1.43),
    2: (11.50, 1.49),
    4: (11.03, 1.48),
    8: (11.07, 1.61),
}
# (share of jobs, hours that so many do not exceed); the last is the longest job of the month from AdaptDL.
EMPIRICAL_HOURS = (
    (0.0, 1.0),
    (0.10, 1.27),
    (0.50, 4.0),
    (0.75, 17.3),
    (0.90, 69.5),
    (0.95, 152.0),
    (0.99, 549.0),
    (1.0, 764.0),
)
# Source: the virtual clusters in stanford-futuredata/gavel, 15,230 jobs.
WIDE_GANGS: Mapping[int, float] = {1: 0.688, 2: 0.030, 4: 0.134, 8: 0.124, 16: 0.017, 32: 0.006}

# Runs that are for trying out: a choice of ours, to get their effect on the head of the line.
SHORT_MEDIAN_S, SHORT_SIGMA = 360.0, 1.4

QUEUES = 14
_QUOTA_ZIPF = 0.9
# A queue asks for this much of its quota at the load of the whole, which makes lending happen; a choice of ours.
_ASKED = (0.4, 1.6)
# With a length of time instead of a number of jobs no job takes more than this share of the GPU time of that time, so
# that a small cluster is asked for many jobs too; a choice of ours.
MOST_OF_TIME_FRAC = 0.05
MOST_JOBS = 200_000
_USERS = (10, 40)
_USER_ZIPF = 1.0


def philly_like(
    *,
    cluster_gpus: int,
    num_jobs: int = 1000,
    days: float | None = None,
    load: float = 0.9,
    seed: int = 0,
    kind: Kind = "simple",
    short_share: float = 0.0,
    diurnal: bool = True,
    num_queues: int = 1,
    failures: bool = False,
) -> list[SimJob]:
    """Return jobs sorted by arrival.

    Args:
        num_jobs: How many; unused where ``days`` is given.
        days: For how long jobs arrive: as many as give the cluster that load, each cut to a 20th of its GPU time.
        cluster_gpus: GPUs of the cluster; no job is wider.
        load: GPU time that arrives for each GPU and unit of time, by the mean of the jobs drawn.
        seed: The same seed gives the same jobs.
        kind: ``simple`` is Gavel's generator, ``empirical`` follows the jobs of an hour or more, ``wide`` has gangs of
            16 and 32 GPUs too.
        short_share: Share of jobs replaced by short runs (median 6 min), 0 to 1.
        diurnal: Whether arrivals follow day and week.
        num_queues: Virtual clusters; ``philly_quotas`` gives their quotas.
        failures: Whether attempts fail as in the study.

    Raises:
        ValueError: If a number is out of its range.
    """
    check_sizes(num_jobs=num_jobs, cluster_gpus=cluster_gpus, load=load)
    if not 0 <= short_share <= 1 or num_queues < 1:
        raise ValueError(f"short jobs are a share from 0 to 1 ({short_share}), queues at least 1 ({num_queues})")
    if days is None:
        num_gpus, run_s = _sizes(num_jobs, cluster_gpus, seed, kind, short_share)
        gap_s = float(np.mean(num_gpus * run_s)) / (load * cluster_gpus)
    else:
        num_gpus, run_s = _sizes_for(days * DAY_S, load, cluster_gpus, seed, kind, short_share)
        num_jobs = len(num_gpus)
        # The last of them arrives when the time is over: with few jobs chance would change the load by tenths.
        gap_s = days * DAY_S / float(Draws(seed, "arrivals").exponential(num_jobs).sum())
    arrival_s = arrivals(Draws(seed, "arrivals"), num_jobs, mean_gap_s=gap_s, diurnal=diurnal)
    queue, owner = _tenants(num_jobs, cluster_gpus, seed, num_queues)
    plans = failure_plans(Draws(seed, "failures"), num_gpus) if failures else {}
    rows = zip(
        milliseconds(arrival_s), num_gpus.tolist(), milliseconds(run_s), queue.tolist(), owner.tolist(), strict=True
    )
    return [
        SimJob(arrival_s=arrival, num_gpus=gpus, run_s=run, queue=vc, owner=user, failures=plans.get(index, ()))
        for index, (arrival, gpus, run, vc, user) in enumerate(rows)
    ]


def philly_quotas(*, cluster_gpus: int, num_queues: int = QUEUES) -> list[int]:
    """Return the quotas of the virtual clusters, GPUs, largest first; together the whole cluster."""
    return whole_shares(cluster_gpus, zipf(num_queues, _QUOTA_ZIPF))


def check_sizes(*, num_jobs: int, cluster_gpus: int, load: float) -> None:
    """Refuse a workload that cannot be.

    Raises:
        ValueError: If there is no job or GPU, or the load is not a positive number.
    """
    if num_jobs < 1 or cluster_gpus < 1:
        raise ValueError(f"jobs ({num_jobs}) and GPUs ({cluster_gpus}) are at least 1")
    if not 0 < load < math.inf:
        raise ValueError(f"the load must be a positive number, not {load}")


def _sizes(num_jobs: int, cluster_gpus: int, seed: int, kind: Kind, short_share: float) -> tuple[IntArray, FloatArray]:
    """Return (n,) GPUs and (n,) run times in seconds."""
    gangs = {"simple": SIMPLE_GANGS, "empirical": EMPIRICAL_GANGS, "wide": WIDE_GANGS}[kind]
    num_gpus = draw_gangs(Draws(seed, "gangs"), num_jobs, gangs, widest=cluster_gpus)
    lengths = Draws(seed, "durations")
    run_s = power_minutes_s(lengths, num_jobs, SIMPLE_MINUTES) if kind == "simple" else _empirical_s(lengths, num_gpus)
    short = Draws(seed, "short runs")
    is_short = short.uniform(num_jobs) < short_share
    short_s = np.maximum(1.0, SHORT_MEDIAN_S * np.exp(SHORT_SIGMA * short.normal(num_jobs)))
    return num_gpus, np.where(is_short, short_s, run_s)


def _sizes_for(
    time_s: float, load: float, cluster_gpus: int, seed: int, kind: Kind, short_share: float
) -> tuple[IntArray, FloatArray]:
    """Return (n,) GPUs and (n,) run times of as many jobs as ask for ``load`` of the GPU time of ``time_s``."""
    if not 0 < time_s < math.inf:
        raise ValueError(f"the days must be a positive number, not {time_s / DAY_S:g}")
    there_is_gpu_s = cluster_gpus * time_s
    num_jobs = 256
    while num_jobs < 2 * MOST_JOBS:
        num_gpus, run_s = _sizes(num_jobs, cluster_gpus, seed, kind, short_share)
        run_s = np.minimum(run_s, MOST_OF_TIME_FRAC * there_is_gpu_s / num_gpus)
        asked_gpu_s = np.cumsum(num_gpus * run_s)
        if asked_gpu_s[-1] >= load * there_is_gpu_s:
            kept = 1 + int(np.searchsorted(asked_gpu_s, load * there_is_gpu_s))
            return num_gpus[:kept], run_s[:kept]
        num_jobs *= 2
    days, gpus = f"{time_s / DAY_S:g}", f"{cluster_gpus:,}"
    raise ValueError(f"{days} days at a load of {load:g} on {gpus} GPUs are more than {MOST_JOBS:,} jobs")


def draw_gangs(draws: Draws, size: int, gangs: Mapping[int, float], *, widest: int) -> IntArray:
    """Return (size,) GPUs by their shares, leaving out what is wider than ``widest``."""
    allowed = [gpus for gpus in gangs if gpus <= widest]
    return np.array(allowed, dtype=np.int64)[draws.choice(size, [gangs[gpus] for gpus in allowed])]


def power_minutes_s(draws: Draws, size: int, parts: Sequence[tuple[float, float, float]]) -> FloatArray:
    """Return (size,) seconds: 10 to a power of minutes, the power even in a range that is drawn by its share."""
    part = draws.choice(size, [share for share, _, _ in parts])
    low = np.array([low for _, low, _ in parts])[part]
    high = np.array([high for _, _, high in parts])[part]
    return np.asarray(60.0 * 10.0 ** (low + (high - low) * draws.uniform(size)))


def _empirical_s(draws: Draws, num_gpus: IntArray) -> FloatArray:
    """Return (n,) run times: drawn from the fit of the gang, then bent so that all jobs together have the quantiles.

    The fits alone would make the middle too long and the tail too short.
    """
    mu, sigma = np.array([EMPIRICAL_LOG_S[min(gpus, 8)] for gpus in num_gpus.tolist()]).reshape(-1, 2).T
    log_s = mu + sigma * draws.normal(len(num_gpus))
    rank = np.zeros(len(num_gpus))
    for gpus, share in EMPIRICAL_GANGS.items():
        middle, width = EMPIRICAL_LOG_S[gpus]
        errors = [math.erf(value) for value in ((log_s - middle) / (width * math.sqrt(2))).tolist()]
        rank += share * 0.5 * (1.0 + np.array(errors))
    shares, hours = np.array(EMPIRICAL_HOURS).T
    return np.asarray(HOUR_S * np.exp(np.interp(rank, shares, np.log(hours))))


def _tenants(num_jobs: int, cluster_gpus: int, seed: int, num_queues: int) -> tuple[IntArray, IntArray]:
    """Return (n,) queues and (n,) users; a user submits to one queue."""
    draws = Draws(seed, "tenants")
    low, high = _ASKED
    asked = zipf(num_queues, _QUOTA_ZIPF) * (low + (high - low) * draws.uniform(num_queues))
    fewest, most = _USERS
    users = (fewest + draws.uniform(num_queues) * (most - fewest + 1)).astype(np.int64)
    first_user = np.concatenate(([0], np.cumsum(users)))[:-1]
    queue = draws.choice(num_jobs, asked.tolist())
    owner = np.zeros(num_jobs, dtype=np.int64)
    for number in range(num_queues):
        mine = np.flatnonzero(queue == number)
        owner[mine] = first_user[number] + draws.choice(len(mine), zipf(int(users[number]), _USER_ZIPF).tolist())
    return queue, owner
