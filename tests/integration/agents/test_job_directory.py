"""The directory of a job under real processes: plain scripts go on where they saved."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from agents.files.job_dir import JobDir
from agents.files.job_hold import Hold
from agents.host.identity import send_signal
from tests.support.agents.plain_script import PLAIN, STEPS, weight_after
from tests.support.agents.server import AgentServer, attempt_id, marked, script, wait_for, wanted

MIB = 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """A running agent."""
    made = AgentServer(tmp_path)
    made.start()
    yield made
    made.end()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[AgentServer]]:
    """Two agents with one shared directory."""
    made = [AgentServer(tmp_path / name) for name in ("a", "b")]
    made[1].config = replace(made[1].config, shared_dir=made[0].config.shared_dir)
    for one in made:
        one.start()
    yield made
    for one in made:
        one.end()


def test_plain_script_goes_on_where_it_saved(servers: list[AgentServer]) -> None:
    """Preempted at random over two servers: each step is done once after the last save, the result is the same."""
    rng, job = Random(7), attempt_id()
    directory = servers[0].config.shared_dir / "jobs" / job / "dir"
    number = 0
    while steps_saved(directory) < STEPS:
        number += 1
        server = rng.choice(servers)
        order = wanted(script(PLAIN), job_id=job, number=number, files={"begun": "0"})
        server.send(order)
        enough = min(STEPS, steps_saved(directory) + rng.randrange(1, STEPS // 4))
        wait_for("more steps", partial(has_saved, directory, enough))
        server.send(replace(order, wanted="preempt"))
        server.wait_phase(order, "ended")
        server.send()
    saved = json.loads((directory / "out" / "last.json").read_text())

    assert number >= 4
    assert saved == [STEPS, weight_after(STEPS), list(range(STEPS))]
    assert (directory / "begun").read_text() == str(number)


def steps_saved(directory: Path) -> int:
    """Return how many steps the script has saved."""
    try:
        return int(json.loads((directory / "out" / "last.json").read_text())[0])
    except FileNotFoundError:
        return 0


def has_saved(directory: Path, steps: int) -> bool:
    """Return whether it has saved so many."""
    return steps_saved(directory) >= steps


KEEPS = """
import json, os
found = {name: sorted(os.listdir(os.environ[name])) for name in ("HOME", "CLUSTERWEB_SCRATCH_DIR")}
for name in found:
    open(os.environ[name] + "/kept", "w").write("x")
print(json.dumps({**found, "tmp": os.path.samefile(os.environ["TMPDIR"], os.environ["CLUSTERWEB_SCRATCH_DIR"])}))
"""


def test_home_lives_as_long_as_the_job_and_scratch_as_long_as_the_attempt(server: AgentServer) -> None:
    """Scratch is on the server's own disk, and gone when the attempt is."""
    job, found = attempt_id(), []
    for number in (1, 2):
        order = wanted(script(KEEPS), job_id=job, number=number)
        server.send(order)
        server.wait_phase(order, "ended")
        found.append(json.loads(server.log(order)))
        wait_for("no scratch", lambda: not any((server.config.state_dir / "scratch").iterdir()))

    assert found[0] == {"HOME": [], "CLUSTERWEB_SCRATCH_DIR": [], "tmp": True}
    assert found[1] == {"HOME": ["kept"], "CLUSTERWEB_SCRATCH_DIR": [], "tmp": True}


def test_scratch_goes_also_when_the_supervisor_was_killed(server: AgentServer) -> None:
    """And while the agent was away."""
    order = wanted(script("import os,time;open(os.environ['CLUSTERWEB_SCRATCH_DIR']+'/f','w');time.sleep(600)"))
    server.send(order)
    scratch = server.config.state_dir / "scratch"
    wait_for("a file", lambda: (scratch / order.attempt_id / "f").exists())
    server.stop()
    send_signal(server.supervisor(order), signal.SIGKILL)
    server.start()
    server.renew()
    server.wait_phase(order, "ended")

    wait_for("no scratch", lambda: not any(scratch.iterdir()))


@pytest.mark.parametrize("where", ["CLUSTERWEB_JOB_DIR", "HOME", "CLUSTERWEB_SCRATCH_DIR"])
def test_each_directory_counts_against_the_disk(server: AgentServer, where: str) -> None:
    """Many files as well as large ones."""
    text = f"import os,time;d=os.environ[{where!r}]\nfor n in range(30): open(f'{{d}}/{{n}}','wb').write(b'x'*{MIB})\n"
    order = wanted(script(text + "time.sleep(600)"), disk_bytes=20 * MIB)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "out_of_disk"
    assert "of 20 MiB granted disk" in report.end_detail


def test_what_earlier_attempts_left_counts_too(server: AgentServer) -> None:
    """A job does not get past its disk by being preempted."""
    first = wanted(script(f"open('f','wb').write(b'x'*{15 * MIB})"), number=1, disk_bytes=20 * MIB)
    server.send(first)
    server.wait_phase(first, "ended")
    again = wanted(
        script(f"open('g','wb').write(b'x'*{15 * MIB}); import time; time.sleep(600)"),
        job_id=first.job_id,
        number=2,
        disk_bytes=20 * MIB,
    )
    server.send(again)

    assert server.wait_phase(again, "ended").end_cause == "out_of_disk"


WRITES = """
import time
while True:
    with open("ticks", "a") as file: file.write("x")
    time.sleep(0.01)
"""


def test_job_dies_when_a_later_attempt_begins_in_its_directory(server: AgentServer) -> None:
    """Whatever the scheduler says: an agent that hears nothing sees the mark of the next attempt."""
    order = wanted(script(WRITES), number=1)
    server.send(order)
    server.wait_phase(order, "running")
    wait_for("a write", (server.job_dir(order) / "ticks").exists)
    later = JobDir(str(server.config.shared_dir), order.job_id, Hold(1, 2))
    os.close(later.prepare(attempt_id=attempt_id(), uid=None, lay_in=lambda _: {})[0])
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_signal) == ("preempted", signal.SIGKILL)
    assert "later attempt" in report.end_detail
    assert not marked(order.attempt_id)


def test_frozen_job_dies_when_a_later_attempt_begins(tmp_path: Path) -> None:
    """Its lease is over and it is stopped; it never writes again, and does not wait for its server to be heard."""
    server = AgentServer(tmp_path, lease_ttl_s=1.0)
    server.start()
    try:
        order = wanted(script(WRITES), number=1)
        server.send(order)
        server.wait_phase(order, "frozen")
        ticks = (server.job_dir(order) / "ticks").stat().st_size
        later = JobDir(str(server.config.shared_dir), order.job_id, Hold(1, 2))
        os.close(later.prepare(attempt_id=attempt_id(), uid=None, lay_in=lambda _: {})[0])
        server.wait_phase(order, "ended")

        assert (server.job_dir(order) / "ticks").stat().st_size == ticks
    finally:
        server.end()


def test_order_that_comes_late_does_not_start(server: AgentServer) -> None:
    """The next attempt has begun elsewhere meanwhile."""
    late = wanted(script("open('ran','w')"), number=1)
    later = JobDir(str(server.config.shared_dir), late.job_id, Hold(1, 2))
    os.close(later.prepare(attempt_id=attempt_id(), uid=None, lay_in=lambda _: {})[0])
    server.send(late)
    report = server.wait_phase(late, "ended")

    assert (report.end_cause, report.pid) == ("launch_failed", None)
    assert "later attempt" in report.end_detail
    assert not (server.job_dir(late) / "ran").exists()
