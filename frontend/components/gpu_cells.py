"""Cells of the GPU strip and the GPU map: what one device looks like, and the words that say the same.

Takes the rows of ``selectors.cluster.overview.gpu_map``. Templates draw a CPU slot with another outline, by
``device_kind``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from itertools import takewhile

from frontend.components.devices import device_word
from frontend.components.formats import clock, duration, joined, number, percent
from frontend.components.times import as_time
from scheduler.selectors.cluster.rows import GpuRow, ServerRow

IDLE_BELOW_FRAC = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCell:
    """One device.

    Attributes:
        css: Classes: ``free``, ``drained``, ``broken``, ``idle``, ``q<slot>`` or ``u<step>``.
        text: What stands in the cell; only in the map.
        icon: Icon instead of a text.
        title: The whole in words.
    """

    index: int
    css: str
    healthy: bool
    title: str
    text: str = ""
    icon: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCells:
    """One server with its devices.

    Attributes:
        short: Name without what all names begin with.
        state: As it is shown: a server that has drained is ``drained``.
        note: What stands beside the name in the map: mean utilization, or how many are free.
        label: The server in words, for screen readers.
        columns: Columns of the strip.
        silent: How long it has not reported, where that is long.
    """

    id: str
    name: str
    short: str
    href: str
    rack: str
    device_kind: str
    gpus: list[DeviceCell]
    state: str
    note: str
    label: str
    columns: int
    silent: str = ""
    selected: bool = False


def is_free(gpu: GpuRow) -> bool:
    """Return whether a device is healthy and no job holds it."""
    return bool(gpu["healthy"]) and not gpu["allocated"]


def unheld(state: str) -> str:
    """Return what a healthy device that no job holds is, on a server in a state; unknown on one that is not up."""
    return {"up": "free", "draining": "drained"}.get(state, "unknown")


def is_idle(gpu: GpuRow) -> bool:
    """Return whether a device is held and (almost) unused."""
    utilization = gpu["utilization_frac"]
    return bool(gpu["healthy"] and gpu["allocated"]) and utilization is not None and utilization < IDLE_BELOW_FRAC


def is_unknown(gpu: GpuRow) -> bool:
    """Return whether a device is held and not known how far it is used."""
    return bool(gpu["healthy"] and gpu["allocated"]) and gpu["utilization_frac"] is None


def silent_words(row: ServerRow) -> str:
    """Return ``no report for 1 min 20 s``; empty for a server that reports."""
    return "" if row["silent_s"] is None else f"no report for {duration(row['silent_s'])}"


def silent_line(rows: Sequence[ServerRow]) -> str:
    """Return the sentence on servers that do not report although they are not lost yet; empty for none."""
    silent = [row for row in rows if row["silent_s"] is not None and row["state"] in ("up", "draining")]
    if not silent:
        return ""
    unknown = sum(is_unknown(gpu) for row in silent for gpu in row["gpus"])
    device = device_word(row["device_kind"] for row in silent)
    longest = max(row["silent_s"] or 0 for row in silent)
    names = joined([row["name"] for row in silent[:3]]) if len(silent) <= 3 else f"{number(len(silent))} servers"
    told = f"No report of {names} for {duration(longest)}"
    return f"{told}; the use of {device.counted(unknown)} held there is not known." if unknown else f"{told}."


def utilization_step(frac: float) -> int:
    """Return the step 0 to 6 of the utilization scale."""
    return min(6, max(0, int(frac * 7)))


def _holder(gpu: GpuRow) -> str:
    job = gpu.get("job")
    return f"{job['name']} (J-{job['number']}, {gpu['queue']})" if job else "another queue"


def _title(gpu: GpuRow, word: str, row: ServerRow) -> str:
    if not gpu["healthy"]:
        return f"{word} {gpu['index']} is broken{': ' + gpu['health_reason'] if gpu.get('health_reason') else ''}"
    if not gpu["allocated"]:
        kind = unheld(row["state"])
        is_what = f"takes no jobs: its server is {row['phase']}" if kind == "unknown" else f"is {kind}"
        return f"{word} {gpu['index']} {is_what}"
    used = gpu["utilization_frac"]
    measured = silent_words(row) or "use not measured" if used is None else f"{percent(used)} used"
    return f"{word} {gpu['index']}: {_holder(gpu)}, {measured}"


def strip_cell(gpu: GpuRow, word: str, row: ServerRow) -> DeviceCell:
    """Return a cell of the strip: the colour says which queue holds it."""
    held = f"q{gpu.get('color_slot') or 0}" if gpu["allocated"] else unheld(row["state"])
    css = held if gpu["healthy"] else "broken"
    return DeviceCell(index=gpu["index"], css=css, healthy=gpu["healthy"], title=_title(gpu, word, row))


def map_cell(gpu: GpuRow, word: str, view: str, row: ServerRow) -> DeviceCell:
    """Return a cell of the map, coloured by ``view``: utilization, queue, job or temperature."""
    cell = partial(DeviceCell, index=gpu["index"], healthy=gpu["healthy"], title=_title(gpu, word, row))
    if not gpu["healthy"]:
        return cell(css="broken", icon="x")
    idle = " idle" if is_idle(gpu) else ""
    utilization, heat = gpu["utilization_frac"], gpu.get("temperature_c")
    if view == "temperature":
        text = "" if heat is None else number(heat)
        unmeasured = "unknown" if gpu["allocated"] else unheld(row["state"])
        tint = unmeasured if heat is None else f"u{utilization_step((heat - 30) / 60)}"
        return cell(css=tint, text=text)
    if not gpu["allocated"]:
        return cell(css=unheld(row["state"]))
    if view in {"queue", "job"}:
        job = gpu.get("job")
        return cell(
            css=f"q{gpu.get('color_slot') or 0} on-q{idle}",
            text=str(job["number"])[-3:] if job and view == "job" else "",
        )
    if utilization is None:
        return cell(css="unknown", text="?")
    return cell(css=f"u{utilization_step(utilization)}{idle}", text=number(utilization * 100))


def _note(gpus: Sequence[GpuRow]) -> str:
    values = [gpu["utilization_frac"] for gpu in gpus if gpu["allocated"] and gpu["utilization_frac"] is not None]
    if values:
        return percent(sum(values) / len(values))
    free = sum(is_free(gpu) for gpu in gpus)
    return f"{number(free)} free" if free else ""


def _label(row: ServerRow) -> str:
    gpus, word = row["gpus"], device_word([row["device_kind"]])
    free = sum(is_free(gpu) for gpu in gpus)
    broken = sum(not gpu["healthy"] for gpu in gpus)
    kind = unheld(row["state"])
    parts = [row["phase"] if kind == "unknown" else f"{free} {kind}"] + ([f"{broken} broken"] if broken else [])
    parts += filter(None, [silent_words(row)])
    return f"{row['name']}: {word.counted(len(gpus))}, {', '.join(parts)}"


def _prefix_length(names: list[str]) -> int:
    """Return how much of every name may be left out: up to the last separator that all share."""
    if len(names) < 2:
        return 0
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in same)
    return max(shared.rfind(mark) + 1 for mark in "-_.")


def server_cells(rows: Sequence[ServerRow], *, view: str = "", selected: str = "") -> list[ServerCells]:
    """Return the servers with their cells, for the strip (no ``view``) or for the map."""
    cut = _prefix_length([row["name"] for row in rows])
    made = []
    for row in rows:
        word = device_word([row["device_kind"]]).one
        cells = [map_cell(gpu, word, view, row) if view else strip_cell(gpu, word, row) for gpu in row["gpus"]]
        made.append(
            ServerCells(
                id=row["id"],
                name=row["name"],
                short=row["name"][cut:],
                href=f"/cluster/{row['id']}",
                rack=row.get("rack", ""),
                device_kind=row["device_kind"],
                gpus=cells,
                state=row["phase"],
                note=row["phase"] if row["state"] != "up" else silent_words(row) or _note(row["gpus"]),
                silent=silent_words(row),
                label=_label(row),
                columns=max(1, min(4, (len(cells) + 1) // 2 if len(cells) > 4 else len(cells))),
                selected=row["id"] == selected,
            )
        )
    return made


def free_by_server(rows: Sequence[ServerRow], *, state: str = "up") -> list[tuple[str, int]]:
    """Return the servers in a state that have free devices now, most free first."""
    free = [(row["name"], sum(is_free(gpu) for gpu in row["gpus"])) for row in rows if row["state"] == state]
    return sorted([pair for pair in free if pair[1]], key=lambda pair: (-pair[1], pair[0]))


def free_words(rows: Sequence[ServerRow], *, most: int = 3) -> str:
    """Return where the free devices are that may be given away: ``7 on gpu-16, 2 on gpu-07``."""
    free = free_by_server(rows)
    named = [f"{number(count)} on {name}" for name, count in free[:most]]
    rest = sum(count for _, count in free[most:])
    return ", ".join(named + ([f"{number(rest)} elsewhere"] if rest else []))


def drained_words(rows: Sequence[ServerRow], now: datetime, zone: tzinfo) -> str:
    """Return what no job may get, and since when: ``8 drained on gpu-03 since Sat 00:17``."""
    drained = free_by_server(rows, state="draining")
    since = {row["name"]: row["state_changed_at"] for row in rows}
    if not drained:
        return ""
    first = clock(min(as_time(since[name]) for name, _ in drained), now, zone)
    if len(drained) == 1:
        return f"{number(drained[0][1])} drained on {drained[0][0]} since {first}"
    count = sum(count for _, count in drained)
    return f"{number(count)} drained on {len(drained)} servers, the first since {first}"


def idle_words(rows: Sequence[ServerRow]) -> str:
    """Return which servers hold idle devices."""
    names = [row["name"] for row in rows if any(is_idle(gpu) for gpu in row["gpus"])]
    return joined(names[:3])
