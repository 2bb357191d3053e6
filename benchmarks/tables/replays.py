"""Write the tables of docs/performance.md from benchmarks/results: replays, shares, rounds, comparisons, many queues.

python -m benchmarks.tables.replays
"""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "benchmarks" / "results"
SITUATIONS = ("cold", "steady", "churn")

Measured = dict[str, Any]  # JSON of benchmarks.__main__


def _lines(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    """Return a table in Markdown."""
    begin = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return begin + [f"| {' | '.join(map(str, row))} |" for row in rows]


def _when(measured: Measured) -> str:
    machine = measured["machine"]
    at = machine["measured_at"][:16].replace("T", " ")
    return f"Measured {at} UTC on {machine['cores']} cores, Python {machine['python']}"


def replays(measured: Measured) -> list[str]:
    """Return what each replay costs."""
    result = measured["result"]
    head = (
        "policy",
        "mechanism",
        "CPU s",
        "target",
        "CPU s per 1,000 jobs",
        "of a bare loop",
        "bare loop, \u00b5s a job",
    )
    rows = [
        (
            *(one["policy"], one["mechanism"], f"{one['cpu_s']:.1f}", f"{result['target_cpu_s'][one['mechanism']]:g}"),
            *(f"{one['cpu_s_per_1000_jobs']:.3f}", f"{one['times_bare_loop']:.0f}"),
            f"{one['cpu_s_per_1000_jobs'] * 1e3 / one['times_bare_loop']:.1f}",
            *(one["peak_rss_mb"], f"{one['preemptions']:,}"),
        )
        for one in result["replays"]
    ]
    loads = [one["load_1min"] for one in result["replays"]]
    return [
        *_lines((*head, "peak MB", "preemptions"), rows),
        "",
        f"{_when(measured)}, with a load average (1 minute) of {min(loads)} to {max(loads)}.",
    ]


def doubling(measured: Measured) -> list[str]:
    """Return what twice the jobs cost, in times."""
    result, load = measured["result"], measured["machine"]["load_1min"]
    rows = [
        (
            *(one["policy"], f"{one['num_jobs']:,} to {2 * one['num_jobs']:,}", f"{one['cpu']:.2f}"),
            *(
                " ".join(f"{each:.2f}" for each in one["cpu_of_each"]),
                f"{result['target']:g}" if one["num_jobs"] == result["target_num_jobs"] else "",
                one["preemptions"] or "",
            ),
        )
        for one in result["doubling"]
    ]
    when = f"{_when(measured)}, with a load average (1 minute) of {load:.1f} before"
    return [
        *_lines(("policy", "jobs", "CPU", "of each", "target", "preemptions"), rows),
        "",
        f"{when}; medians of {result['repeats']}, both sizes beside each other on one core.",
    ]


def elastic(measured: Measured) -> list[str]:
    """Return what replays of elastic jobs cost."""
    result = measured["result"]
    head = ("policy", "CPU s", "target", "CPU s per 1,000 jobs", "of a bare loop", "peak MB", "rounds planned")
    rows = [
        (
            *(one["policy"], f"{one['cpu_s']:.1f}", f"{result['target_cpu_s']:g}", f"{one['cpu_s_per_1000_jobs']:.2f}"),
            *(f"{one['times_bare_loop']:,.0f}", one["peak_rss_mb"], f"{one['planned']:,} of {one['rounds']:,}"),
        )
        for one in result["replays"]
    ]
    loads = [one["load_1min"] for one in result["replays"]]
    when = f"{_when(measured)}, with a load average (1 minute) of {min(loads)} to {max(loads)}."
    return [*_lines(head, rows), "", when]


def rounds(measured: Measured) -> list[str]:
    """Return the CPU time of one round by mechanism, policy and situation."""
    measured = measured["parts"]["plan"]
    cpu_ms = {(t["mechanism"], t["policy"], t["situation"]): t["cpu_ms"] for t in measured["result"]["timings"]}
    targets = measured["result"]["target_ms"]
    kinds = dict.fromkeys((mechanism, policy) for mechanism, policy, _ in cpu_ms)
    rows = [(*kind, *(f"{cpu_ms[*kind, each]:.0f}" for each in SITUATIONS), f"{targets[kind[0]]:g}") for kind in kinds]
    head = ("mechanism", "policy", *(f"{each}, ms" for each in SITUATIONS), "target, ms")
    medians = f"medians of {measured['result']['repeats']} rounds"
    return [
        *_lines(head, rows),
        "",
        f"{_when(measured)}, at a load of {measured['machine']['load_1min']:.1f}; {medians}.",
    ]


def compare(measured: Measured) -> list[str]:
    """Return how long six arms take with one process and with two, medians."""
    result, load = measured["result"], measured["machine"]["load_1min"]

    def median_s(runs: list[Measured], key: str, workers: int) -> str:
        return f"{statistics.median(run[key] for run in runs if run['workers'] == workers):.1f}"

    head = ("jobs", "processes", "wall s", "CPU s", "of these in the arms", "share", "target")
    rows = [
        (
            *(f"{size['num_jobs']:,}", workers),
            *(median_s(size["runs"], key, workers) for key in ("wall_s", "cpu_s", "arms_cpu_s")),
            *((f"{size['share']:.2f}", f"{result['target_share']:g}") if workers > 1 else ("", "")),
        )
        for size in result["sizes"]
        for workers in (1, 2)
    ]
    when = f"{_when(measured)}, with a load average (1 minute) of {load:.1f} before"
    loops = ", ".join(f"{share:.2f}" for share in result["bare_shares"])
    return [*_lines(head, rows), "", f"{when}; medians; a bare loop before, between and after: {loops}."]


def queues(measured: Measured) -> list[str]:
    """Return what replays of many queues cost."""
    head = ("policy", "mechanism", "CPU s", "target", "ms per planned round", "of a bare loop", "preemptions")
    target_s = measured["result"]["target_cpu_s"]
    rows = [
        (
            *(one["policy"], one["mechanism"], f"{one['cpu_s']:.1f}", f"{target_s:g}"),
            *(f"{one['cpu_ms_per_planned']:.2f}", f"{one['times_bare_loop']:.0f}", f"{one['preemptions']:,}"),
        )
        for one in measured["result"]["replays"]
    ]
    load = measured["machine"]["load_1min"]
    return [*_lines(head, rows), "", f"{_when(measured)}, with a load average (1 minute) of {load:.1f} before."]


def _beside(measured: Measured, part: str, plain: str, bound: str) -> list[str]:
    """Return the CPU time of jobs with and without what binds them (``benchmarks/support/bounds.py``)."""
    rows = [
        (
            *(one["policy"], one["mechanism"], f"{one['plain_cpu_s']:.2f}", f"{one['bound_cpu_s']:.2f}"),
            f"{one['times']:.1f}",
        )
        for one in measured["result"][part]["replays"]
    ]
    load = measured["machine"]["load_1min"]
    when = f"{_when(measured)}, with a load average (1 minute) of {load:.1f} before; medians of 3 pairs."
    return [*_lines(("policy", "mechanism", f"{plain}, CPU s", f"{bound}, CPU s", "times"), rows), "", when]


def backlog(measured: Measured) -> list[str]:
    """Return what the queues of a long line cost."""
    return _beside(measured, "backlog", "one queue", "10 queues")


def cores(measured: Measured) -> list[str]:
    """Return what it costs that jobs insist on cores."""
    return _beside(measured, "cores", "none insists", "a fifth insists")


# Marker on the page, file of results, and what stands there.
TABLES: tuple[tuple[str, str, Callable[[Measured], list[str]]], ...] = (
    ("replays", "sim", replays),
    ("doubling", "doubling", doubling),
    ("elastic", "elastic", elastic),
    ("rounds", "round", rounds),
    ("compare", "compare", compare),
    ("queues", "queues", queues),
    ("backlog", "queues", backlog),
    ("cores", "queues", cores),
)


def main() -> None:
    """Replace what stands between the markers."""
    page = PAGE.read_text()
    for marker, name, table in TABLES:
        if not (RESULTS / f"{name}.json").exists():
            continue  # not measured yet
        begin, end = f"<!-- {marker}: python -m benchmarks.tables.replays -->", f"<!-- end of {marker} -->"
        body = "\n".join(table(json.loads((RESULTS / f"{name}.json").read_text())))
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE} does not hold one part between {begin} and {end}")
        page = f"{page[: page.index(begin)]}{begin}\n{body}\n{page[page.index(end) :]}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
