"""Write the table of replays in docs/performance.md from benchmarks/results/sim.json.

python -m benchmarks.replays_table
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "benchmarks" / "results" / "sim.json"
BEGIN, END = "<!-- replays: python -m benchmarks.replays_table -->", "<!-- end of replays -->"
HEAD = (
    "| policy | mechanism | CPU s | target | CPU s per 1,000 jobs | of a bare loop | peak MB | preemptions | load |",
    "|---|---|---|---|---|---|---|---|---|",
)


def table(measured: dict[str, Any]) -> str:  # JSON of benchmarks.bench_sim
    """Return the rows, and a sentence on what was measured when."""
    result, machine = measured["result"], measured["machine"]
    rows = [
        f"| {one['policy']} | {one['mechanism']} | {one['cpu_s']:.1f} | {result['target_cpu_s'][one['mechanism']]:g} "
        f"| {one['cpu_s_per_1000_jobs']:.3f} | {one['times_bare_loop']:.0f} | {one['peak_rss_mb']} "
        f"| {one['preemptions']:,} | {one['load_1min']} |"
        for one in result["replays"]
    ]
    doubling = ", ".join(f"{policy} {times:.2f}" for policy, times in result["doubling_costs"].items())
    return "\n".join(
        (
            *HEAD,
            *rows,
            "",
            f"Measured {machine['measured_at'][:16].replace('T', ' ')} UTC on {machine['cores']} cores, "
            f"Python {machine['python']}; the last column is the load average (1 minute) at the end of each replay.",
            f"Twice the jobs at the same load cost, in times (target {result['doubling_target']:g}): {doubling}.",
        )
    )


def main() -> None:
    """Put the table into the page."""
    text = table(json.loads(RESULTS.read_text()))
    page, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{text}\n{END}", PAGE.read_text(), flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"{PAGE} holds {count} parts between {BEGIN} and {END}, not one")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
