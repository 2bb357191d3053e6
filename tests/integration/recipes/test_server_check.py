"""The recipe for a check of a server: a condition in ``_measure``; the report, the round, pages and REST follow."""

from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from agents.core.events import Sampled, Tick
from agents.protocol.server_report import DeviceReport
from agents.telemetry import Probe, find_probe, nvml
from agents.telemetry.sampler import Sampler
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Round, Server
from tests.support.agents.driver import FakeDriver
from tests.support.agents.fakes import FakeHost
from tests.support.agents.server import AgentServer
from tests.support.live.world import World

REASON = "It is hotter than 90 degrees."
plain = nvml._measure


def measure(device: DeviceReport) -> DeviceReport:
    """Return what ``_measure`` would with the new check at its end."""
    measured = plain(device)
    if measured.temperature_c is not None and measured.temperature_c > 90:
        return replace(measured, healthy=False, health_reason=REASON)
    return measured


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Two GPUs, the first of them too hot, on a server that has the check."""
    made = FakeDriver(num_gpus=2)
    made.hot = {"GPU-0"}
    monkeypatch.setattr(nvml, "pynvml", made)
    monkeypatch.setattr(nvml, "_measure", measure)
    return made


@pytest.fixture
def probe(driver: FakeDriver, tmp_path: Path) -> Probe:
    """What the agent of the server finds."""
    return find_probe(AgentServer(tmp_path).config)


def test_the_agent_reports_it(probe: Probe) -> None:
    """From the newest sample, in the next report that it signs."""
    host = FakeHost()
    host.start()
    host.tell(Sampled(devices=Sampler(probe).newest({}), cpu_frac=None, used_memory_bytes=None))
    host.tell(Tick())
    _, report = host.reports[-1]

    assert [(device.healthy, device.health_reason) for device in report.devices] == [(False, REASON), (True, "")]


def test_the_round_leaves_the_device_out_until_it_is_well(world: World, driver: FakeDriver, probe: Probe) -> None:
    """One job gets the other GPU; the next waits for this one, and gets it when it has cooled down."""
    agent = world.server("alpha", probe=probe)
    first = world.submit()
    world.until_state(first, JobState.RUNNING)
    second = world.submit()
    world.pass_time(10)

    assert agent.attempt_of(first.pk).wanted.gpu_uuids == ("GPU-1",)
    assert world.state(second) == JobState.QUEUED
    assert Round.objects.latest("number").num_gpus == 1

    driver.hot = set()
    world.until_state(second, JobState.RUNNING)
    assert agent.attempt_of(second.pk).wanted.gpu_uuids == ("GPU-0",)


def test_rest_and_pages_say_why(world: World, admin: Client, probe: Probe) -> None:
    """The reason as the check gave it."""
    world.server("alpha", probe=probe)
    server = Server.objects.get(name="alpha")
    hot, cool = admin.get(f"/api/v1/servers/{server.pk}").json()["gpus"]

    assert (cool["healthy"], cool["health_reason"]) == (True, "")
    assert (hot["healthy"], hot["health_reason"]) == (False, REASON)
    assert f"broken: {REASON}" in admin.get(f"/cluster/{server.pk}").content.decode()
    assert f"GPU 0 is broken: {REASON}" in admin.get("/cluster").content.decode()
