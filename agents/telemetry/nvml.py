"""NVIDIA GPUs through NVML. A GPU that falls off the bus stays in the report as unhealthy, with the reason."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeVar

import pynvml

from agents.config import AgentConfig
from agents.protocol.server_report import DeviceReport

log = logging.getLogger(__name__)

T = TypeVar("T")


def _text(value: str | bytes) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else value)[:80]


def _or_none(read: Callable[[], T]) -> T | None:
    """Return what a device says, or None where it does not support the question."""
    try:
        return read()
    except pynvml.NVMLError:
        return None


class NvmlGpus:
    """The GPUs of this server, as they were when the agent started."""

    device_kind: Literal["gpu"] = "gpu"

    def __init__(self, known: tuple[DeviceReport, ...]) -> None:
        self._known = known

    @classmethod
    def find(cls, config: AgentConfig) -> "NvmlGpus | None":
        """Return the GPUs that this agent offers, or None when there is no driver or no GPU.

        One that it is to offer and that is not there is unhealthy, so that a wrong name does not offer CPU slots.
        """
        try:
            pynvml.nvmlInit()
            known = tuple(_identify(index) for index in range(pynvml.nvmlDeviceGetCount()))
            if config.gpu_uuids is not None:
                known = _offered(known, config.gpu_uuids)
        except pynvml.NVMLError as error:
            log.info("no_gpus", extra={"server": config.server_id, "reason": str(error)})
            return None
        return cls(known) if known else None

    def sample(self, usage: dict[int, float]) -> tuple[DeviceReport, ...]:
        """Return every GPU now."""
        return tuple(_measure(device) for device in self._known)


def _offered(known: tuple[DeviceReport, ...], uuids: tuple[str, ...]) -> tuple[DeviceReport, ...]:
    """Return the devices with these UUIDs; those that are not there have the indexes after the others."""
    named = [device for device in known if device.uuid in uuids]
    absent = [uuid for uuid in uuids if uuid not in {device.uuid for device in named}]
    return (
        *named,
        *(
            DeviceReport(index=len(known) + place, uuid=uuid, model="", memory_bytes=0, healthy=False)
            for place, uuid in enumerate(absent)
        ),
    )


def _identify(index: int) -> DeviceReport:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return DeviceReport(
        index=index,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        healthy=True,
    )


def _measure(device: DeviceReport) -> DeviceReport:
    try:
        # By UUID: indexes move when a GPU falls off.
        handle: Any = pynvml.nvmlDeviceGetHandleByUUID(device.uuid)  # opaque to Python
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        return replace(device, healthy=False, health_reason=str(error)[:200])
    use = _or_none(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
    heat = _or_none(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    return replace(
        device,
        healthy=True,
        health_reason="",
        utilization_frac=None if use is None else min(1.0, use.gpu / 100),
        used_memory_bytes=int(memory.used),
        temperature_c=None if heat is None else float(heat),
    )
