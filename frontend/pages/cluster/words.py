"""Sentences and small tables of the cluster pages."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import counted, number
from frontend.components.gpu_cells import free_by_server, idle_words, is_free, is_idle

Row = dict[str, Any]  # one server of gpu_map
ISOLATION = {
    "user": "Isolation: the jobs of each queue run as a user of their own, with limits of their own.",
    "user+cgroup": "Isolation: the jobs of each queue run as a user of their own, within limits that the kernel keeps.",
    "none+cgroup": "Limits: the kernel keeps them. No isolation otherwise: jobs on it run as one user and can see each "
    "other's processes and files.",
}
NO_ISOLATION = "No isolation: jobs on it run as one user and can see each other's processes and files."


def finding(servers: list[Row]) -> tuple[str, str]:
    """Return the title of the cluster page: what is allocated, and how much of it sits idle."""
    device = device_word(server["device_kind"] for server in servers)
    gpus = [gpu for server in servers for gpu in server["gpus"]]
    offered = [gpu for server in servers if server["state"] in {"up", "draining"} for gpu in server["gpus"]]
    allocated = sum(gpu["allocated"] for gpu in gpus)
    usable = max(allocated, sum(gpu["healthy"] for gpu in offered))
    idle = sum(is_idle(gpu) for gpu in gpus)
    if not gpus:
        return "No server has reported yet", ""
    verb = "is" if allocated == 1 == usable else "are"
    soft = f"and {number(idle)} of them {'sits' if idle == 1 else 'sit'} idle" if idle else "and none of them sits idle"
    return f"{number(allocated)} of {device.counted(usable)} {verb} allocated", soft if allocated else ""


def state_line(servers: list[Row]) -> str:
    """Return the grey line: how many servers in what state, and what is broken."""
    if not servers:
        return "Jobs may be submitted already; they start when a server has joined."
    racks = {server["rack"] for server in servers if server["rack"]}
    counts = Counter(server["state"] for server in servers)
    states = [f"{number(counts[state])} {word}" for state, word in STATE_WORDS if counts[state]]
    parts = [counted(len(servers), "server") + (f" in {counted(len(racks), 'rack')}" if racks else "")]
    parts.append("all reporting" if counts["up"] == len(servers) else ", ".join(states))
    idle = idle_words(servers)
    return f"{parts[0]}, {parts[1]}." + (f" Idle devices are on {idle}." if idle else "")


STATE_WORDS = (("up", "up"), ("draining", "draining"), ("joining", "not yet reporting"), ("lost", "lost"))


def start_table(servers: list[Row], device: DeviceWord) -> tuple[str, list[dict[str, str]]]:
    """Return whether jobs of 1, 2, 4 ... devices would find a place now, and the sentence that sums it up."""
    free = free_by_server(servers)
    largest = max((server["num_gpus"] for server in servers), default=0)
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64) if size < largest * 2][:6]
    rows = []
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


def drain_effect(server: Row) -> str:
    """Return what draining a server does, in numbers."""
    held = [gpu for gpu in server["gpus"] if gpu["allocated"]]
    jobs = {gpu["job"]["number"] for gpu in held if gpu["job"]}
    others = any(gpu["job"] is None for gpu in held)
    device = device_word([server["device_kind"]])
    if not held:
        return f"Nothing runs on it. {device.counted(len(server['gpus']))} are offered no more."
    who = counted(len(jobs), "job") + (" and jobs of other queues" if others else "")
    verb = "moves" if len(jobs) == 1 and not others else "move"
    return f"{who} {verb}, {device.counted(len(held))}. Each saves a checkpoint and resumes where there is room."


def tenants(server: Row, *, cached: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return who holds devices of a server: one row a job, other queues as one.

    Args:
        cached: Share of its datasets that is in the server's memory, by job; none for jobs that do not tell.
    """
    rows: dict[int, dict[str, Any]] = {}
    for gpu in server["gpus"]:
        if not gpu["allocated"]:
            continue
        key = gpu["job"]["number"] if gpu["job"] else 0
        row = rows.setdefault(key, {**gpu, "indexes": []})
        row["indexes"].append(gpu["index"])
    return [
        {
            **row,
            "indexes": ", ".join(map(str, row["indexes"])),
            "cached_frac": cached.get(row["job"]["id"]) if row["job"] else None,
        }
        for _, row in sorted(rows.items())
    ]


def server_title(server: Row) -> str:
    """Return the finding of a server's page."""
    device = device_word([server["device_kind"]])
    free = sum(is_free(gpu) for gpu in server["gpus"])
    if not server["gpus"]:
        return "has not reported its devices yet"
    if server["state"] == "lost":
        return f"is lost with {device.counted(len(server['gpus']))}"
    held = server["allocated_gpus"]
    return f"gives {number(held)} of {device.counted(len(server['gpus']))}, {number(free) if free else 'none'} free"
