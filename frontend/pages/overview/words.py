"""Sentences and tiles of the overview, from the same numbers as its charts."""

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

from django.urls import reverse

from frontend.components.devices import DeviceWord
from frontend.components.formats import counted, duration, number, percent, rough, signed
from frontend.components.gpu_cells import free_by_server
from frontend.components.times import Series, as_time
from scheduler.models.queue import RequestState
from scheduler.selectors.cluster.rows import ClusterFrame, CompletionTimes, QueueShareRow, ServerRow
from scheduler.selectors.queues.requests import QuotaRequestRow

SPANS = {"1h": ("1 h", 3600), "6h": ("6 h", 21600), "24h": ("24 h", 86400), "7d": ("7 d", 604800)}


class StatTile(TypedDict):
    """One stat tile. ``course`` is its sparkline, ``missing`` stands in for an empty value, ``tone`` colours it."""

    id: str
    label: str
    value: str
    unit: str
    delta: str
    course: NotRequired[list[float | None]]
    missing: NotRequired[str]
    tone: NotRequired[str]


def finding(frame: ClusterFrame, device: DeviceWord) -> tuple[str, str]:
    """Return the title of the page: what is allocated, and how many jobs wait."""
    usable = frame["usable_gpus"]
    if not frame["num_gpus"]:
        return "No server has reported yet", ""
    waiting = frame["waiting_jobs"]
    verb = "is" if frame["allocated_gpus"] == 1 == usable else "are"
    allocated = f"{number(frame['allocated_gpus'])} of {device.counted(usable)} {verb} allocated"
    return (
        allocated,
        f"and {counted(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}" if waiting else "and no job waits",
    )


def counts(frame: ClusterFrame) -> str:
    """Return the counts that the page is made of: where a later frame has others, ``overview.js`` fetches it again."""
    jobs = (frame["running_jobs"], frame["waiting_jobs"])
    devices = (frame["allocated_gpus"], frame["free_gpus"], frame["drained_gpus"], frame["broken_gpus"])
    return ",".join(str(count) for count in (*devices, frame["unknown_gpus"], *jobs))


def consequence(frame: ClusterFrame, gpu_map: list[ServerRow], device: DeviceWord) -> str:
    """Return the grey line under the title: what runs, and what could start."""
    if not frame["num_gpus"]:
        return "Jobs may be submitted already; they start when a server has joined."
    free = free_by_server(gpu_map)
    runs = f"{counted(frame['running_jobs'], 'job')} {'runs' if frame['running_jobs'] == 1 else 'run'}."
    if not free:
        return f"{runs} No {device.one} is free."
    name, most = free[0]
    return f"{runs} The largest free block is {device.counted(most)} on {name}."


def _change(course: list[float | None], now: float, *, digits: int = 0) -> float | None:
    """Return by how much the value that is shown differs from the first one that was measured."""
    known = [value for value in course if value is not None]
    return None if len(known) < 2 else round(now - known[0], digits)


def tiles(
    *,
    frame: ClusterFrame,
    series: Series,
    summary: CompletionTimes,
    servers: Sequence[ServerRow],
    span: str,
    began: str,
    now: datetime,
    device: DeviceWord,
) -> list[StatTile]:
    """Return the stat tiles, left to right; each compares with the beginning of the range or of the data."""
    usable = frame["usable_gpus"]
    allocated, waiting = series["allocated_gpus"], series["waiting_jobs"]
    idle_now = max(0, frame["allocated_gpus"] - frame["busy_gpus"] - frame["unknown_gpus"])
    unknown_now = f", {number(frame['unknown_gpus'])} not known" if frame["unknown_gpus"] else ""
    share = percent(frame["allocated_gpus"] / usable) if usable else ""
    drained = frame["drained_gpus"]
    mean = frame["mean_utilization_frac"]
    return [
        {
            "id": "tile-allocated",
            "label": "Allocated",
            "value": number(frame["allocated_gpus"]),
            "unit": f"of {device.counted(usable)}",
            "delta": ", ".join(filter(None, [share, _moved(allocated, frame["allocated_gpus"], span, began)])),
            "course": allocated,
        },
        {
            "id": "tile-utilization",
            "label": "Mean utilization",
            "value": "" if mean is None else number(mean * 100),
            "unit": "%",
            "missing": "not known",
            "delta": f"{number(frame['busy_gpus'])} busy, {number(idle_now)} idle{unknown_now}",
            "course": series["busy_gpus"],
        },
        {
            "id": "tile-waiting",
            "label": "Waiting",
            "value": number(frame["waiting_jobs"]),
            "unit": "job" if frame["waiting_jobs"] == 1 else "jobs",
            "delta": _moved(waiting, frame["waiting_jobs"], span, began),
            "course": waiting,
        },
        _time_tile("tile-wait", f"Median wait, {span}", summary["wait_p50_s"], summary["wait_p90_s"], summary["count"]),
        _time_tile("tile-jct", "Median completion", summary["p50_s"], summary["p90_s"], summary["count"]),
        {
            "id": "tile-drained",
            "label": "Drained",
            "value": number(drained),
            "unit": device.one if drained == 1 else device.many,
            "delta": _drained(servers, now),
            "course": series["drained_gpus"],
            "tone": "drained" if drained else "",
        },
    ]


