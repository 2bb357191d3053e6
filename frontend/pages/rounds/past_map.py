"""The map as a round left it: which queue held how many GPUs of each server, out of what the round granted.

Which GPU of a server a job had is not kept with a round: cells stand in the order of the grants.
"""

from collections.abc import Sequence

from frontend.components.gpu_cells import DeviceCell, ServerCells, server_cells
from scheduler.selectors.cluster.rows import GrantRow, ServerRow

HOLDS = frozenset({"kept", "launched", "resized", "continued"})


def past_map(grants: Sequence[GrantRow], servers: Sequence[ServerRow]) -> list[ServerCells]:
    """Return the servers of today with what the round gave on them; none where it gave nothing."""
    held: dict[str, list[DeviceCell]] = {}
    for grant in grants:
        job = grant["job"]
        if grant["state"] not in HOLDS:
            continue
        slot, name = (job["color_slot"], f"{job['name']} ({job['queue']})") if job else (0, "another job")
        for seat in grant["seats"]:
            cells = held.setdefault(seat["server"], [])
            cells += [
                DeviceCell(index=len(cells) + number, css=f"q{slot}", healthy=True, title=name)
                for number in range(seat["gpus"])
            ]
    return [_as_it_was(drawn, held.get(drawn.name, [])) for drawn in server_cells(servers)] if held else []


def _as_it_was(drawn: ServerCells, held: Sequence[DeviceCell]) -> ServerCells:
    free = max(0, len(drawn.gpus) - len(held))
    cells = [
        *held,
        *(DeviceCell(index=len(held) + number, css="free", healthy=True, title="free") for number in range(free)),
    ]
    return ServerCells(
        id=drawn.id,
        name=drawn.name,
        short=drawn.short,
        href=drawn.href,
        rack=drawn.rack,
        device_kind=drawn.device_kind,
        gpus=cells,
        state="up",
        note="",
        label=f"{drawn.name}: {len(held)} held, {free} free",
        columns=drawn.columns,
    )
