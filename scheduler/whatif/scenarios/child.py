"""Process that makes runs, ``python -m scheduler.whatif.scenarios.child``: tasks in, progress and results out.

A task is one line of JSON on standard input; progress, result and the end of a run are lines of JSON on standard
output. Loading the code takes longer than the run of a small cluster, so the process loads it once, and forks for each
task. Only the fork reads the workload, which may be a file from a stranger: it has no database and no broker, and ends
when it exceeds the CPU time or the memory of its task. Both end when standard input is closed, so that they never
outlive the worker; the fork ends with the process that made it, too.
"""

import gc
import json
import os
import select
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clusterweb.config.children import limit_process
from scheduler.simulator.errors import BadInput
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.report.figures import figures_of, figures_to_json
from scheduler.simulator.report.narrowed import narrowed
from scheduler.simulator.report.until import figures_until
from scheduler.simulator.state.early_figures import EarlyFigure, EarlyFigures
from scheduler.simulator.study.starting_points import ready
from scheduler.simulator.study.study import Result
from scheduler.simulator.study.variants import variant_from
from scheduler.simulator.traces.errors import TraceError

TELL_EVERY_S = 0.1
Json = dict[str, Any]  # one message


class ProgressWriter:
    """Writes messages to standard output, progress at most every TELL_EVERY_S."""

    def __init__(self) -> None:
        self._said_s = 0.0

    def say(self, message: Json) -> None:
        """Write one message."""
        sys.stdout.write(json.dumps(message, allow_nan=False) + "\n")
        sys.stdout.flush()

    def progress(self, done: int, total: int) -> None:
        """Write how many jobs are done, at most every TELL_EVERY_S."""
        now_s = time.monotonic()
        if now_s - self._said_s >= TELL_EVERY_S:
            self._said_s = now_s
            self.say({"done": done, "total": total})

    def early(self, figure: EarlyFigure) -> None:
        """Write a figure of a run that goes on."""
        self.say({"early": asdict(figure)})


def run(task: Mapping[str, Any], told: ProgressWriter) -> Json:
    """Return the result of a task.

    Raises:
        BadInput, TraceError: With a sentence for the owner of the scenario.
    """
    begun_s = time.process_time()
    base = json.loads(Path(task["base"]).read_bytes())
    variant = variant_from(task["variant"])
    readied = ready(base, variant, seed=int(task["seed"]))
    prepared = readied.prepared
    jobs = prepared.trace.jobs
    if len(jobs) > task["most_jobs"]:
        raise BadInput(f"{len(jobs):,} jobs are more than the {task['most_jobs']:,} that a run may have.")
    told.say({"done": 0, "total": len(jobs)})
    early = None if readied.begun else EarlyFigures([job.arrival_s for job in jobs], told.early)
    loaded_s = time.process_time()
    outcome = simulate(
        Replay(
            jobs,
            prepared.servers,
            prepared.queues,
            variant.arm.config(),
            round_s=base.get("round_s"),
            beat_s=base.get("beat_s"),
            restart_s=base.get("restart_s", 0.0),
            keep_series=True,
            keep_stays=True,
            begun=readied.begun,
        ),
        progress=told.progress,
        early=early,
    )
    simulated_s = time.process_time()
    result = Result(arm=variant.arm, seed=int(task["seed"]), outcome=outcome, summary=summarize(outcome))
    figures = figures_of(result, prepared, server_names=base["servers"].get("names", ()))
    if "own_queues" in base:
        figures = narrowed(figures, base["own_queues"], prepared.queues.parent.tolist())
    costs = {
        "load_s": loaded_s - begun_s,
        "simulate_s": simulated_s - loaded_s,
        "figures_s": time.process_time() - simulated_s,
    }
    found = {"figures": figures_to_json(figures), "warnings": list(prepared.trace.warnings), "costs": costs}
    if "seen_until_s" in base:
        found["seen"] = figures_until(outcome, base["seen_until_s"])
    return found


def end_with_others(maker: int) -> None:
    """End this process when the worker has closed its standard input, or when the process that forked it has ended.

    Args:
        maker: A pidfd of that process.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(maker, select.POLLIN)
    poll.poll()
    os._exit(1)


def answer(task: Mapping[str, Any]) -> None:
    """Make one run within the limits of its task, and write its result or why there is none."""
    limit_process(cpu_s=int(task["most_cpu_s"]), memory_bytes=int(task["most_bytes"]))
    told = ProgressWriter()
    try:
        told.say({"result": run(task, told)})
    except (BadInput, TraceError) as error:
        told.say({"error": str(error)})
    except MemoryError:
        told.say({"error": "It needs more memory than a run may have."})


def answer_in_fork(line: bytes, maker: int) -> int:
    """Answer a task in a fork of this process, and return how the fork ended: its status, or minus a signal."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            threading.Thread(target=end_with_others, args=(maker,), daemon=True).start()
            answer(json.loads(line))
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    """Answer tasks, one after the other, until standard input is closed."""
    gc.freeze()  # what is loaded is never collected, so its pages stay shared with the forks
    maker, writer = os.pidfd_open(os.getpid()), ProgressWriter()
    # Unbuffered: the fork waits at the same stream, and a thread that waits in a buffer would hold its lock.
    with open(0, "rb", buffering=0, closefd=False) as given:
        while line := given.readline():
            writer.say({"ended": answer_in_fork(line, maker)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