def _moved(course: list[float | None], value: float, span: str, began: str) -> str:
    """Return by how much a value has changed: ``+1 in 24 h``; empty where it is not known."""
    change = _change(course, value)
    if change is None:
        return ""
    if not change:
        return f"as at {began}" if began else f"as {span} ago"
    return f"{signed(change)} {f'since {began}' if began else f'in {span}'}"


def _drained(servers: Sequence[ServerRow], now: datetime) -> str:
    """Return which server is drained and for how long, or that none is."""
    drained = [server for server in servers if server["state"] == "draining"]
    if not drained:
        return "no server is drained"
    lasts_s = (now - min(as_time(server["state_changed_at"]) for server in drained)).total_seconds()
    where = drained[0]["name"] if len(drained) == 1 else f"{number(len(drained))} servers"
    return f"{where}, {duration(lasts_s)}"


def _time_tile(id_: str, label: str, median_s: float | None, p90_s: float | None, count: int) -> StatTile:
    """Return a tile of a time: the median, with p90 and the number of jobs behind it."""
    value, unit = rough(median_s) if median_s is not None else ("", "")
    return {
        "id": id_,
        "label": label,
        "value": value,
        "unit": unit,
        "missing": "no job yet",
        "delta": f"p90 {duration(p90_s)}, {counted(count, 'job')}"
        if median_s is not None
        else "appears with the first",
    }


def shares_title(shares: list[QueueShareRow], frame: ClusterFrame, device: DeviceWord) -> str:
    """Return what the quota bars show: the queue that borrows most, or how much is free within the quotas.

    What is drained or broken is no one's to use: it is not called unused.
    """
    over = [share for share in shares if share["held_gpus"] > share["quota_gpus"]]
    if over:
        most = max(over, key=lambda share: share["held_gpus"] - share["quota_gpus"])
        name = "Other queues borrow" if most["id"] is None else f"{most['name']} borrows"
        return f"{name} {device.counted(most['held_gpus'] - most['quota_gpus'])}"
    within = sum(max(0, share["quota_gpus"] - share["held_gpus"]) for share in shares)
    if not shares:
        return "No queue yet"
    if not within:
        return "Every queue holds its quota"
    kinds = (("unused", min(within, frame["free_gpus"])), ("drained", frame["drained_gpus"]))
    told = [f"{device.counted(count)} {kind}" for kind, count in kinds if count]
    return ", ".join(["No queue borrows", *told])


def bar_scale(shares: list[QueueShareRow]) -> int:
    """Return the number of devices at the right end of every quota bar: a little more than the longest needs."""
    longest = max((max(share["held_gpus"], share["quota_gpus"]) for share in shares), default=1)
    return longest + max(1, longest // 6)


class RequestLine(TypedDict):
    """What became of a request for quota, told to the user who asked."""

    icon: str
    words: str
    href: str


def request_line(row: QuotaRequestRow, device: DeviceWord) -> RequestLine:
    """Return ``vision: admin granted your request: 8 GPUs in place of the 12 that you asked for.``"""
    answer = f": {row['answer'].rstrip('.')}" if row["answer"] else ""
    if row["state"] == RequestState.GRANTED:
        given, asked = row["given_gpus"] or 0, row["quota_gpus"]
        of_asked = f" in place of the {number(asked)} that you asked for" if given != asked else ""
        icon, words = "check", f"{row['answered_by']} granted your request: {device.counted(given)}{of_asked}."
    elif row["state"] == RequestState.REFUSED:
        icon, words = "x", f"{row['answered_by']} refused your request{answer}."
    else:
        icon, words = "clock", f"your request for {device.counted(row['quota_gpus'])} is not answered yet."
    href = f"{reverse('queue', args=[row['queue']])}?tab=requests"
    return {"icon": icon, "words": f"{row['queue']}: {words}", "href": href}
