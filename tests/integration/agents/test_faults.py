"""What dies, hangs, repeats or is asked to stop: real processes, one agent in this process."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agents.files.server_files import AttemptFiles
from agents.host.identity import identity_of, is_alive, send_signal
from agents.host.process import HostProcesses
from agents.loop import AgentLoop
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.errors import AlreadyRunning
from agents.protocol.ports import ProcessIdentity
from agents.supervisor.stop import stop_all
from tests.support.agents.server import AgentServer, attempt_id, marked, script, wait_for, wanted

COUNTS = "import time\nn=0\nwhile True:\n  print(n,flush=True); n+=1; time.sleep(0.05)"
# A job that uses the request file as the runtime does.
STOPPABLE = """
import json, os, sys, time
def report(**line):
    with open(os.environ["CLUSTERWEB_REPORT_FILE"], "a") as file:
        file.write(json.dumps(line) + "\\n")
def save(step):
    path = os.path.join(os.environ["CLUSTERWEB_CHECKPOINT_DIR"], f"step-{step}")
    open(path, "w").write(str(step))
    report(event="checkpoint", name=f"step-{step}", step=step)
start = os.environ.get("CLUSTERWEB_RESUME_FILE")
step = int(open(start).read()) if start else 0
report(event="started", step=step, total_steps=1000)
seen = 0
while True:
    time.sleep(0.02); step += 1
    report(event="progress", step=step, loss=1/step)
    try: request = json.load(open(os.environ["CLUSTERWEB_REQUEST_FILE"]))
    except OSError: continue
    if request["id"] == seen: continue
    seen = request["id"]; save(step)
    if request["request"] == "stop":
        report(event="stopped", step=step); sys.exit(75)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


@pytest.fixture
def brief(tmp_path: Path) -> Iterator[AgentServer]:
    """A server with a short lease."""
    server = AgentServer(tmp_path, lease_ttl_s=2.0)
    server.start()
    yield server
    server.end()


def lines(server: AgentServer, order: AttemptWanted) -> int:
    """Return how many lines the job has written."""
    return server.log(order).count("\n")


def step_of(server: AgentServer, order: AttemptWanted) -> int | None:
    """Return the newest step that the job reported."""
    report = server.report(order)
    return None if report is None else report.step


def test_repeated_desired_state_launches_once(server: AgentServer) -> None:
    """The same message, and the same wish again, start one process."""
    order = wanted(script("import os,time;print(os.getpid(),flush=True);time.sleep(600)"))
    server.generation += 1
    server.orders, server.ever = {order.attempt_id: order}, {order.attempt_id}
    message = server.message()
    assert server.loop is not None
    for _ in range(5):
        server.loop.receive(message)
        server.renew()
    server.wait_phase(order, "running")
    wait_for("its line", lambda: lines(server, order) == 1)

    assert len(marked(order.attempt_id)) == 1
    assert len([e for e in journal(server) if e["event"] == "start"]) == 1


def journal(server: AgentServer) -> list[dict[str, object]]:
    """Return the lines of the process journal."""
    path = server.config.state_dir / "journal.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_job_with_runtime_checkpoints_when_preempted(server: AgentServer) -> None:
    """The request is answered at the next step, long before the grace is over; the next attempt goes on from there."""
    order = wanted(script(STOPPABLE), grace_s=600.0)
    server.send(order)
    wait_for("steps", lambda: (step_of(server, order) or 0) > 0)
    server.send(replace(order, wanted="preempt"))
    first = server.wait_phase(order, "ended")
    follower = wanted(script(STOPPABLE), resume_attempt_id=order.attempt_id, resume_name=first.checkpoint_name)
    server.send(follower)
    second = server.wait_phase(follower, "running")
    wait_for("its first step", lambda: step_of(server, follower) is not None)
    resumed = server.report(follower)

    assert (first.end_cause, first.exit_code) == ("preempted", 75)
    assert first.checkpoint_name == f"step-{first.checkpoint_step}"
    assert resumed is not None
    assert resumed.first_step == first.checkpoint_step
    assert second.phase == "running"


def test_preempted_script_without_runtime_is_terminated_at_once(server: AgentServer) -> None:
    """It does not sit out the grace."""
    order = wanted(script(COUNTS), grace_s=600.0)
    server.send(order)
    wait_for("lines", lambda: lines(server, order) > 2)
    server.send(replace(order, wanted="preempt"))
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_signal) == ("preempted", signal.SIGTERM)


def test_missing_checkpoint_is_said_in_the_log(server: AgentServer) -> None:
    """The job starts anew, and its owner can see why."""
    order = wanted(script("import os;print(os.environ.get('CLUSTERWEB_RESUME_FILE'))"))
    order = replace(order, resume_attempt_id=attempt_id(), resume_name="step-1")
    server.send(order)
    server.wait_phase(order, "ended")

    assert "checkpoint step-1 is gone" in server.log(order)
    assert server.log(order).endswith("None\n")


