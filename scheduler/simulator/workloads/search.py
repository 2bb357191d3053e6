"""Searches over configurations (AutoML): many jobs of one length that arrive at once."""

from scheduler.simulator.draws import Draws, arrivals, milliseconds
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.workloads.philly import check_sizes

# Fits the talk on Gandiva: 100 configurations of 889 minutes on 16 GPUs, the 81st finds the target after 850 minutes.
# The length and the place are ours, chosen to agree with its figures; it does not print them.
CONFIGURATIONS = 100
LENGTH_S = 889 * 60.0


def searches(
    *,
    num_searches: int,
    cluster_gpus: int,
    configurations: int = CONFIGURATIONS,
    length_s: float = LENGTH_S,
    load: float = 0.9,
    seed: int = 0,
) -> list[SimJob]:
    """Return the jobs of searches, sorted by arrival; ``owner`` is the number of the search.

    All configurations of a search arrive at once, need one GPU each and run ``length_s`` unless they are stopped.

    Args:
        num_searches: How many; the first arrives at 0 s.
        cluster_gpus: GPUs of the cluster.
        configurations: Jobs of each.
        length_s: Run time of each, seconds.
        load: GPU time that arrives for each GPU and unit of time if nothing is stopped.
        seed: The same seed gives the same jobs.

    Raises:
        ValueError: If a number is out of its range.
    """
    check_sizes(num_jobs=min(num_searches, configurations), cluster_gpus=cluster_gpus, load=load)
    if not length_s > 0:
        raise ValueError(f"the length must be a positive number of seconds, not {length_s}")
    gap_s = configurations * length_s / (load * cluster_gpus)
    times = arrivals(Draws(seed, "arrivals"), num_searches, mean_gap_s=gap_s, diurnal=False)
    return [
        SimJob(arrival_s=arrival, num_gpus=1, run_s=length_s, owner=number, name=f"search-{number}/{configuration}")
        for number, arrival in enumerate(milliseconds(times - times[0]))
        for configuration in range(configurations)
    ]
