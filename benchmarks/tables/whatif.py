"""Write the results of what-if and start estimates from benchmarks/results into the pages of docs that show them.

python -m benchmarks.tables.whatif
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- {name}: python -m benchmarks.tables.whatif -->", "<!-- end of {name} -->"
MONTHS = {
    "generated": "generated, 14 queues, four mechanisms",
    "philly_month": "Philly, uploaded, four mechanisms",
    "philly_policies": "Philly, uploaded, four policies",
}

LIVE = {"live_20": "20 wait", "live_2000": "2,000 wait"}
ANSWERS = {
    "preview": "preview of a quota",
    "why": "the page *Why and when*; the first time in a process it loads its code (20 wait)",
    "what_if": "four policies and two seeds",
}

Parts = dict[str, dict[str, Any]]  # JSON of benchmarks.__main__, by part


def row(*cells: object) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def months(parts: Parts) -> list[str]:
    """Return how long each month took, and how long nothing new was said of it."""
    head = ("month", "variants", "jobs", "GPUs", "wall s", "target", "CPU s of the runs", "longest silence, s", "MB")
    rows = []
    for name, part in parts.items():
        found = part["result"]
        cpu_s = sum(sum(costs.values()) for costs in found["cpu_s"].values())
        rows.append(
            row(
                *(MONTHS[name], found["variants"], f"{found['jobs']:,}", f"{8 * found['servers']:,}"),
                *(f"{found['wall_s']:.1f}", f"{found['target_wall_s']:g}", f"{cpu_s:.1f}"),
                *(f"{found['longest_gap_between_frames_s']:.2f}", found["peak_rss_mb"]),
            )
        )
    moved_s = max(part["result"]["longest_gap_between_values_s"] for part in parts.values())
    return [
        *(row(*head), "|---" * len(head) + "|", *rows, ""),
        f"{_when(parts)}. The share that is done stood still for {moved_s:.2f} s at most.",
    ]


def live(parts: Parts) -> list[str]:
    """Return how long answers about a live cluster take, wall seconds."""
    rows = []
    for name, what in ANSWERS.items():
        cells: list[object] = []
        for part in (parts[each]["result"] for each in LIVE):
            target_s = part["targets"].get(f"{name}_s")
            cells += [f"{part[f'{name}_s']:.2g}" if f"{name}_s" in part else "", f"{target_s:g}" if target_s else ""]
        rows.append(row(what, *cells))
    head = row("answer", *(cell for waiting in LIVE.values() for cell in (f"{waiting}, s", "target")))
    load = max(parts[each]["machine"]["load_1min"] for each in LIVE)
    return [head, "|---" * 5 + "|", *rows, "", f"{_when({each: parts[each] for each in LIVE})}, load up to {load:.1f}."]


def starts(parts: Parts) -> list[str]:
    """Return which share of jobs starts by the time that was said."""
    head = (
        *("policy", "jobs that tell their length", "waits", "started by p90", "target", "by p90 as simulated"),
        *("told no p90", "by p50", "wait, median", "p90, median", "p50 is off by, median"),
    )
    rows = []
    for name, part in sorted(parts.items()):
        if name.startswith("week-"):
            continue
        found = part["result"]
        covered = (found[f"{name}_frac"] for name in ("covered", "target_covered", "covered_as_simulated"))
        rows.append(
            row(
                *(found["policy"], found["jobs_that_tell_their_length"], found["waits_judged"]),
                *(f"{frac:.0%}" for frac in (*covered, found["told_no_p90_frac"], found["by_p50_frac"])),
                *(_hours(found[f"median_{name}_s"]) for name in ("wait", "p90", "error")),
            )
        )
    return [row(*head), "|---" * len(head) + "|", *rows, "", f"{_when(parts)}."]


def weeks(parts: Parts) -> list[str]:
    """Return coverage and error of each judged week, by the class of the wait and by the class of the median told."""
    classes = ("minutes", "hours", "days")
    head = ("week", "policy", "classed by", *(f"{name}: waits, by p90, p50 off by" for name in classes))
    rows = []
    of_weeks = {name: part for name, part in sorted(parts.items()) if name.startswith("week-")}
    for name, part in of_weeks.items():
        found = part["result"]
        for by, told in (("by_wait", "the wait"), ("by_p50", "the p50 told")):
            cells = [_class(one) for one in found[by].values()]
            rows.append(row(f"{name[5]}, all {found['covered_frac']:.0%}", found["policy"], told, *cells))
    return [row(*head), "|---" * len(head) + "|", *rows, "", f"{_when(of_weeks)}."]


def _class(found: dict[str, Any]) -> str:
    if not found["waits"]:
        return "none"
    return f"{found['waits']}, {found['covered_frac']:.0%}, {_hours(found['median_error_s'])}"


def _hours(seconds: float | None) -> str:
    return "beyond 7 d" if seconds is None else f"{seconds / 3600:.1f} h"


def _when(parts: Parts) -> str:
    machines = [part["machine"] for part in parts.values()]
    last = max(machines, key=lambda machine: str(machine["measured_at"]))
    at = last["measured_at"][:16].replace("T", " ")
    return f"Measured until {at} UTC on {last['cores']} cores, Python {last['python']}"


def write(page: Path, name: str, lines: Iterable[str]) -> None:
    """Put lines into their place in a page."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    text = "\n".join((begin, *lines, end))
    made, count = re.subn(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: text, page.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{page} holds {count} parts between {begin} and {end}, not one")
    page.write_text(made)


def main() -> None:
    """Write all four."""
    found = {name: json.loads((RESULTS / f"{name}.json").read_text())["parts"] for name in ("whatif", "estimates")}
    write(ROOT / "docs" / "performance.md", "what-if", months({name: found["whatif"][name] for name in MONTHS}))
    write(ROOT / "docs" / "performance.md", "live", live(found["whatif"]))
    write(ROOT / "docs" / "what-if.md", "starts", starts(found["estimates"]))
    write(ROOT / "docs" / "what-if.md", "weeks", weeks(found["estimates"]))


if __name__ == "__main__":
    main()
