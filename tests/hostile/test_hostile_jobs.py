"""What a job tries on its server, confined as in the product: each attempt is refused, and its lies are its own.

Files and other processes of the same user, beyond what ``tests/integration/agents/test_confinement.py`` tries.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agents.core.records import EXIT_STOPPED
from agents.host.landlock import SIGNALS_ABI, abi
from agents.protocol.server_report import AttemptReport
from tests.support.agents.odd_lines import odd_line
from tests.support.agents.server import AgentServer, script, wanted

confined = pytest.mark.skipif(abi() < SIGNALS_ABI, reason="CONFINEMENT IS NOT TESTED: this kernel has no Landlock")

# Each changes nothing where it succeeds, but what it says there.
TRYING = """
import ctypes, errno, json, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
places = %s
parent = os.getppid()
KEYCTL = 250 if os.uname().machine == "x86_64" else 219
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
def mount_over():
    call(libc.unshare(0x10000000 | 0x20000))
    call(libc.mount(b"none", b"/etc", b"tmpfs", 0, None))
def namespace_then_read():
    try:
        call(libc.unshare(0x10000000 | 0x20000))
    except OSError:
        pass
    open(places["key"]).read()
def read_memory():
    here = ctypes.create_string_buffer(8)
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    mine, theirs = Part(ctypes.addressof(here), 8), Part(4096, 8)
    call(libc.process_vm_readv(parent, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))
def take_descriptor():
    call(libc.syscall(438, os.pidfd_open(parent), 1, 0))
def open_for_writing(path, flags=0):
    return lambda: os.close(os.open(path, os.O_WRONLY | flags))
acts = {
    "hard link to a key": lambda: os.link(places["key"], "mine"),
    "move another job's file": lambda: os.rename(places["other"], "mine"),
    "delete another job's file": lambda: os.unlink(places["other"]),
    "key through the root of a process": lambda: open("/proc/self/root" + places["key"]).read(),
    "key through the root of the supervisor": lambda: open(f"/proc/{parent}/root{places['key']}").read(),
    "folder of the supervisor": lambda: os.listdir(f"/proc/{parent}/cwd"),
    "key in a user namespace": namespace_then_read,
    "mount in a user namespace": mount_over,
    "trace the supervisor": lambda: call(libc.ptrace(16, parent, 0, 0)),
    "read memory of the supervisor": read_memory,
    "take a descriptor of the supervisor": take_descriptor,
    "stop the supervisor": lambda: os.kill(parent, signal.SIGSTOP),
    "keys in the kernel": lambda: call(libc.syscall(KEYCTL, 0, -3, 0)),
    "a key into the kernel": lambda: call(libc.syscall(KEYCTL - 2, b"user", b"one", b"x", 1, -3)),
    "change our runtime": open_for_writing(places["runtime"], os.O_APPEND),
    "change the agent's Python": open_for_writing(places["python"] + "/x.pth", os.O_CREAT),
    "settings of the kernel": open_for_writing("/proc/sys/kernel/core_pattern"),
    "raw device": lambda: os.mknod("disk", 0o60600, os.makedev(8, 0)),
    "raw packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "another root": lambda: os.chroot("."),
    "a job of cron": open_for_writing("/etc/cron.d/clusterweb-hostile", os.O_CREAT),
    "preload a library": open_for_writing("/etc/ld.so.preload", os.O_CREAT | os.O_APPEND),
}
answers = {}
for name, act in acts.items():
    child = os.fork()
    if child == 0:
        try:
            act()
            answer = "done"
        except OSError as error:
            answer = errno.errorcode[error.errno]
        with open("answer", "w") as file:
            file.write(answer)
        os._exit(0)
    os.waitpid(child, 0)
    answers[name] = open("answer").read()
status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in open("/proc/self/status")}
fds = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
links = {os.readlink(fd) for fd in fds if os.path.lexists(fd)}
print(json.dumps({"answers": answers, "environment": dict(os.environ), "no new rights": status["NoNewPrivs"],
                  "rights": status["CapEff"], "open": sorted(links)}))
"""
ACTS = (
    *("hard link to a key", "move another job's file", "delete another job's file"),
    *("key through the root of a process", "key through the root of the supervisor", "folder of the supervisor"),
    *("key in a user namespace", "mount in a user namespace", "trace the supervisor", "read memory of the supervisor"),
    *("keys in the kernel", "a key into the kernel"),
    *("take a descriptor of the supervisor", "stop the supervisor", "change our runtime", "change the agent's Python"),
    *("settings of the kernel", "raw device", "raw packets", "another root", "a job of cron", "preload a library"),
)
REFUSED = {"EACCES", "EPERM", "EXDEV", "EROFS"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, processes: None) -> Iterator[AgentServer]:
    """A server whose jobs run confined, as the agent's own user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.loop.trial", lambda *_, **__: "not tried")
        made = AgentServer(tmp_path_factory.mktemp("hostile"))
        made.config = replace(made.config, confines=True)
        made.start()
        yield made
        made.end()


