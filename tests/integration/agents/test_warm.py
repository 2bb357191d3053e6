"""Training processes that are started ahead of time: a job in one of them sees what it would see in a new one."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.config import AgentConfig
from agents.host.landlock import Confinement
from agents.host.launch_names import CODE_PATH
from agents.host.process import HostProcesses
from agents.protocol.desired_state import AttemptWanted
from agents.supervisor.child import ChildPlan
from agents.supervisor.warm_child import WarmChild, may_take
from tests.support.agents.server import AgentServer, marked, wait_for, wanted, warm_pids, warm_ready

LOOK = """
import json, os, random, resource, signal, sys
was_there = "torch" in sys.modules
import torch
import helper
seen = {
    "argv": sys.argv,
    "name": __name__,
    "file": os.path.basename(__file__),
    "is_absolute": os.path.isabs(__file__),
    "path": os.path.basename(sys.path[0]),
    "main": sys.modules["__main__"].__dict__ is globals(),
    "cwd": os.path.basename(os.getcwd()),
    "helper": helper.ANSWER,
    "env": {name: os.environ[name] for name in ("FAVOURITE", "OMP_NUM_THREADS", "CLUSTERWEB_NUM_CPUS")},
    "foreign": sorted(name for name in os.environ if name.startswith("AGENT") or name == "PYTEST_CURRENT_TEST"),
    "stdin": sys.stdin.read(),
    "threads": torch.get_num_threads(),
    "cores": sorted(os.sched_getaffinity(0)),
    "file_limit": resource.getrlimit(resource.RLIMIT_FSIZE),
    "leads_session": os.getsid(0) == os.getpid(),
    "term": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "open": sorted(os.listdir("/proc/self/fd"))[:3],
}
print(json.dumps([was_there, random.random(), seen]), flush=True)
print("to errors", file=sys.stderr, flush=True)
sys.exit(int(sys.argv[1]))
"""
FILES = {"look.py": LOOK, "helper.py": "ANSWER = 42"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """An agent that keeps one process waiting."""
    made = AgentServer(tmp_path)
    made.config = replace(made.config, warm_processes=1)
    made.start()
    yield made
    made.end()


def look(code: int = 0, **changes: object) -> AttemptWanted:
    """Return an order for the script that looks around."""
    changes = {"files": FILES, "env": {"FAVOURITE": "tea"}, "memory_bytes": 2 * 1024**3, **changes}
    return wanted(("python", "look.py", str(code), "last word"), **changes)


def run(server: AgentServer, order: AttemptWanted) -> tuple[bool, float, dict[str, object]]:
    """Run an order to its end and return what it saw: whether torch was there, a random number, all else."""
    server.send(order)
    server.wait_phase(order, "ended", within_s=60)
    was_there, number, seen = json.loads(server.log(order).splitlines()[0])
    return was_there, number, seen


def test_job_sees_the_same_in_a_process_that_waited(server: AgentServer) -> None:
    """Arguments, directory, environment, input, cores, limits, session, main module: all as in a new process."""
    cold = look(env={"FAVOURITE": "tea", "PYTHONHASHSEED": "0"})  # read when a process starts, so it gets a new one
    was_there, cold_number, expected = run(server, cold)
    assert not was_there
    wait_for("a process that is ready", warm_ready, within_s=120)
    warm = look()
    was_there, warm_number, seen = run(server, warm)

    assert was_there
    assert seen == expected
    assert cold_number != warm_number
    assert "to errors" in server.log(warm)
    report = server.report(warm)
    assert report is not None
    assert (report.end_cause, report.exit_code) == ("completed", 0)


def test_exit_code_and_traceback_are_the_scripts_own(server: AgentServer) -> None:
    """A mistake is shown as Python shows it, without a line of ours, and ends with code 1; a missing file with 2."""
    wait_for("a process that is ready", warm_ready, within_s=120)
    broken = wanted(("python", "bad.py"), files={"bad.py": "def f():\n    raise ValueError('label 11')\nf()\n"})
    server.send(broken)
    first = server.wait_phase(broken, "ended", within_s=60)
    wait_for("the next process", warm_ready, within_s=120)
    missing = wanted(("python", "none.py"))
    server.send(missing)
    second = server.wait_phase(missing, "ended", within_s=60)

    assert first.exit_code == 1
    assert "ValueError: label 11" in server.log(broken)
    assert "agents/warm" not in server.log(broken)
    assert second.exit_code == 2
    assert "can't open file" in server.log(missing)


def test_job_in_a_process_that_waited_is_found_by_its_mark(server: AgentServer) -> None:
    """What its supervisor leaves behind when it is killed can be told from other processes."""
    wait_for("a process that is ready", warm_ready, within_s=120)
    order = wanted(("python", "long.py"), files={"long.py": "import time\ntime.sleep(600)"}, memory_bytes=2 * 1024**3)
    server.send(order)
    server.wait_phase(order, "running", within_s=60)

    wait_for("its mark", lambda: marked(order.attempt_id))
    assert HostProcesses().end_all(order.attempt_id) >= 1
    assert server.wait_phase(order, "ended").exit_signal == 9


def test_waiting_processes_go_with_their_agent(server: AgentServer) -> None:
    """Nothing is left when the agent stops."""
    wait_for("a process that waits", warm_pids, within_s=60)
    server.stop()

    wait_for("nobody", lambda: not warm_pids())


@pytest.mark.parametrize(
    ("command", "changes", "taken"),
    [
        (("python", "train.py"), {}, True),
        (("/venv/bin/python", "-m", "agents.workloads.lstm", "--steps", "3"), {}, True),
        (("python", "-u", "train.py"), {}, False),
        (("python", "-c", "print(1)"), {}, False),
        (("python", "-m"), {}, False),
        (("/usr/bin/python3.9", "train.py"), {}, False),
        (("bash", "train.py"), {}, False),
        (("python", "train.py"), {"uid": 50_001}, False),
        (("python", "train.py"), {"asked": {"OMP_PROC_BIND": "true"}}, False),
        (("python", "train.py"), {"asked": {"PYTHONOPTIMIZE": "1"}}, False),
    ],
)
def test_only_plain_python_of_the_same_user_takes_it(
    command: tuple[str, ...], changes: dict[str, object], taken: bool
) -> None:
    """Another interpreter, options, users or variables that are read at a start: a new process."""
    uid = changes.get("uid")
    asked = changes.get("asked", {})
    plan = ChildPlan(
        argv=command,
        env={},
        work_fd=0,
        output_fd=1,
        cpu_ids=(),
        largest_file_bytes=0,
        uid=uid if isinstance(uid, int) else None,
    )

    assert isinstance(asked, dict)
    assert may_take(plan, asked=asked, warm_uid=None, interpreter="/venv/bin/python") is taken


def test_agents_keep_none_unless_told() -> None:
    """Each takes memory, so an operator decides how many."""
    assert AgentConfig.__dataclass_fields__["warm_processes"].default == 0


THREADED = """
import sys, threading, time
for name in [name for name in sys.modules if name.partition(".")[0] == "agents"]:
    del sys.modules[name]
sys.path.insert(0, %r)
from agents.supervisor import warm
warm.IMPORTS = ()
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
warm.main(sys.argv[1:])
"""


def test_process_with_threads_becomes_no_confined_job_and_says_so(tmp_path: Path) -> None:
    """Only one of its threads would be confined. The supervisor tells the agent, which logs it."""
    package = tmp_path / "agents" / "supervisor"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "warm.py").write_text(THREADED % CODE_PATH)
    warm = WarmChild(interpreter=sys.executable, code_path=str(tmp_path), uid=None)
    work_fd, output_fd = os.open("/", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    plan = ChildPlan(
        argv=("python", "job.py"),
        env={},
        work_fd=work_fd,
        output_fd=output_fd,
        cpu_ids=(),
        largest_file_bytes=0,
        confinement=Confinement(listed=(), readable=("/",), writable=()),
    )
    try:
        assert warm.become(plan) is None
        assert warm.is_threaded
    finally:
        warm.end()
        os.close(work_fd)
        os.close(output_fd)
