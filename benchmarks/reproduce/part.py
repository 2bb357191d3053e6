"""Run the file of one paper and return its rows."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import TypedDict

from benchmarks.reproduce.row import Row


class Part(TypedDict):
    """What one paper gave."""

    title: str
    source: str
    cpu_s: float
    rows: list[dict[str, object]]


def run_paper(name: str) -> Part:
    """Run one file of this package."""
    module = import_module(f"benchmarks.reproduce.{name}")
    began_s = time.process_time()
    rows: Sequence[Row] = module.rows()
    return {
        "title": module.TITLE,
        "source": module.SOURCE,
        "cpu_s": round(time.process_time() - began_s, 1),
        "rows": [asdict(row) for row in rows],
    }
