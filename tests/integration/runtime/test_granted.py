"""A training process that is told what it may use: it is measured, its threads and its caches follow the grant."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.files.cache_owners import owner_bytes, sweep, sweep_apart
from agents.protocol.grant import Grant
from agents.protocol.profile import Measured
from agents.runtime.cache.item_cache import ItemCache

CORES = tuple(sorted(os.sched_getaffinity(0)))
SCRIPT = """
import os, sys, time
from pathlib import Path
from agents.runtime import Run
from agents.runtime.dataset import CachedDataset
keys = sorted(os.listdir("items"))
data = CachedDataset(name="numbers", keys=keys, read=lambda key: Path("items", key).read_bytes(), decode=len,
                     working_bytes=0)
run = Run(quiet=True, checkpoint_every_s=None)
end = time.monotonic() + 60
for step in run.steps():
    data[step % len(keys)]
    time.sleep(0.2 / len(os.sched_getaffinity(0)))  # twice the cores, twice the speed
    run.report(loss=1.0)
    Path("seen").write_text(f"{len(os.sched_getaffinity(0))} {data.figures().used_bytes}")
    if Path("end").exists() or time.monotonic() > end:
        break
"""


def _grant(folder: Path, **changes: object) -> None:
    values = {"num_cpus": 1, "memory_bytes": 4000, "cores": CORES[:1], "idle_cores": CORES[1:], "measure_above": 0}
    content = Grant(**(values | changes)).encode()  # type: ignore[arg-type]  # a test's changes
    temporary = folder / "grant.tmp"
    temporary.write_bytes(content)
    temporary.replace(folder / "grant.json")


def _until(what: "object", *, within_s: float = 300.0) -> None:
    end_s = time.monotonic() + within_s
    while not what():  # type: ignore[operator]  # a condition
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_job_is_measured_while_it_trains_and_its_cache_follows_the_grant(tmp_path: Path) -> None:
    """Both core counts are told, then it is back on its own core; a smaller grant empties the cache at a boundary."""
    (tmp_path / "items").mkdir()
    for number in range(50):
        (tmp_path / "items" / f"{number:02}").write_bytes(b"x" * 100)
    _grant(tmp_path)
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "CLUSTERWEB_GRANT_FILE": str(tmp_path / "grant.json"),
        "CLUSTERWEB_REPORT_FILE": str(tmp_path / "reports"),
        "CLUSTERWEB_ATTEMPT_ID": "attempt",
        "CLUSTERWEB_CACHE_DIR": str(tmp_path / "cache"),
        "CLUSTERWEB_MEMORY_BYTES": "4000",
    }
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environ)
    try:
        reports = tmp_path / "reports"
        _until(lambda: reports.exists() and '"measured"' in reports.read_text())
        told = next(json.loads(line) for line in reports.read_text().splitlines() if '"measured"' in line)
        measured = Measured.parse(told["measured"])
        _until(lambda: (tmp_path / "seen").read_text() == "1 4000")
        _grant(tmp_path, memory_bytes=1500, measure_above=None, idle_cores=())
        _until(lambda: (tmp_path / "seen").read_text() == "1 1500")
        paid = owner_bytes(tmp_path / "cache", "attempt")
    finally:
        (tmp_path / "end").touch()
        process.wait(timeout=300)

    rates = dict(measured.rates)
    assert sorted(rates) == [1, 2]
    assert rates[2] / rates[1] == pytest.approx(2.0, rel=0.3)
    assert measured.free_cores == 2
    assert measured.dataset_bytes == 5000
    assert paid == 1500


def test_memory_of_a_dead_owner_is_given_back(tmp_path: Path) -> None:
    """Its items go; those of the living stay, and no owner pays for another's."""
    dead = ItemCache(tmp_path / "numbers", owner="dead", budget_bytes=1000)
    living = ItemCache(tmp_path / "numbers", owner="living", budget_bytes=300)
    for number in range(5):
        dead.get(f"a{number}", lambda: b"x" * 100)
    living.get("b", lambda: b"y" * 100)

    sweep(tmp_path)

    assert (owner_bytes(tmp_path, "dead"), owner_bytes(tmp_path, "living")) == (500, 100)

    dead.close()
    sweep_apart(tmp_path, confine=lambda: None)

    assert owner_bytes(tmp_path, "dead") == 0
    assert owner_bytes(tmp_path, "living") == 300  # it had room for two of them
    assert len(list((tmp_path / "numbers" / "items").iterdir())) == 3
    living.leave()


def test_item_that_nobody_pays_for_is_removed(tmp_path: Path) -> None:
    """A process killed between taking an item in and paying for it leaves nothing for ever."""
    dead = ItemCache(tmp_path / "numbers", owner="dead", budget_bytes=1000)
    partial = tmp_path / "numbers" / "owners" / "dead" / ".partial"
    partial.write_bytes(b"x" * 100)
    os.link(partial, tmp_path / "numbers" / "items" / "orphan")
    dead.close()

    sweep(tmp_path)

    assert list((tmp_path / "numbers" / "items").iterdir()) == []
