"""Run one call of ``manage.py simulate``: prepare the study, replay the arms, write files, table and notes."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from scheduler.core.spec.units import counted
from scheduler.simulator import VERSION
from scheduler.simulator.errors import BadInput
from scheduler.simulator.replay.saving import States, UnusableStateError
from scheduler.simulator.report.leftover import left_over
from scheduler.simulator.report.records_file import check_suffix, write_placements, write_records, write_series
from scheduler.simulator.report.summary_text import as_json, table
from scheduler.simulator.state.costs import ReconfigurationCosts
from scheduler.simulator.study.arms import Arm
from scheduler.simulator.study.compare import Tell, compare
from scheduler.simulator.study.study import Prepared, Result, Study, prepare, replay

STDOUT = Path("-")
# Quotas that the text names; the others are added up.
QUOTAS_SHOWN = 10


class Writer(Protocol):
    """A stream, or Django's wrapper of one."""

    def write(self, msg: str, /) -> object:
        """Write the text."""

    def isatty(self) -> bool:
        """Return whether it is a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the command, parsed.

    Attributes:
        study: The workload and the cluster.
        arms: What to replay, at least one.
        seeds: Seeds of the workload, at least one.
        workers: Processes; None for one for each core.
        states: Files with the state of the one replay, to interrupt it and go on.
        verbose: Whether to say how the rounds of each arm were planned, and why.
        json, records, series, placements, html: Files to write; None for none. ``-`` as ``json`` is stdout.
    """

    study: Study
    arms: Sequence[Arm]
    seeds: Sequence[int]
    workers: int | None = None
    states: States = field(default_factory=States)
    verbose: bool = False
    json: Path | None = None
    records: Path | None = None
    series: Path | None = None
    placements: Path | None = None
    html: Path | None = None


def run_simulation(request: Request, *, out: Writer, notes: Writer) -> str:
    """Replay, write the files, print the table; return why jobs are left over, empty when none is.

    Raises:
        BadInput: If an option cannot be used.
        TraceError: If the trace cannot be read.
        PlanInvariantError: If a plan breaks a safety rule, or a check finds two plans that differ: a defect.
    """
    _check_files(request)
    _check_states(request)
    for arm in request.arms:
        arm.config()  # a mistyped name is told before a large trace is read
    study = replace(
        request.study,
        keep_series=bool(request.series or request.html),
        keep_stays=bool(request.placements or request.html),
    )
    first = prepare(study, seed=request.seeds[0])
    for warning in first.trace.warnings:
        notes.write(f"{warning}.\n")
    results = _replayed(request, study, first, notes)
    _write_files(request, study, first, results, out)
    if request.verbose:
        for result in results:
            if result.seed == request.seeds[0]:
                notes.write(f"{result.arm.name}: {result.outcome.planner}\n")
    if study.check_every:
        for result in results:
            notes.write(_checked(result))
    if request.json != STDOUT:
        out.write(f"{describe(study, first)}\n{_quotas(study, first)}\n{table(results)}\n")
    return "\n".join(filter(None, map(left_over, results)))


def _replayed(request: Request, study: Study, first: Prepared, notes: Writer) -> list[Result]:
    runs = len(request.arms) * len(request.seeds)
    if runs > 1:
        with _run_bar(runs, notes) as tell:
            return compare(study, request.arms, seeds=request.seeds, workers=request.workers, first=first, tell=tell)
    with _job_bar(len(first.trace.jobs), notes) as progress:
        try:
            arm, seed = request.arms[0], request.seeds[0]
            return [replay(study, first, arm, seed=seed, progress=progress, states=request.states)]
        except UnusableStateError as error:
            raise BadInput(f"--continue: {error}.") from None


def _checked(result: Result) -> str:
    """Return what a check of one replay found, which is never a difference: that ends the replay."""
    outcome = result.outcome
    held = f"{result.arm.name}, seed {result.seed}: {outcome.checked:,} rounds keep the safety rules"
    if not outcome.compared:
        return f"{held}; all were planned from scratch.\n"
    return f"{held}; {outcome.compared:,} of them were planned from scratch as well, without a difference.\n"


def describe(study: Study, prepared: Prepared) -> str:
    """Return what was replayed in one line: ``60 jobs of t.csv on 16 servers x (...), 128 GPUs, ..., one queue``."""
    gpus = int(prepared.servers.num_gpus.sum())
    rounds = "rounds whenever something changes" if study.round_s is None else f"rounds of {study.round_s:g} s"
    jobs = f"{counted(len(prepared.trace.jobs), 'job')} of {prepared.trace.source}"
    count = len(prepared.queue_names)
    source = "cluster file" if study.cluster.queues else "trace"
    queues = "one queue" if count == 1 else f"{count:,} queues of the {source}"
    return f"{jobs} on {prepared.cluster_text}, {counted(gpus, 'GPU')}, {rounds}, {queues}"


def _quotas(study: Study, prepared: Prepared) -> str:
    """Return the quotas of the trace's queues in a line, largest first; empty where no queue follows from it."""
    quotas = prepared.queues.quota_gpus.tolist()
    if study.cluster.queues or len(quotas) == 1:
        return ""
    largest = sorted(zip(quotas, prepared.queue_names, strict=True), key=lambda queue: -queue[0])
    shown = [f"{name} {gpus:,}" for gpus, name in largest[:QUOTAS_SHOWN]]
    if rest := largest[QUOTAS_SHOWN:]:
        shown.append(f"{len(rest):,} more {sum(gpus for gpus, _ in rest):,}")
    by = "by the GPU time of its jobs" if prepared.trace.quotas is None else "as generated"
    return f"Quota of each queue in GPUs, {by}: {', '.join(shown)}. --queues one puts all jobs in one.\n"


