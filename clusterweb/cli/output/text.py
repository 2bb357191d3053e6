"""Tables, durations, sizes and times as text."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

from clusterweb.client.rows import JobLine

# The same as on pages (frontend/components/devices.py), held so by a test.
GPU_WORD = re.compile(r"(?<!\w)(?<![^\W\d]-)GPUs?(?!\w)(?!-(?!h\b|hours?\b|seconds?\b))")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under heads, each column as wide as its widest cell; numbers to the right."""
    cells = [list(heads), *[["" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    is_number = [bool(rows) and all(_is_number(row[column]) for row in cells[1:]) for column in range(len(heads))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).replace("%", "", 1).isdigit() or cell == ""


def devices_named(kinds: Iterable[str]) -> str:
    """Return what the devices of servers with these kinds are called, as on pages: a CPU slot is never called a GPU."""
    present = {kind for kind in kinds if kind}
    if present == {"cpu_slot"}:
        return "CPU slots"
    return "devices" if "cpu_slot" in present else "GPUs"


def in_words(text: str, devices: str) -> str:
    """Return a sentence of the scheduler, which always says GPU, with this name of devices in its place."""
    return GPU_WORD.sub(lambda found: devices if found[0] == "GPUs" else devices.removesuffix("s"), text)


def counted(count: int, one: str) -> str:
    """Return a count with its noun: ``1 job``, ``7 jobs``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def duration(seconds: float) -> str:
    """Return ``40 s``, ``17 min``, ``1 h 8 min`` or ``2 d 3 h``, as pages do."""
    if 0 < seconds < 0.995:
        return f"{max(1, round(seconds * 1000))} ms"
    if round(seconds) < 60:
        return f"{round(seconds, 1):g} s" if seconds < 10 and seconds % 1 else f"{round(seconds)} s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    rounded = round(seconds) if seconds < 600 else round(seconds / 60) * 60
    first = next(index for index, (_, size) in enumerate(units) if rounded >= size)
    parts = [f"{rounded // units[first][1]} {units[first][0]}"]
    for unit, size in units[first + 1 : first + 2]:
        if rest := rounded % units[first][1] // size:
            parts.append(f"{rest} {unit}")
    return " ".join(parts)


def since(moment: str | None, now: datetime | None = None) -> str:
    """Return how long ago an ISO 8601 moment was; empty for none."""
    if not moment:
        return ""
    at = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return duration(float(max(0, int(((now or datetime.now(UTC)) - at).total_seconds()))))


def size(num_bytes: float) -> str:
    """Return ``312 MiB``, ``1.5 GiB``."""
    value, unit = num_bytes, "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def progress(job: JobLine) -> str:
    """Return ``120/1000`` steps, ``120`` when the end is not known, or nothing."""
    if job["step"] is None:
        return ""
    return f"{job['step']}/{job['total_steps']}" if job["total_steps"] else str(job["step"])


def is_day(text: str) -> bool:
    """Return whether a text is a day, such as 2030-11-30."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def clock(moment: str) -> str:
    """Return an ISO 8601 moment as people of this machine's time zone write it."""
    at = datetime.fromisoformat(moment.replace("Z", "+00:00")).astimezone()
    return f"{at:%H:%M}" if at.date() == datetime.now().astimezone().date() else f"{at:%Y-%m-%d %H:%M}"
