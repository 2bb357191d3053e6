"""Sentences and small tables of the cluster pages."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import TypedDict

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import clock, counted, number
from frontend.components.gpu_cells import (
    drained_words,
    free_by_server,
    idle_words,
    is_free,
    is_idle,
    is_unknown,
    silent_line,
)
from frontend.components.times import as_time
from scheduler.selectors.cluster.rows import GpuRow, HolderRow, ServerDetailRow, ServerRow

# What keeps jobs apart, by the parts of a server's ``isolation``, in the order in which they are told.
ISOLATION = {
    "user": "the jobs of each queue run as a user of their own",
    "landlock": "a job opens its own files alone, and neither looks into the processes of others nor signals them",
    "landlock-files": "a job opens its own files alone, and does not look into the processes of others",
    "cgroup": "the kernel keeps the limits of each job",
}
# The same in a row of a table.
IN_SHORT = {"user": "a user for each queue", "landlock": "own files alone", "landlock-files": "own files alone"}
KEEPS_APART = frozenset(IN_SHORT)
REFUSED = "refused"
REFUSES = (
    "It takes no jobs: its agent runs as root and cannot give them users of their own. The agent's log says why "
    "(jobs_refused); JOB_USER=own in its environment has jobs run as root."
)
LAST_UP = "It is the last server that takes jobs: after this no job starts anywhere."
SEEN = "jobs on it run as one user and can see each other's processes and files"


class StartLine(TypedDict):
    """Whether a job of ``size`` devices would start now, and where."""

    size: str
    starts: str
    where: str
    tone: str


class TenantLine(TypedDict):
    """A job on a server, or all jobs of queues that the reader may not see; ``indexes`` lists its devices."""

    job: HolderRow | None
    queue: str | None
    color_slot: int | None
    indexes: str
    cached_frac: float | None


def isolation_line(level: str) -> str:
    """Return the sentence for ``Server.isolation``, such as ``user+cgroup``."""
    if level == REFUSED:
        return REFUSES
    parts = level.split("+")
    told = [words for part, words in ISOLATION.items() if part in parts]
    if not KEEPS_APART & set(parts):
        return "; ".join([f"No isolation: {SEEN}", *told]) + "."
    return f"Isolation: {'; '.join(told)}."


def mixing_line(server: ServerRow) -> str:
    """Return whether jobs of several queues run on a server that keeps nothing apart; empty for other servers."""
    if server["simulated"] or {REFUSED, *KEEPS_APART} & set(server["isolation"].split("+")):
        return ""
    if server["may_mix_queues"]:
        return "An admin lets jobs of several queues run on it all the same."
    return "So it takes jobs of one queue alone."


def isolation_in_short(level: str) -> str:
    """Return a few words for ``Server.isolation``."""
    if level == REFUSED:
        return "takes no jobs"
    return ", ".join(words for part, words in IN_SHORT.items() if part in level.split("+")) or "none"


def finding(servers: list[ServerRow]) -> tuple[str, str]:
    """Return the title of the cluster page: what is allocated, and how much of it sits idle."""
    device = device_word(server["device_kind"] for server in servers)
    gpus = [gpu for server in servers for gpu in server["gpus"]]
    allocated = sum(gpu["allocated"] for gpu in gpus)
    usable = allocated + sum(count for _, count in free_by_server(servers))  # as the frame's ``usable_gpus``
    idle, unknown = sum(map(is_idle, gpus)), sum(map(is_unknown, gpus))
    if not gpus:
        return "No server has reported yet", ""
    verb = "is" if allocated == 1 == usable else "are"
    soft = f"and {number(idle)} of them {'sits' if idle == 1 else 'sit'} idle" if idle else "and none of them sits idle"
    if unknown:
        whose = "their use" if unknown == allocated else f"the use of {number(unknown)} of them"
        soft = f"{soft}, {whose} is not known" if idle else f"and {whose} is not known"
    return f"{number(allocated)} of {device.counted(usable)} {verb} allocated", soft if allocated else ""


def state_line(servers: list[ServerRow], now: datetime, zone: tzinfo) -> str:
    """Return the grey line: servers by state, what is drained, and where devices sit idle."""
    if not servers:
        return "Jobs may be submitted already; they start when a server has joined."
    racks = {server["rack"] for server in servers if server["rack"]}
    counts = Counter(server["phase"] for server in servers)
    states = [f"{number(counts[state])} {word}" for state, word in STATE_WORDS if counts[state]]
    parts = [counted(len(servers), "server") + (f" in {counted(len(racks), 'rack')}" if racks else "")]
    silent = silent_line(servers)
    parts.append("all reporting" if counts["up"] == len(servers) and not silent else ", ".join(states))
    idle, drained = idle_words(servers), drained_words(servers, now, zone)
    free = number(sum(count for _, count in free_by_server(servers)))
    said = f" {free} free, {drained}." if drained else ""
    told = [f"{parts[0]}, {parts[1]}.{said}", f"Idle devices are on {idle}." if idle else "", silent]
    return " ".join(filter(None, told))


STATE_WORDS = (
    ("up", "up"),
    ("draining", "draining"),
    ("drained", "drained"),
    ("joining", "not yet reporting"),
    ("lost", "lost"),
)


def start_table(servers: list[ServerRow], device: DeviceWord) -> tuple[str, list[StartLine]]:
    """Return a sentence, and whether jobs of 1, 2, 4 ... devices would start now."""
    free = free_by_server(servers)
    largest = max((server["num_gpus"] for server in servers), default=0)
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size < largest * 2][:6]
    rows: list[StartLine] = []
    for size in sizes:
        fitting = [(count, name) for name, count in free if count >= size]
        if size > largest:
            rows.append(
                {"size": device.counted(size), "starts": "never", "where": "larger than any server", "tone": ""}
            )
        elif fitting:
            rows.append({"size": device.counted(size), "starts": "now", "where": min(fitting)[1], "tone": "ok"})
        else:
            rows.append({"size": device.counted(size), "starts": "waits", "where": "until jobs end", "tone": ""})
    if not free:
        return f"No {device.one} is free", rows
    return f"Jobs up to {device.counted(free[0][1])} start now", rows


def drain_effect(server: ServerDetailRow) -> str:
    """Return what draining a server does, in numbers, and whether any job can start afterwards."""
    is_last = server["state"] == "up" and not server["other_servers_up"]
    return _drained(server, is_last=is_last) + (f" {LAST_UP}" if is_last else "")


def _drained(server: ServerDetailRow, *, is_last: bool) -> str:
    held = [gpu for gpu in server["gpus"] if gpu["allocated"]]
    jobs = {gpu["job"]["number"] for gpu in held if gpu["job"]}
    others = any(gpu["job"] is None for gpu in held)
    device = device_word([server["device_kind"]])
    if not held:
        return f"Nothing runs on it. {device.counted(len(server['gpus']))} are offered no more."
    moving = counted(len(jobs), "job") + (" and jobs of other queues" if others else "")
    is_one = len(jobs) == 1 and not others
    verb = ("leaves" if is_one else "leave") if is_last else "moves" if is_one else "move"
    after = "waits" if is_last else "resumes where there is room or where jobs after it in the order make room"
    return (
        f"{moving} {verb}, {device.counted(len(held))}. Each is asked to save and {after}; "
        "one that told of no checkpoint counts all its work as lost."
    )


def tenants(server: ServerRow, *, cached: Mapping[str, float]) -> list[TenantLine]:
    """Return the jobs that hold devices of a server, one row each; jobs of other queues are one row, the first.

    Args:
        cached: Share of its datasets that is in the server's memory, by job; none for jobs that do not report it.
    """
    held: dict[int, list[GpuRow]] = {}
    for gpu in server["gpus"]:
        if gpu["allocated"]:
            held.setdefault(gpu["job"]["number"] if gpu["job"] else 0, []).append(gpu)
    return [
        {
            "job": (job := gpus[0]["job"]),
            "queue": gpus[0]["queue"],
            "color_slot": gpus[0]["color_slot"],
            "indexes": ", ".join(str(gpu["index"]) for gpu in gpus),
            "cached_frac": cached.get(job["id"]) if job else None,
        }
        for _, gpus in sorted(held.items())
    ]


def server_title(server: ServerRow, now: datetime, zone: tzinfo) -> str:
    """Return the finding of a server's page."""
    device = device_word([server["device_kind"]])
    free = sum(is_free(gpu) for gpu in server["gpus"])
    if not server["gpus"]:
        return "has not reported its devices yet"
    if server["state"] == "lost":
        return f"is lost with {device.counted(len(server['gpus']))}"
    held = server["allocated_gpus"]
    if server["state"] == "draining":
        since = clock(as_time(server["state_changed_at"]), now, zone)
        return f"has 0 free, {number(free)} drained since {since}" + (f", {number(held)} still held" if held else "")
    return f"gives {number(held)} of {device.counted(len(server['gpus']))}, {number(free) if free else 'none'} free"
