"""A GPU that two servers offer is given to jobs of one of them."""

from dataclasses import replace

import pytest

from agents.protocol.signing import DeviceReport
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Gpu
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

SAME = "GPU-6c3f1a52-0d1e-4b8e-9f5c-1f2f3a4b5c6d"


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two servers: the second device of each is the same GPU, ``first`` said so before."""
    device = FakeAgent._device

    def with_shared(agent: FakeAgent, index: int) -> DeviceReport:
        own = device(agent, index)
        return replace(own, uuid=SAME) if index == 1 else own

    monkeypatch.setattr(FakeAgent, "_device", with_shared)
    made = World()
    made.server("first")
    made.server("second")
    made.queue("vision", quota_gpus=8)
    return made


def offered(name: str) -> dict[int, tuple[bool, str]]:
    """Return whether each device of a server is healthy, and why not."""
    rows = Gpu.objects.filter(server__name=name).values_list("index", "healthy", "health_reason")
    return {index: (healthy, reason) for index, healthy, reason in rows}


def test_server_that_comes_later_does_not_offer_it(world: World) -> None:
    """Three GPUs, so three jobs run and the fourth waits; the page of the second says where the GPU is."""
    jobs = [world.submit() for _ in range(4)]
    world.pass_time(5)

    assert offered("first") == {0: (True, ""), 1: (True, "")}
    assert offered("second") == {0: (True, ""), 1: (False, "first offers the same GPU")}
    assert [world.state(job) for job in jobs] == [JobState.RUNNING] * 3 + [JobState.QUEUED]


def test_it_is_offered_again_when_the_other_has_it_no_more(world: World) -> None:
    """A card that was moved, or a configuration that was mended."""
    world.agents["first"].slots = 1
    world.pass_time(3)

    assert offered("second")[1] == (True, "")


def test_lost_server_gets_it_back_only_from_who_has_it_no_more(world: World) -> None:
    """While the first is lost the second offers it; then the first has to wait."""
    world.pass_time(60, silent=("first",))
    assert offered("second")[1] == (True, "")

    world.pass_time(5)
    assert offered("first")[1] == (False, "second offers the same GPU")
    assert offered("second")[1] == (True, "")


def test_other_devices_of_one_name_are_each_servers_own(world: World) -> None:
    """CPU slots are numbered on each server; they are no GPUs that could be meant twice."""
    assert offered("first")[0] == offered("second")[0] == (True, "")
    assert Gpu.objects.filter(uuid="cpu-slot-0").count() == 2
