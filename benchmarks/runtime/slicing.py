"""Time slicing on real processes: what a change of turns costs, whether shares are equal, what a move loses."""

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

from benchmarks.runtime.cluster import Cluster, cluster
from benchmarks.runtime.figure import Figure
from tests.support.e2e.stack import wait_for

TITLE = "Time slicing"
QUANTUM_S = 60.0
SHORT_S = 5.0
# Turns of six jobs. Wherever a window is cut, one may have had a turn more or less: so many that this is little.
SHARED_S = 5.0
STEP_S = 0.02
WINDOW_S = 320.0


def figures() -> Sequence[Figure]:
    """Measure all of it."""
    with cluster() as running:
        running.slots(1)
        return (*_turns(running), *_shares(running))


def _slice(running: Cluster, *, quantum_s: float) -> None:
    running.settings(
        policy="fifo", introspection=["slicing"], introspection_options={"slicing": {"quantum_s": quantum_s}}
    )


def _turns(running: Cluster) -> list[Figure]:
    """Two jobs on one slot; then a second server is offered and one of them moves there."""
    _slice(running, quantum_s=SHORT_S)
    ids = [running.stepping(name, step_s=STEP_S) for name in ("first", "second")]
    wait_for("turns", lambda: len(_gaps(running, "first", "second")) >= 10, within_s=300)
    gaps = _gaps(running, "first", "second")
    gap_s, frac = statistics.median(gaps), statistics.median(gaps) / QUANTUM_S
    before = [len(running.admin.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) for job_id in ids]
    running.undrain()
    wait_for("both run", lambda: all(running.admin.job(job_id)["state"] == "running" for job_id in ids), within_s=60)
    time.sleep(3.0)
    running.cancel(*ids)
    twice = [len(steps) - len(set(steps)) for steps in ([s for s, _ in running.noted(n)] for n in ("first", "second"))]
    running.drain()
    return [
        Figure(
            name="slot idle at a change of turns, share of a 60 s quantum",
            target="at most 1 %",
            value=f"{frac:.2%}",
            is_met=frac <= 0.01,
            setting=f"two jobs on one slot, turns of {SHORT_S:g} s, median of {len(gaps)} changes: {gap_s:.2f} s, "
            f"largest {max(gaps):.2f} s; from the last mini-batch of one job to the end of the next one's first",
            note="mini-batches sleep 20 ms, so the jobs take no core; the time is that of a round and its messages, "
            "through broker, agent and supervisor; it grows with the load of the machine",
        ),
        Figure(
            name="attempts that turns cost a job",
            target="1, the same process throughout",
            value=" and ".join(map(str, before)),
            is_met=before == [1, 1],
            setting="the same two jobs",
        ),
        Figure(
            name="mini-batches lost by a job that goes on on another server",
            target="at most 1",
            value=str(max(twice)),
            is_met=max(twice) <= 1,
            setting="a second server is offered; the parked job checkpoints and restarts there",
            note="steps that were trained twice, out of the job's own record",
        ),
    ]


def _gaps(running: Cluster, *names: str) -> list[float]:
    """Return the seconds between the last step of one job and the first of the next, at each change, oldest first."""
    steps = sorted((at, name) for name in names for _, at in running.noted(name))
    pairs = pairwise(steps)
    return [after - before for (before, name), (after, other) in pairs if name != other][1:]  # the first is a launch


def _shares(running: Cluster) -> list[Figure]:
    """Six jobs on four slots, against four of them alone."""
    running.slots(4)
    running.settings(introspection=[])
    alone = [running.stepping(f"alone-{number}", step_s=STEP_S) for number in range(4)]
    wait_for("all run", lambda: all(running.noted(f"alone-{number}") for number in range(4)), within_s=120)
    begin_s = time.time()
    time.sleep(20.0)
    in_turn = sum(_between(running, f"alone-{number}", begin_s, begin_s + 20.0) for number in range(4)) / 20.0
    running.cancel(*alone)
    _slice(running, quantum_s=SHARED_S)
    names = [f"share-{number}" for number in range(6)]
    ids = [running.stepping(name, step_s=STEP_S) for name in names]
    wait_for("all had a turn", lambda: all(running.noted(name) for name in names), within_s=180)
    time.sleep(WINDOW_S)
    begin_s, end_s, quanta = _whole_cycles(running, names)
    steps = [_between(running, name, begin_s, end_s) for name in names]
    running.cancel(*ids)
    mean = statistics.mean(steps)
    uneven = max(abs(count - mean) for count in steps) / mean
    rate = sum(steps) / (end_s - begin_s)
    lost = 1 - rate / in_turn
    scaled = lost * SHARED_S / QUANTUM_S
    return [
        Figure(
            name="six jobs on four slots: furthest from an equal share of mini-batches",
            target="at most 5 %",
            value=f"{uneven:.1%}",
            is_met=uneven <= 0.05,
            setting=f"{quanta} turns of {SHARED_S:g} s, {end_s - begin_s:.0f} s, in which each job has "
            f"{quanta * 4 // 6}; sleeping mini-batches of 20 ms; mini-batches of each: {', '.join(map(str, steps))}",
            note="counted over whole cycles of three quanta, from one change of turns to another; who is ahead by a "
            "turn at either end differs",
        ),
        Figure(
            name="six jobs on four slots: summed throughput lost against running them in turn",
            target="at most 3 % with turns of 60 s",
            value=f"{scaled:.1%}",
            is_met=scaled <= 0.03,
            setting=f"measured {lost:.1%} with turns of {SHARED_S:g} s ({rate:.0f} against {in_turn:.0f} "
            f"mini-batches/s of four jobs alone), times {SHARED_S:g}/60: the cost is one change a turn, however long",
            note="few cores, so mini-batches sleep; jobs that compute would also lose what they take from each other",
        ),
    ]


def _whole_cycles(running: Cluster, names: Sequence[str]) -> tuple[float, float, int]:
    """Return first and last of the changes of turns between which as many whole cycles lie as were seen, and how many
    quanta that is. In three quanta of four slots each of six jobs has two."""
    pauses = [pairwise([at for _, at in running.noted(name)]) for name in names]
    begun_s = sorted(after for of_job in pauses for before, after in of_job if after - before > SHARED_S / 2)
    changes = [at for before, at in pairwise([0.0, *begun_s]) if at - before > SHARED_S / 2]
    quanta = (len(changes) - 1) // 3 * 3
    return changes[0], changes[quanta], quanta


def _between(running: Cluster, name: str, begin_s: float, end_s: float) -> int:
    return sum(begin_s <= at < end_s for _, at in running.noted(name))
