"""Write the tables of pages in docs/performance.md from benchmarks/results/pages.json and logs.json.

python -m benchmarks.tables.pages
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- pages: python -m benchmarks.tables.pages -->", "<!-- end of pages -->"
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
LOOKS = ("first", "later")
LISTS = {
    "p50 of all ways to ask": "p50_s",
    "p95 of all ways to ask": "p95_s",
    "p95 of the slowest way": "worst_way_p95_s",
}
SLOWEST = 5


def row(*cells: object) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def tables(pages: dict[str, Any], logs: dict[str, Any]) -> str:  # JSON of the two benchmarks
    """Return both tables, and sentences on what was measured when."""
    sides, machine = [pages["result"][key] for key in NAMES], pages["machine"]
    lines = [
        row(
            f"page, {sides[0]['first_jobs']:,} jobs",
            *(f"{name}, {word} s" for name in NAMES.values() for word in LOOKS),
        ),
        "|---" * (1 + len(LOOKS) * len(NAMES)) + "|",
        *(
            row(f"`{path}`", *(side["pages"][path][f"{word}_s"] for side in sides for word in LOOKS))
            for path in sides[0]["pages"]
        ),
        "",
        row(f"job list, {sides[0]['jobs']:,} jobs", *(f"{name}, s" for name in NAMES.values())),
        "|---" * (1 + len(NAMES)) + "|",
        *(row(words, *(side["lists"][key] for side in sides)) for words, key in LISTS.items()),
    ]
    by_way = [side["lists"]["p95_s_by_way"] for side in sides]
    lines += [row(f"p95 of `{path}`", *(ways[path] for ways in by_way)) for path in _slowest(by_way)]
    return "\n".join((*lines, "", _said(sides[0], machine), "", _log_words(logs["result"])))


def _slowest(by_way: list[dict[str, float]]) -> list[str]:
    """Return the ways that are slowest on either side."""
    return sorted(by_way[0], key=lambda path: -max(side[path] for side in by_way))[:SLOWEST]


def _said(side: dict[str, Any], machine: dict[str, Any]) -> str:
    return (
        f"The slower of an admin and a member of one team of eight; {side['lists']['requests']} requests for lists. "
        f"Measured {machine['measured_at'][:16].replace('T', ' ')} UTC on {machine['cores']} cores, "
        f"Python {machine['python']}, load average {machine['load_1min']} before."
    )


def _log_words(result: dict[str, Any]) -> str:
    first, again, rest = (result[key] for key in ("page_first", "page_again", "rest"))
    return (
        f"A log of {result['log_bytes'] / 1e9:.2f} GB opens at its last 1,000 lines in {first['seconds']} s when "
        f"nothing of it is in memory ({first['read_mb']} MB are read, templates included), in {again['seconds']} s "
        f"after that, and in {rest['seconds']} s by REST; the target is {result['target_s']:g} s. At its middle it "
        f"opens in {result['page_at_the_middle']['seconds']} s."
    )


def main() -> None:
    """Put the tables into the page."""
    text = tables(*(json.loads((RESULTS / f"{name}.json").read_text()) for name in ("pages", "logs")))
    page, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{text}\n{END}", PAGE.read_text(), flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"{PAGE} holds {count} parts between {BEGIN} and {END}, not one")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
