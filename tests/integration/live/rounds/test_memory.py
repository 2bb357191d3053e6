"""What the engine keeps in memory is of the servers and of the jobs that run now, not of all that ever ran."""

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

MEASURED = {"cpu_frac": 0.75, "gpu_frac": 0.5, "memory_bytes": 1000}
ODD = {"loss": 1e17}


def _kept(thing: object, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Return the size of each dict, list and set that our objects lead to, by where it is."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, dict | list | set | tuple):
        yield path, len(thing)
        for value in thing.values() if isinstance(thing, dict) else thing:
            yield from _kept(value, path, seen)
    elif type(thing).__module__.startswith("scheduler.live"):
        names = [*getattr(thing, "__dict__", ()), *getattr(thing, "__slots__", ())]
        for name in names:
            yield from _kept(getattr(thing, name), f"{path}.{name}", seen)


def _sizes(world: World) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path, size in _kept(world.engine, "engine", set()):
        sizes[path] = sizes.get(path, 0) + size
    return sizes


def _pass_time(world: World, seconds: int) -> None:
    """Let time pass, with the frames that fall due."""
    for _ in range(seconds):
        world.pass_time(1)
        world.engine.frames.flush(now_s=world.clock.mono_s())


def _live(world: World, agent: FakeAgent, said: dict[str, Any]) -> None:
    """Let two jobs start, report and end, one after the other; then nothing for over a minute."""
    for _ in range(2):
        job = world.submit()
        world.until_state(job, JobState.RUNNING)
        agent.attempt_of(job.pk).extra = said
        _pass_time(world, 2)
        agent.end(job.pk, cause="completed", exit_code=0)
        _pass_time(world, 3)
        assert world.state(job) == JobState.COMPLETED
    _pass_time(world, 70)


@pytest.mark.parametrize("said", [MEASURED, ODD], ids=["measured", "odd"])
@pytest.mark.parametrize("watched", [None, set()], ids=["watched is not known", "no page is open"])
def test_jobs_that_ended_leave_nothing_in_memory(world: World, watched: set[str] | None, said: dict[str, Any]) -> None:
    """However many jobs have run, the engine keeps as much as after the first ones."""
    world.frames.groups = watched
    agent = world.server("alpha")
    _live(world, agent, said)
    before = _sizes(world)
    _live(world, agent, said)
    after = _sizes(world)

    assert {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0)} == {}
