"""Scalars of ``metrics.csv`` and JSON lines: numbers by column or key, over the step that each line names."""

import csv
import json

from scheduler.selectors.files.series import Tags

# What names the step of a line, the first that is there; else lines are counted.
STEPS = ("step", "global_step", "_step", "iteration", "epoch")
LINE_BYTES = 64 * 1024


class Lines:
    """Reads one file line by line; keeps its head and how many lines there were."""

    def __init__(self, *, is_csv: bool) -> None:
        self._is_csv = is_csv
        self._head: list[str] | None = None
        self._count = 0

    def take(self, line: bytes, tags: Tags) -> bool:
        """Add the numbers of a line; return whether it could be read."""
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return True
        row = self._of_csv(text) if self._is_csv else _of_json(text)
        if row is None:
            return False
        at = next((row[name] for name in STEPS if name in row), float(self._count))
        self._count += bool(row)
        for name, value in row.items():
            if name not in STEPS:
                tags.add(name, at, value)
        return True

    def _of_csv(self, text: str) -> dict[str, float] | None:
        try:
            cells = next(csv.reader([text], strict=True), [])
        except csv.Error:
            return None
        if self._head is None:
            self._head = [cell.strip() for cell in cells]
            return {}
        if len(cells) != len(self._head):
            return None
        pairs = zip(self._head, map(_number, cells), strict=True)
        return {name: value for name, value in pairs if value is not None}


def _of_json(text: str) -> dict[str, float] | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    found = {}
    for name, value in data.items():
        inner = value.items() if isinstance(value, dict) else ()
        for key, one in ((name, value), *((f"{name}/{key}", one) for key, one in inner)):
            if isinstance(one, int | float) and not isinstance(one, bool):
                found[key] = _number(str(one))
    return {name: value for name, value in found.items() if value is not None}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
