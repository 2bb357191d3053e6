"""A running job under its agent: measured with idle cores, moved to others, held to a grant that shrinks with time."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.files.cache_owners import cache_folder, owner_bytes
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.server_report import AttemptReport
from tests.support.agents.server import SERVER_ID, AgentServer, script, wait_for, wanted

CORES = sorted(os.sched_getaffinity(0))
MIB = 1024**2
TRAIN = """
import os, time
from agents.runtime import Run
print("begins on", sorted(os.sched_getaffinity(0)), flush=True)
run = Run(quiet=True, checkpoint_every_s=None)
for step in run.steps():
    time.sleep(0.1 / len(os.sched_getaffinity(0)))
"""
FILL = """
import os, time
from pathlib import Path
from agents.runtime.cache.item_cache import ItemCache
cache = ItemCache(Path(os.environ["CLUSTERWEB_CACHE_DIR"], "numbers"), owner=os.environ["CLUSTERWEB_ATTEMPT_ID"],
                  budget_bytes=64 << 20)
for number in range(48):
    cache.get(str(number), lambda: b"x" * (1 << 20))
time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def _cores_of(server: AgentServer, order: AttemptWanted) -> list[int]:
    report = server.report(order)
    if report is None or report.pid is None:
        return []
    return sorted(os.sched_getaffinity(report.pid))


def _measured(server: AgentServer, order: AttemptWanted) -> AttemptReport | None:
    report = server.report(order)
    return report if report is not None and report.measured is not None else None


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_job_is_measured_with_idle_cores_and_comes_back_to_its_own(server: AgentServer) -> None:
    """The report carries both rates; afterwards the job is on its one core, and moves when its lease does."""
    order = wanted(script(TRAIN), measure_above=0)
    server.send(order)
    report = wait_for("measured", lambda: _measured(server, order), within_s=90)
    wait_for("own core", lambda: _cores_of(server, order) == CORES[:1])
    server.send(replace(order, cpu_ids=(0, 1), measure_above=None))
    wait_for("two cores", lambda: _cores_of(server, order) == CORES[:2])

    assert report.measured is not None
    assert [cores for cores, _ in report.measured.rates] == [1, 2]
    assert f"begins on {CORES}" in server.log(order)  # OpenMP counts cores at the start alone


def test_cached_items_count_as_memory_of_their_owner_and_leave_with_it(server: AgentServer) -> None:
    """48 MiB of items in the cache, none of them in the process; a kill leaves nothing behind."""
    order = wanted(script(FILL))
    server.send(order)
    wait_for(
        "items",
        lambda: ((server.report(order) or AttemptReport(attempt_id="", phase="starting")).memory_bytes or 0) > 48 * MIB,
    )
    report = server.report(order)
    cache = cache_folder(SERVER_ID, queue_id=order.queue_id)
    paid = owner_bytes(cache, order.attempt_id)
    server.send(replace(order, wanted="cancel"))
    server.wait_phase(order, "ended")

    assert report is not None
    assert report.peak_memory_bytes is not None
    assert report.peak_memory_bytes < 48 * MIB
    assert paid == 48 * MIB
    assert owner_bytes(cache, order.attempt_id) == 0


def test_job_over_its_memory_with_cached_items_is_ended(server: AgentServer) -> None:
    """They are part of what it was granted."""
    order = wanted(script(FILL), memory_bytes=32 * MIB)
    server.send(order)

    assert server.wait_phase(order, "ended").end_cause == "out_of_memory"
