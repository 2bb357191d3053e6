"""Telemetry in a thread of its own: a driver that hangs must not keep the agent from renewing leases."""

import logging
import threading
import time
from dataclasses import replace

from agents.protocol.server_report import DeviceReport
from agents.telemetry import Probe

log = logging.getLogger(__name__)

SAMPLE_EVERY_S = 1.0
# A driver that has not answered for so long is said to be unhealthy.
SILENT_AFTER_S = 10.0


class Sampler:
    """Samples the probe in a loop and keeps the newest sample."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._usage: dict[int, float] = {}
        self._devices = probe.sample({})
        self._sampled_at_s = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    @property
    def num_devices(self) -> int:
        """Return how many devices there were at the start."""
        return len(self._devices)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, unless it hangs in the driver."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2)

    def newest(self, usage: dict[int, float]) -> tuple[DeviceReport, ...]:
        """Return what the devices did last; ``usage`` is what the attempts use of them now, 0 to 1."""
        self._usage = usage
        silent_s = time.monotonic() - self._sampled_at_s
        if silent_s < SILENT_AFTER_S:
            return self._devices
        reason = f"The driver has not answered for {silent_s:.0f} s."
        return tuple(
            replace(device, healthy=False, health_reason=reason, utilization_frac=None) for device in self._devices
        )

    def _run(self) -> None:
        while not self._end.wait(SAMPLE_EVERY_S):
            try:
                self._devices = self._probe.sample(self._usage)
                self._sampled_at_s = time.monotonic()
            except Exception:
                # Whatever the driver does: it shows as silence, and the next second tries again.
                log.exception("telemetry_failed")
