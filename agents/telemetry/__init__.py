"""Utilization and health of a server's devices, once a second. One file a kind of device, one line in ``PROBES``.

Never imports torch. The first probe that finds devices is used.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from agents.config import AgentConfig
from agents.protocol.server_report import DeviceReport
from agents.telemetry.cpu import CpuSlots
from agents.telemetry.nvml import NvmlGpus


class Probe(Protocol):
    """Looks at the devices of one kind."""

    @property
    def device_kind(self) -> Literal["gpu", "cpu_slot"]:
        """Return what is said of the devices in reports."""

    def sample(self, usage: dict[int, float]) -> tuple[DeviceReport, ...]:
        """Return every device now. ``usage`` is what the attempts use of their cores, by device index, 0 to 1."""


PROBES: tuple[Callable[[AgentConfig], Probe | None], ...] = (NvmlGpus.find, CpuSlots.find)


def find_probe(config: AgentConfig) -> Probe:
    """Return the probe of this server's devices: GPUs where there are some, else CPU slots."""
    for find in PROBES:
        probe = find(config)
        if probe is not None:
            return probe
    raise AssertionError("CPU slots are always there")