def test_replaced_checkpoint_leaves_its_neighbours_to_the_job(server: AgentServer) -> None:
    """Reports were lost while the job wrote newer checkpoints and dropped the reported one: it may take those."""
    first = wanted(script("import os;open(os.environ['CLUSTERWEB_CHECKPOINT_DIR']+'/step-2','w').write('newer')"))
    server.send(first)
    server.wait_phase(first, "ended")
    order = wanted(script("import os;print(os.listdir(os.path.dirname(os.environ['CLUSTERWEB_RESUME_FILE'])))"))
    order = replace(order, resume_attempt_id=first.attempt_id, resume_name="step-1")
    server.send(order)
    server.wait_phase(order, "ended")

    assert "checkpoint step-1 is gone; the newest one beside it is taken" in server.log(order)
    assert server.log(order).endswith("['step-2']\n")


def test_killed_supervisor_takes_its_job_along_and_is_reported(server: AgentServer) -> None:
    """Trainer and children die; the attempt ends as supervisor_lost."""
    child = "import time;time.sleep(600)"
    order = wanted(
        script(f"import subprocess,sys,time;subprocess.Popen([sys.executable,'-S','-c',{child!r}]);time.sleep(600)")
    )
    server.send(order)
    server.wait_phase(order, "running")
    wait_for("both", lambda: len(marked(order.attempt_id)) == 2)
    send_signal(server.supervisor(order), signal.SIGKILL)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "supervisor_lost"
    assert not os.path.lexists(os.path.join(tempfile.gettempdir(), f"clusterweb-{order.attempt_id}"))
    assert marked(order.attempt_id) == []


def test_supervisor_killed_while_frozen_leaves_nothing_stopped_behind(brief: AgentServer) -> None:
    """A stopped job dies as well."""
    order = wanted(script(COUNTS))
    brief.send(order)
    brief.wait_phase(order, "frozen")
    send_signal(brief.supervisor(order), signal.SIGKILL)
    brief.wait_phase(order, "ended")

    assert marked(order.attempt_id) == []


def test_lease_that_runs_out_freezes_and_renewal_continues(brief: AgentServer) -> None:
    """Not a line while frozen; the next one is the very next number."""
    order = wanted(script(COUNTS))
    brief.send(order)
    brief.wait_phase(order, "frozen")
    frozen_at = lines(brief, order)
    time.sleep(0.5)  # that nothing happens can only be seen by waiting
    still_at = lines(brief, order)
    brief.renew()
    brief.wait_phase(order, "running")
    wait_for("more lines", lambda: lines(brief, order) > frozen_at + 3)
    numbers = [int(line) for line in brief.log(order).splitlines()]

    assert still_at == frozen_at
    assert numbers == list(range(len(numbers)))
    assert [entry["event"] for entry in journal(brief)] == ["start", "stop", "continue"]


def test_lease_runs_out_while_no_agent_is_there(brief: AgentServer) -> None:
    """The supervisor stops the job by itself: no agent is left to do it."""
    order = wanted(script(COUNTS))
    brief.send(order)
    brief.wait_phase(order, "running")
    brief.stop()

    def is_frozen() -> bool:
        state = brief.state(order)
        return state is not None and state.report.phase == "frozen"

    wait_for("frozen", is_frozen)
    assert all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in marked(order.attempt_id))


def test_restarted_agent_adopts_training(server: AgentServer) -> None:
    """The job never notices."""
    order = wanted(script(COUNTS))
    server.send(order)
    wait_for("lines", lambda: lines(server, order) > 2)
    [pid] = marked(order.attempt_id)
    server.stop()
    before = lines(server, order)
    wait_for("training goes on", lambda: lines(server, order) > before + 3)
    server.start()
    report = server.wait_phase(order, "running")
    server.renew()

    assert report.pid == pid
    assert marked(order.attempt_id) == [pid]
    assert len([entry for entry in journal(server) if entry["event"] == "start"]) == 1


def test_second_agent_on_one_state_directory_is_refused(server: AgentServer) -> None:
    """Two agents with one id would tell the scheduler two stories."""
    with pytest.raises(AlreadyRunning):
        AgentLoop(server.config, server.mail)


def test_python_m_agents_refuses_with_one_line(server: AgentServer, tmp_path: Path) -> None:
    """For people: one clear line, and an exit status."""
    path = write_config(server, tmp_path)
    environment = {**os.environ, "AGENT_CONFIG": str(path)}

    second = subprocess.run([sys.executable, "-m", "agents"], env=environment, capture_output=True, text=True)
    environment["AGENT_CONFIG"] = str(tmp_path / "nowhere.json")
    lost = subprocess.run([sys.executable, "-m", "agents"], env=environment, capture_output=True, text=True)

    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert "Another agent is running" in second.stderr
    assert (lost.returncode, lost.stderr.count("\n")) == (os.EX_CONFIG, 1)
    assert "nowhere.json" in lost.stderr


