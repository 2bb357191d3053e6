"""Replay several arms and seeds in as many processes as there are cores; results do not depend on their number."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext

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
    waiting = iter(_longest_first(runs))
    with _workers(count, study, runs[0][1], first) as pipes:
        asked: dict[Connection, int] = {}
        free = pipes
        while free:
            for pipe, place in zip(free, waiting, strict=False):
                pipe.send(runs[place])
                asked[pipe] = place
            free = [pipe for pipe in wait([*asked]) if isinstance(pipe, Connection)] if asked else []
            for pipe in free:
                place = asked.pop(pipe)
                results[place] = _answer(pipe)
                if tell:
                    tell(results[place])
    return [results[place] for place in range(len(runs))]


def _answer(pipe: Connection) -> Result:
    """Return the result of a run, or raise its error."""
    try:
        answer: Result | Exception = pipe.recv()
    except EOFError:
        raise ChildProcessError("A process was killed in the middle of a replay, for lack of memory perhaps.") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


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
def _workers(count: int, study: Study, seed: int, first: Prepared) -> Iterator[list[Connection]]:
    """Give the pipes to new processes that replay, and end these at the end, whatever they do then.

    There is no thread beside the one that waits, and no lock that Ctrl-C could leave taken.
    """
    # A fork has the workload and all modules at once; it could wait for ever for a lock that another thread held.
    alone = threading.active_count() == 1
    context: ForkContext | SpawnContext = get_context("fork") if alone else get_context("spawn")
    processes, pipes = [], []
    try:
        with _interrupts_later():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, study, seed, first), daemon=True)
                process.start()
                theirs.close()  # the end of the process is the end of what it sends
                processes.append(process)
                pipes.append(ours)
        yield pipes
    finally:
        with _interrupts_later():
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
            for pipe in pipes:
                pipe.close()


def _work(pipe: Connection, study: Study, seed: int, first: Prepared) -> None:
    """Replay what is asked for, one run after the other, until this process is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = _Worker(study, seed, first)
    while True:
        arm, seed = pipe.recv()
        answer: Result | Exception
        try:
            answer = _run(worker, arm, seed)
        except Exception as error:
            answer = error
        pipe.send(answer)


def _end_with_parent() -> None:
    """End this process when its parent is gone, killed or not: no process reads its results."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(worker: _Worker, arm: Arm, seed: int) -> Result:
    if seed != worker.seed:
        worker.seed, worker.prepared = seed, prepare(worker.study, seed=seed)
    return replay(worker.study, worker.prepared, arm, seed=seed)
