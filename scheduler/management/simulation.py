"""What ``manage.py simulate`` does with its arguments: build a study, replay the arms, write what was asked for."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from tqdm import tqdm

from scheduler.simulator import VERSION
from scheduler.simulator.arms import Arm
from scheduler.simulator.compare import Tell, compare
from scheduler.simulator.errors import BadInput
from scheduler.simulator.leftover import left_over
from scheduler.simulator.records_file import check_suffix, write_placements, write_records, write_series
from scheduler.simulator.study import Prepared, Result, Study, prepare
from scheduler.simulator.summary_text import as_json, table

STDOUT = Path("-")


class Writer(Protocol):
    """Where text goes: a stream, or Django's wrapper of one."""

    def write(self, msg: str, /) -> object:
        """Write the text."""

    def isatty(self) -> bool:
        """Return whether somebody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the command, parsed.

    Attributes:
        study: The workload and the cluster.
        arms: What to replay, at least one.
        seeds: Seeds of the workload, at least one.
        workers: Processes; None for one for each core.
        json, records, series, placements, html: Files to write; None for none. ``-`` as ``json`` is stdout.
    """

    study: Study
    arms: Sequence[Arm]
    seeds: Sequence[int]
    workers: int | None = None
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
    """
    _check_files(request)
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
    with _progress(len(request.arms) * len(request.seeds), notes) as tell:
        results = compare(study, request.arms, seeds=request.seeds, workers=request.workers, first=first, tell=tell)
    _write_files(request, study, first, results, out)
    if request.json != STDOUT:
        out.write(f"{describe(study, first)}\n\n{table(results)}\n")
    return "\n".join(filter(None, (left_over(result, first) for result in results)))


def describe(study: Study, prepared: Prepared) -> str:
    """Return what was replayed in one line: ``1,200 jobs of trace.csv on 16 servers x (8 GPUs, ...), round 300 s``."""
    gpus = int(prepared.servers.num_gpus.sum())
    rounds = "rounds whenever something changes" if study.round_s is None else f"rounds of {study.round_s:g} s"
    jobs = f"{len(prepared.trace.jobs):,} jobs of {prepared.trace.source}"
    return f"{jobs} on {prepared.cluster_text}, {gpus:,} GPUs, {rounds}"


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
        "round_s": study.round_s,
        "restart_s": study.restart_s,
        "window": workload.window or None,
        "load": workload.load,
        "mix": dict(workload.mix) if workload.mix else None,
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
    files = (request.json, request.records, request.series, request.placements, request.html)
    for path in files:
        if path is not None and path != STDOUT and not path.absolute().parent.is_dir():
            raise BadInput(f"{path}: there is no folder {path.parent} to write it to.")


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
def _progress(total: int, notes: Writer) -> Iterator[Tell | None]:
    """Give what to call after each run; a bar where somebody watches, nothing elsewhere."""
    if not notes.isatty() or total < 2:
        yield None
        return
    with tqdm(total=total, file=sys.stderr, unit="run", leave=False) as bar:

        def tell(result: Result) -> None:
            bar.set_postfix_str(result.arm.name)
            bar.update()

        yield tell