def write_config(server: AgentServer, path: Path) -> Path:
    """Write the server's configuration file and return its path."""
    config = server.config
    file = path / "agent.json"
    file.write_text(
        json.dumps(
            {
                "server_id": config.server_id,
                "server_name": config.server_name,
                "key_hex": config.key.hex(),
                "redis_url": config.redis_url,
                "shared_dir": str(config.shared_dir),
                "state_dir": str(config.state_dir),
                "cpu_slots": config.cpu_slots,
                "cpu_ids": None,
                "memory_bytes": config.memory_bytes,
            }
        )
    )
    return file


def test_reused_pid_is_not_signalled() -> None:
    """A process with another start time, or of another boot, is a stranger."""
    bystander = subprocess.Popen([sys.executable, "-S", "-c", "import time;time.sleep(600)"])
    try:
        identity = identity_of(bystander.pid)
        assert identity is not None
        older = ProcessIdentity(boot_id=identity.boot_id, pid=identity.pid, start_ticks=identity.start_ticks - 1)
        other_boot = replace(identity, boot_id="another")
        sent = [send_signal(one, signal.SIGKILL, group=group) for one in (older, other_boot) for group in (False, True)]

        assert sent == [False] * 4
        assert bystander.poll() is None
        assert is_alive(identity)
    finally:
        bystander.kill()
        bystander.wait()


def test_zombie_is_dead() -> None:
    """A zombie keeps its pid and start time; it is dead all the same."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    identity = identity_of(child.pid)
    assert identity is not None
    wait_for("zombie", lambda: not is_alive(identity))
    exists = identity_of(child.pid) == identity
    signalled = send_signal(identity, 0)
    child.wait()

    assert exists
    assert not signalled


def test_stop_command_ends_every_job_at_a_checkpoint(server: AgentServer) -> None:
    """Ctrl-C: jobs checkpoint, deaf ones are killed, and the next agent reports both as preempted."""
    gentle = wanted(script(STOPPABLE), grace_s=60.0)
    deaf = wanted(
        script("import signal,time;signal.signal(15,signal.SIG_IGN);print(1,flush=True);time.sleep(600)"),
        grace_s=60.0,
        gpu_indexes=(1,),
    )
    server.send(gentle, deaf)
    wait_for("steps", lambda: (step_of(server, gentle) or 0) > 0)
    wait_for("deaf", lambda: lines(server, deaf) == 1)
    server.stop()
    files = AttemptFiles(attempts_dir=server.config.attempts_dir, state_dir=server.config.state_dir)
    stopped, killed = stop_all(files, HostProcesses(), timeout_s=60.0)
    files.close()
    left = server.processes()
    server.start()
    ended = [server.wait_phase(order, "ended") for order in (gentle, deaf)]

    assert (sorted(stopped), killed) == (sorted([gentle.attempt_id, deaf.attempt_id]), [])
    assert left == []
    assert [report.end_cause for report in ended] == ["preempted", "preempted"]
    assert ended[0].checkpoint_name


def test_stop_command_prints_one_line(server: AgentServer, tmp_path: Path) -> None:
    """As the product's own stop does it, in a process of its own, with the agent still there."""
    order = wanted(script(COUNTS))
    server.send(order)
    server.wait_phase(order, "running")
    path = write_config(server, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "agents.supervisor.stop", "--config", str(path), "--timeout", "5"],
        capture_output=True,
        text=True,
    )
    report = server.wait_phase(order, "ended")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "server-under-test: 1 job asked to checkpoint and stopped, 0 killed.\n"
    assert report.end_cause == "preempted"


def test_supervisor_starts_fast() -> None:
    """Nobody waits for it: what it imports stays within the standard library, and takes a core for a moment."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", "import sys,agents.supervisor.supervise;print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert not {"psutil", "celery", "redis", "torch", "numpy", "logging", "subprocess"} & set(loaded)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0


def test_slot_utilization_is_what_the_job_uses(server: AgentServer) -> None:
    """A busy loop fills its slot; the other slot stays idle."""
    order = wanted(script("while True: pass"))
    server.send(order)
    wait_for("busy", lambda: (server.mail.newest[1].devices[0].utilization_frac or 0) > 0.1)
    devices = server.mail.newest[1].devices
    report = server.report(order)

    assert devices[1].utilization_frac == 0.0
    assert [device.model for device in devices] == ["CPU slot", "CPU slot"]
    assert report is not None
    assert report.gpu_frac is not None
    assert report.memory_bytes is not None
    assert report.memory_bytes > 1_000_000