def setting(study: Study, prepared: Prepared) -> dict[str, object]:
    """Return what a reader of the JSON needs to run it again."""
    workload = study.workload
    return {
        "version": VERSION,
        "trace": prepared.trace.source,
        "format": prepared.trace.format,
        "cluster": prepared.cluster_text,
        "servers": len(prepared.servers),
        "gpus": int(prepared.servers.num_gpus.sum()),
        "queues": list(prepared.queue_names),
        "quotas_gpus": prepared.queues.quota_gpus.tolist(),
        "round_s": study.round_s,
        "restart_s": study.restart_s,
        "leave_s": study.leave_s,
        "checkpoint_s": study.checkpoint_s if math.isfinite(study.checkpoint_s) else None,
        "costs": str(study.costs.manager) if isinstance(study.costs, ReconfigurationCosts) else None,
        "retries": "at-once" if study.retries is None else "rules",
        "until_s": study.until_s if math.isfinite(study.until_s) else None,
        "window": workload.window or None,
        "load": workload.load,
        "mix": dict(prepared.mix) or None,
        "warnings": list(prepared.trace.warnings),
    }


def _check_files(request: Request) -> None:
    for path, flag in (
        (request.records, "--records"),
        (request.series, "--series"),
        (request.placements, "--placements"),
    ):
        if path is not None:
            check_suffix(path, flag=flag)
    every = (request.json, request.records, request.series, request.placements, request.html, request.states.save_to)
    taken = {Path(request.study.workload.source).resolve(): "is the trace, which would be overwritten"}
    for path in every:
        if path is None or path == STDOUT:
            continue
        if not path.absolute().parent.is_dir():
            raise BadInput(f"{path}: there is no folder {path.parent} to write it to.")
        if path.is_dir():
            raise BadInput(f"{path}: is a folder; name a file in it.")
        if path.resolve() in taken:
            raise BadInput(f"{path}: {taken[path.resolve()]}; name another file.")
        taken[path.resolve()] = "is to hold two outputs"


def _check_states(request: Request) -> None:
    states = request.states
    if states.save_to is None and states.continue_from is None:
        return
    if len(request.arms) * len(request.seeds) > 1:
        raise BadInput("--checkpoint and --continue hold one replay: give one --policy and one --seed.")
    if request.arms[0].introspection:
        raise BadInput("--checkpoint and --continue: a replay with --introspection cannot be interrupted.")
    if states.continue_from and (request.series or request.placements or request.html):
        raise BadInput(
            "--continue: --series, --placements and --html need a replay in one piece; --json and --records do not."
        )


def _write_files(request: Request, study: Study, first: Prepared, results: Sequence[Result], out: Writer) -> None:
    if request.json is not None:
        text = json.dumps(as_json(results, setting(study, first)), indent=1, allow_nan=False) + "\n"
        if request.json == STDOUT:
            out.write(text)
        else:
            request.json.write_text(text, encoding="utf-8")
    writers = ((request.records, write_records), (request.series, write_series), (request.placements, write_placements))
    for path, write in writers:
        if path is not None:
            write(path, _replays(study, first, request.seeds, results))
    if request.html is not None:
        # Only a report needs the pages' templates.
        from frontend.pages.simulation.page import write_report

        shown = [result for result in results if result.seed == request.seeds[0]]
        write_report(request.html, first, shown, subtitle=describe(study, first))


def _replays(
    study: Study, first: Prepared, seeds: Sequence[int], results: Sequence[Result]
) -> Iterator[tuple[Result, Prepared]]:
    """Yield the results seed by seed, each with its workload."""
    for seed in seeds:
        prepared = first if seed == seeds[0] else prepare(study, seed=seed)
        yield from ((result, prepared) for result in results if result.seed == seed)


@contextmanager
def _run_bar(total: int, notes: Writer) -> Iterator[Tell | None]:
    """Give what to call after each run; a bar on a terminal, nothing elsewhere."""
    if not notes.isatty():
        yield None
        return
    from tqdm import tqdm  # only a terminal needs it, and it takes a tenth of the start

    tqdm.monitor_interval = 0  # no thread that wakes a silent bar: processes are forked beside this one
    with tqdm(total=total, file=sys.stderr, unit="run", leave=False) as bar:

        def tell(result: Result) -> None:
            bar.set_postfix_str(result.arm.name)
            bar.update()

        yield tell


@contextmanager
def _job_bar(total: int, notes: Writer) -> Iterator[Callable[[int, int], None] | None]:
    """Give what to call with the number of jobs done and of all jobs; a bar on a terminal."""
    if not notes.isatty():
        yield None
        return
    from tqdm import tqdm  # as above

    # A replay that is over at once shows nothing.
    with tqdm(total=total, file=sys.stderr, unit="job", leave=False, delay=1.0) as bar:

        def progress(done: int, _total: int) -> None:
            bar.update(done - bar.n)

        yield progress
