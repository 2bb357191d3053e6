"""Replay several arms and seeds in as many processes as there are cores; results do not depend on their number."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process

from scheduler.core.round.config import SharePolicy
from scheduler.simulator.study.arms import Arm
from scheduler.simulator.study.study import Prepared, Result, Study, prepare, replay

Tell = Callable[[Result], None]


@dataclass(slots=True)
class _Worker:
    """State of a process between runs: the workload of the last seed."""

    study: Study
    seed: int
    prepared: Prepared


_here: list[_Worker] = []  # in a process of the pool: its one worker


def compare(
    study: Study,
    arms: Sequence[Arm],
    *,
    seeds: Sequence[int] = (0,),
    workers: int | None = None,
    first: Prepared | None = None,
    tell: Tell | None = None,
) -> list[Result]:
    """Return one result for each arm and seed: the arms in their order, the seeds of each in theirs.

    Args:
        study: What the arms have in common.
        arms: What differs.
        seeds: Seeds of the workload.
        workers: Processes; None for one for each core. With one, this process does the work.
        first: The workload of the first seed where it is read already.
        tell: Called after each run, in the order in which they end.

    Raises:
        BadInput: If an arm cannot be built, or an option does not fit the trace.
        TraceError: If the trace cannot be read.
    """
    first = first or prepare(study, seed=seeds[0])
    runs = [(arm, seed) for seed in seeds for arm in arms]
    count = min(len(runs), workers or os.cpu_count() or 1)
    found = _in_turn(study, runs, first, tell) if count == 1 else _in_processes(study, runs, first, tell, count)
    return [found[arms.index(arm) + len(arms) * seeds.index(seed)] for arm in arms for seed in seeds]


def _in_turn(study: Study, runs: Sequence[tuple[Arm, int]], first: Prepared, tell: Tell | None) -> list[Result]:
    worker = _Worker(study, runs[0][1], first)
    results = []
    for arm, seed in runs:
        results.append(_run(worker, arm, seed))
        if tell:
            tell(results[-1])
    return results


def _in_processes(
    study: Study, runs: Sequence[tuple[Arm, int]], first: Prepared, tell: Tell | None, count: int
) -> list[Result]:
    results: dict[int, Result] = {}
    # A fork has the workload and all modules at once; it could wait for ever for a lock that another thread held.
    context = get_context("fork" if threading.active_count() == 1 else "spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(study, runs[0][1], first))
    _replay_in(pool, runs, results, tell)
    return [results[place] for place in range(len(runs))]


def _replay_in(
    pool: ProcessPoolExecutor, runs: Sequence[tuple[Arm, int]], results: dict[int, Result], tell: Tell | None
) -> None:
    with _ended_at_once(pool):
        with _interrupts_later():
            places = {pool.submit(_run_here, *runs[place]): place for place in _longest_first(runs)}
        open_runs = set(places)
        while open_runs:
            done, open_runs = wait(open_runs, return_when=FIRST_COMPLETED)
            for future in done:
                results[places[future]] = future.result()
                if tell:
                    tell(results[places[future]])


def _longest_first(runs: Sequence[tuple[Arm, int]]) -> list[int]:
    """Return the places of the runs, of each seed those first that are expected to take longest.

    So no process is left alone with a long one at the end. What costs most is to choose how many GPUs each job has,
    then to choose its cores and memory, then to stop some for others.
    """
    seeds = [*dict.fromkeys(seed for _, seed in runs)]

    def work(place: int) -> tuple[int, bool, bool, bool]:
        arm, seed = runs[place]
        config = arm.config()
        shares = isinstance(config.policy, SharePolicy)
        return seeds.index(seed), not shares, not config.mechanism.trims, not config.policy.preemptive

    return sorted(range(len(runs)), key=work)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back until the end of the block, in which processes are started.

    It reaches the whole group of processes. The new ones inherit that it is blocked, for good: the parent ends them,
    and is the only one to speak. It must not be interrupted between starting one and knowing that it has.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def _ended_at_once(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Shut the pool down; when something went wrong, without waiting for what is being replayed."""
    before = set(active_children())
    try:
        yield
    except BaseException:
        for process in set(active_children()) - before:
            process.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _begin(study: Study, seed: int, first: Prepared) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here[:] = [_Worker(study, seed, first)]


def _end_with_parent() -> None:
    """End this process when its parent is gone, killed or not: no process reads its results."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_here(arm: Arm, seed: int) -> Result:
    return _run(_here[0], arm, seed)


def _run(worker: _Worker, arm: Arm, seed: int) -> Result:
    if seed != worker.seed:
        worker.seed, worker.prepared = seed, prepare(worker.study, seed=seed)
    return replay(worker.study, worker.prepared, arm, seed=seed)
