"""What a server says of its devices: GPUs through a driver that misbehaves, CPU slots, the machine's load."""

import threading
from dataclasses import replace
from typing import Any, Literal

import pynvml
import pytest

from agents.config import AgentConfig
from agents.protocol.server_report import DeviceReport
from agents.telemetry import find_probe, nvml, sampler
from agents.telemetry.cpu import CpuSlots
from agents.telemetry.machine import CpuLoad, used_memory_bytes
from agents.telemetry.nvml import NvmlGpus
from tests.support.agents.driver import FakeDriver
from tests.support.agents.server import AgentServer, wait_for


@pytest.fixture
def config(tmp_path: Any) -> AgentConfig:
    """A configuration with two CPU slots."""
    return AgentServer(tmp_path).config


def use(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> FakeDriver:
    """Put a driver in the place of NVML."""
    monkeypatch.setattr(nvml, "pynvml", driver)
    return driver


@pytest.mark.parametrize(
    "problem", [pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded, pynvml.NVMLError_NoPermission]
)
def test_without_a_working_driver_cpu_slots_are_offered(
    monkeypatch: pytest.MonkeyPatch, config: AgentConfig, problem: type[pynvml.NVMLError]
) -> None:
    """Any trouble of NVML at the start means: no GPUs."""
    use(monkeypatch, FakeDriver(num_gpus=2, problem=problem))

    assert find_probe(config).device_kind == "cpu_slot"


def test_driver_without_a_gpu_means_cpu_slots(monkeypatch: pytest.MonkeyPatch, config: AgentConfig) -> None:
    """A driver alone trains nothing."""
    use(monkeypatch, FakeDriver(num_gpus=0))

    assert find_probe(config).device_kind == "cpu_slot"


def test_gpus_are_measured(monkeypatch: pytest.MonkeyPatch, config: AgentConfig) -> None:
    """Each with what it is and what it does."""
    use(monkeypatch, FakeDriver(num_gpus=2))
    first, second = find_probe(config).sample({})

    assert (first.index, first.uuid, first.model, first.memory_bytes) == (0, "GPU-0", "NVIDIA A100", 40 << 30)
    assert (first.healthy, first.utilization_frac, first.temperature_c) == (True, 0.87, 61.0)
    assert (second.index, second.used_memory_bytes) == (1, 10 << 30)


def test_only_the_agents_own_gpus_are_offered(monkeypatch: pytest.MonkeyPatch, config: AgentConfig) -> None:
    """Two agents of one machine share its GPUs out; their indexes stay those of the driver."""
    use(monkeypatch, FakeDriver(num_gpus=4))
    devices = find_probe(replace(config, gpu_uuids=("GPU-1", "GPU-3"))).sample({})

    assert [(device.index, device.uuid) for device in devices] == [(1, "GPU-1"), (3, "GPU-3")]


def test_gpu_that_is_to_be_offered_and_is_not_there_is_unhealthy(
    monkeypatch: pytest.MonkeyPatch, config: AgentConfig
) -> None:
    """Its jobs must not start on CPU slots in its place, also where none of the names is right."""
    use(monkeypatch, FakeDriver(num_gpus=2))
    probe = find_probe(replace(config, gpu_uuids=("GPU-1", "GPU-7")))
    nothing = find_probe(replace(config, gpu_uuids=("GPU-8",)))

    there, absent = probe.sample({})
    assert (there.uuid, there.healthy) == ("GPU-1", True)
    assert (absent.uuid, absent.index, absent.healthy) == ("GPU-7", 2, False)
    assert "not found" in absent.health_reason.lower()
    assert (nothing.device_kind, [device.healthy for device in nothing.sample({})]) == ("gpu", [False])


def test_lost_gpu_is_reported_unhealthy_and_recovers(monkeypatch: pytest.MonkeyPatch, config: AgentConfig) -> None:
    """It stays in the report with the reason, and the others keep their indexes."""
    driver = use(monkeypatch, FakeDriver(num_gpus=2))
    probe = NvmlGpus.find(config)
    assert probe is not None
    driver.lost = {"GPU-0"}
    lost, other = probe.sample({})
    driver.lost = set()
    back, _ = probe.sample({})

    assert (lost.healthy, lost.index, lost.utilization_frac) == (False, 0, None)
    assert "lost" in lost.health_reason.lower()
    assert (other.healthy, other.index) == (True, 1)
    assert back.healthy


def test_gpu_that_does_not_tell_its_load_is_healthy(monkeypatch: pytest.MonkeyPatch, config: AgentConfig) -> None:
    """What is not measured is None, not zero."""
    driver = use(monkeypatch, FakeDriver(num_gpus=1))
    driver.silent = {"GPU-0"}
    probe = NvmlGpus.find(config)
    assert probe is not None
    [device] = probe.sample({})

    assert device.healthy
    assert device.utilization_frac is None


def test_slot_utilization_is_clipped(config: AgentConfig) -> None:
    """A measure a little above one is one."""
    devices = CpuSlots.find(config).sample({0: 1.2})

    assert [device.utilization_frac for device in devices] == [1.0, 0.0]
    assert len({device.uuid for device in devices}) == 2


def test_load_and_memory_of_the_machine_are_in_range(config: AgentConfig) -> None:
    """Fractions are fractions."""
    load = CpuLoad(config.cpu_ids)
    sum(range(2_000_000))
    measured = load.sample()
    used = used_memory_bytes()

    assert measured is None or 0 <= measured <= 1
    assert used is not None
    assert used > 0


class HangingProbe:
    """A driver that answers until it is told to hang."""

    device_kind: Literal["gpu"] = "gpu"

    def __init__(self) -> None:
        self.hangs = threading.Event()
        self.goes_on = threading.Event()

    def sample(self, usage: dict[int, float]) -> tuple[DeviceReport, ...]:
        """Return one GPU, or hang."""
        if self.hangs.is_set():
            self.goes_on.wait()
        return (DeviceReport(index=0, uuid="GPU-0", model="A100", memory_bytes=1, healthy=True, utilization_frac=0.5),)


def test_driver_that_hangs_is_reported_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest answer is given at once; after a while its age is said."""
    monkeypatch.setattr(sampler, "SAMPLE_EVERY_S", 0.01)
    monkeypatch.setattr(sampler, "SILENT_AFTER_S", 0.3)
    probe = HangingProbe()
    telemetry = sampler.Sampler(probe)
    telemetry.start()
    [before] = telemetry.newest({})
    probe.hangs.set()
    wait_for("silence", lambda: not telemetry.newest({})[0].healthy)
    [during] = telemetry.newest({})
    probe.hangs.clear()
    probe.goes_on.set()
    wait_for("an answer", lambda: telemetry.newest({})[0].healthy)
    telemetry.stop()

    assert before.utilization_frac == 0.5
    assert during.utilization_frac is None
    assert "not answered" in during.health_reason
