"""CPU slots, the devices of a server without GPUs. Utilization: used over granted cores of the attempt on a slot."""

from typing import Literal

from agents.config import AgentConfig
from agents.protocol.server_report import DeviceReport


class CpuSlots:
    """The CPU slots of this server."""

    device_kind: Literal["cpu_slot"] = "cpu_slot"

    def __init__(self, *, server_id: str, num_slots: int, memory_bytes: int) -> None:
        self._server_id = server_id
        self._num_slots = num_slots
        self._memory_bytes = memory_bytes

    @classmethod
    def find(cls, config: AgentConfig) -> "CpuSlots":
        """Return the slots that the configuration offers; there are always some."""
        return cls(server_id=config.server_id, num_slots=config.cpu_slots, memory_bytes=config.memory_bytes)

    def sample(self, usage: dict[int, float]) -> tuple[DeviceReport, ...]:
        """Return every slot now."""
        return tuple(
            DeviceReport(
                index=index,
                uuid=f"cpu-slot-{self._server_id}-{index}",
                model="CPU slot",
                memory_bytes=self._memory_bytes // self._num_slots,
                healthy=True,
                utilization_frac=min(1.0, max(0.0, usage.get(index, 0.0))),
            )
            for index in range(self._num_slots)
        )