@pytest.fixture(scope="module")
def found(server: AgentServer) -> dict[str, Any]:
    """What a job found that tried everything once."""
    other = wanted(script("open('secret', 'w').write('of another job')"))
    server.send(other)
    server.wait_phase(other, "ended")
    key = server.config.state_dir / "key"
    key.write_text("of the agent")
    runtime = Path(__file__).parents[2] / "agents" / "runtime" / "run.py"
    places = {
        "key": str(key),
        "other": str(server.job_dir(other) / "secret"),
        "runtime": str(runtime),
        "python": str(Path(pytest.__file__).parents[1]),
    }
    job = wanted(script(TRYING % json.dumps(places)))
    server.send(other, job)
    report = server.wait_phase(job, "ended")
    assert report.end_cause == "completed", (report, server.log(job))
    told: dict[str, Any] = json.loads(server.log(job).splitlines()[-1])
    told["directory"] = str(server.directory(job))
    return told


@confined
@pytest.mark.parametrize("act", ACTS)
def test_job_is_refused(found: dict[str, Any], act: str) -> None:
    """The kernel says no."""
    assert found["answers"][act] in REFUSED


@confined
def test_all_that_is_tried_is_looked_at(found: dict[str, Any]) -> None:
    """Nothing succeeds unseen."""
    assert set(found["answers"]) == set(ACTS)


@confined
def test_job_gains_no_rights_by_programs(found: dict[str, Any]) -> None:
    """``su`` and the like stay what the job is, and a job of root has none of root's powers."""
    assert (found["no new rights"], int(found["rights"], 16)) == ("1", 0)


@confined
def test_job_inherits_nothing_of_the_agent(found: dict[str, Any], server: AgentServer) -> None:
    """No key and no broker in its environment; no open file but its own."""
    words = " ".join([*found["environment"], *found["environment"].values()])
    strange = [
        path
        for path in found["open"]
        if not path.startswith((found["directory"], "/dev/null", "pipe:", "/proc/", "anon_inode:"))
    ]

    assert server.config.key.hex() not in words
    assert "redis" not in words.lower()
    assert strange == []


LYING = """
import json, os, sys
open(os.environ["CLUSTERWEB_CHECKPOINT_DIR"] + "/step-7.pt", "w").write("weights")
with open(os.environ["CLUSTERWEB_REPORT_FILE"], "ab", buffering=0) as file:
    for line in json.load(open("lines.json")):
        file.write(line.encode("latin-1") + b"\\n")
sys.exit(%d)
"""


def lies(server: AgentServer, lines: list[bytes], *, exit_code: int) -> AttemptReport:
    """Let a job write these lines where its reports are expected; return the last report about it."""
    text = json.dumps([line.decode("latin-1") for line in lines])
    job = wanted(script(LYING % exit_code), files={"lines.json": text})
    server.send(job)
    return server.wait_phase(job, "ended")


def test_job_is_not_completed_because_it_says_so(server: AgentServer) -> None:
    """The exit code counts."""
    report = lies(server, [b'{"event":"started","step":0}', b'{"event":"completed","step":9}'], exit_code=3)

    assert (report.end_cause, report.exit_code) == ("exit_code", 3)


def test_job_is_not_preempted_because_it_says_so(server: AgentServer) -> None:
    """It would start again for nothing, for ever; only an end that was asked for is free."""
    lines = [b'{"event":"started","step":0}', b'{"event":"parked","request":1}', b'{"event":"stopped","step":9}']
    report = lies(server, lines, exit_code=EXIT_STOPPED)

    assert (report.end_cause, report.exit_code) == ("exit_code", EXIT_STOPPED)


def test_checkpoint_is_a_name_and_no_path(server: AgentServer) -> None:
    """The next attempt would read it, perhaps as another user."""
    lines = [
        b'{"event":"checkpoint","name":"step-7.pt","step":7}',
        *(
            json.dumps({"event": "checkpoint", "name": name, "step": 9}).encode()
            for name in ("../../state.json", "/etc/passwd", "..", "a/b", "a\x00b", "")
        ),
    ]

    assert lies(server, lines, exit_code=0).checkpoint_name == "step-7.pt"


def test_measurement_that_nobody_asked_for_is_left_out(server: AgentServer) -> None:
    """It would become the profile of every job like it."""
    line = b'{"event":"measured","measured":{"rates":[[1,1.0],[2,9.0]],"free_cores":2,"took_s":1.0}}'

    assert lies(server, [line], exit_code=0).measured is None


def test_odd_lines_end_neither_supervisor_nor_agent(server: AgentServer) -> None:
    """Thousands of them; the job ends as its exit code says."""
    rng = Random(20)
    odd = [line for line in (odd_line(rng) for _ in range(3_000)) if len(line) < 10_000]

    assert lies(server, odd, exit_code=0).end_cause == "completed"
