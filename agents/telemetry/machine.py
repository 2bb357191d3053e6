"""The machine as a whole: load of the cores on offer and memory in use."""

from collections.abc import Collection


def _cpu_ticks(cpu_ids: Collection[int]) -> tuple[int, int]:
    """Return busy and all ticks since boot, summed over the cores."""
    busy = everything = 0
    wanted = {f"cpu{number}" for number in cpu_ids}
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            name, *values = line.split()
            if name in wanted:
                ticks = [int(value) for value in values[:8]]
                everything += sum(ticks)
                busy += sum(ticks) - ticks[3] - ticks[4]  # idle and waiting for disk
    return busy, everything


def used_memory_bytes() -> int | None:
    """Return the memory that is in use on the machine, caches apart."""
    values: dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            values[name] = int(rest.split()[0]) * 1024
    if "MemTotal" not in values or "MemAvailable" not in values:
        return None
    return max(0, values["MemTotal"] - values["MemAvailable"])


class CpuLoad:
    """Load of some cores between two looks."""

    def __init__(self, cpu_ids: Collection[int]) -> None:
        self._cpu_ids = frozenset(cpu_ids)
        self._before = _cpu_ticks(self._cpu_ids)

    def sample(self) -> float | None:
        """Return the load since the last call, 0 to 1; None when no time went by."""
        before, self._before = self._before, _cpu_ticks(self._cpu_ids)
        passed = self._before[1] - before[1]
        return min(1.0, max(0.0, (self._before[0] - before[0]) / passed)) if passed > 0 else None
