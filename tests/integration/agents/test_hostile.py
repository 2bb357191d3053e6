"""Jobs that misbehave, as real processes: they end with the right cause, leave nothing behind, and the agent lives."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agents.host.cgroup import groups_of_host
from agents.host.identity import send_signal
from agents.protocol.desired_state import AttemptWanted
from tests.support.agents.server import AgentServer, marked, script, wait_for, wanted

MIB = 1024**2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind.

    As on a kernel that cannot confine jobs: where it can, most of what they try here is refused.
    """
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def kept_bytes(server: AgentServer, order: AttemptWanted) -> int:
    """Return how much log lies on the disk; a segment may go away while they are counted."""
    kept = 0
    for path in server.directory(order).glob("log.*"):
        with suppress(FileNotFoundError):
            kept += path.stat().st_size
    return kept


def assert_flood_is_contained(server: AgentServer, num_mib: int, *, within_s: float) -> None:
    """Let a job write a lot; neither job, supervisor nor disk suffers."""
    text = (
        f"import os\nblock=(b'x'*1023+b'\\n')*1024\nfor _ in range({num_mib}): os.write(1,block)\n"
        "os.write(1,b'the end')"
    )
    order = wanted(script(text), log_bytes=32 * MIB, disk_bytes=0)
    server.send(order)
    server.wait_phase(order, "running", "ended")
    supervisor = psutil.Process(server.supervisor(order).pid)
    largest = most_kept = 0
    while (report := server.report(order)) is None or report.phase != "ended":
        most_kept = max(most_kept, kept_bytes(server, order))
        with suppress(psutil.NoSuchProcess):  # it may be gone before its last report is there
            if supervisor.is_running() and supervisor.status() != psutil.STATUS_ZOMBIE:
                largest = max(largest, supervisor.memory_info().rss)
        assert report is None or report.run_s < within_s
        time.sleep(0.02)
    state = server.state(order)

    assert report.end_cause == "completed"
    assert state is not None
    assert most_kept <= 32 * MIB + MIB
    assert largest < 64 * MIB
    assert report.log_bytes + state.dropped_log_bytes >= num_mib * MIB
    assert server.log(order).endswith("the end")


def test_flood_of_output_is_contained(server: AgentServer) -> None:
    """200 MB: the job is not held up, memory and disk stay small, the newest output is kept."""
    assert_flood_is_contained(server, 200, within_s=60)


def test_flood_of_a_gigabyte_is_contained(server: AgentServer) -> None:
    """1 GB: the same."""
    assert_flood_is_contained(server, 1024, within_s=120)


def test_segments_are_contiguous_and_named_by_offset(server: AgentServer) -> None:
    """Whoever reads the log can find any offset that is kept."""
    text = "import os\nfor n in range(40000): os.write(1,b'%049d\\n'%n)"
    order = wanted(script(text), log_bytes=512 * 1024)
    server.send(order)
    report = server.wait_phase(order, "ended")
    segments = sorted(server.directory(order).glob("log.*"))
    ends = [int(path.name[4:]) + path.stat().st_size for path in segments]

    assert report.log_bytes == 2_000_000
    assert int(segments[0].name[4:]) > 0
    assert ends[:-1] == [int(path.name[4:]) for path in segments[1:]]
    assert ends[-1] == 2_000_000
    assert server.log(order).endswith(f"{39999:049d}\n")


def test_job_that_ignores_term_is_killed_after_its_grace(server: AgentServer) -> None:
    """Cancel wins in the end."""
    order = wanted(
        script("import signal,time;signal.signal(15,signal.SIG_IGN);print('deaf');time.sleep(600)"), grace_s=0.5
    )
    server.send(order)
    wait_for("deaf", lambda: "deaf" in server.log(order))
    server.send(replace(order, wanted="cancel"))
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_signal) == ("cancelled", 9)
    assert server.processes() == []


def test_memory_hog_is_killed_with_numbers(server: AgentServer) -> None:
    """The grant covers the whole tree, here a child of the job."""
    hog = "import time\nheld=[]\nwhile True: held.append(bytearray(b'x'*8*1024*1024)); time.sleep(0.05)"
    text = f"import subprocess,sys;subprocess.run([sys.executable,'-S','-c',{hog!r}])"
    order = wanted(script(text), memory_bytes=100 * MIB)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "out_of_memory"
    assert "of 100 MiB granted" in report.end_detail
    assert report.peak_memory_bytes is not None
    assert report.peak_memory_bytes > 100 * MIB
    assert server.processes() == []


def test_forked_children_that_share_memory_are_counted_once(server: AgentServer) -> None:
    """Data loaders share their parent's pages; a job within its grant is not killed for it."""
    text = (
        "import os,time\nheld=bytearray(b'x'*40*1024*1024)\n"
        "for _ in range(6):\n  if os.fork()==0: time.sleep(2.5); os._exit(0)\ntime.sleep(2.5)"
    )
    order = wanted(script(text), memory_bytes=160 * MIB)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"
    assert report.peak_memory_bytes is not None
    assert 40 * MIB < report.peak_memory_bytes < 160 * MIB


def test_disk_hog_is_killed_with_numbers(server: AgentServer) -> None:
    """Many files that are too much together."""
    text = "import time\nfor n in range(1000): open(f'f{n}','wb').write(b'x'*1024*1024); time.sleep(0.02)"
    order = wanted(script(text), disk_bytes=20 * MIB)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "out_of_disk"
    assert "of 20 MiB granted" in report.end_detail


def test_daemon_dies_with_its_job(server: AgentServer) -> None:
    """Two forks and a session of its own do not escape the supervisor."""
    text = (
        "import os,time\n"
        "if os.fork()==0:\n  os.setsid()\n"
        "  if os.fork()==0:\n    open('daemon','w').write('x'); time.sleep(600)\n  os._exit(0)\n"
        "while not os.path.exists('daemon'): time.sleep(0.01)\n"
    )
    order = wanted(script(text))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"
    assert (server.job_dir(order) / "daemon").exists()
    assert marked(order.attempt_id) == []


def test_daemon_that_hides_its_environment_dies_with_its_job(server: AgentServer) -> None:
    """The tree is known by parentage, not by the mark."""
    hidden = "import os,time;open('pid','w').write(str(os.getpid()));time.sleep(600)"
    text = (
        "import os,sys,time\n"
        f"if os.fork()==0:\n  os.setsid(); os.execve(sys.executable,[sys.executable,'-S','-c',{hidden!r}],{{}})\n"
        "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n"
    )
    order = wanted(script(text))
    server.send(order)
    server.wait_phase(order, "ended")
    pid = int((server.job_dir(order) / "pid").read_text())

    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(not groups_of_host()[0], reason="no control group is delegated to the tests")
def test_daemon_that_hides_dies_even_when_its_supervisor_was_killed(server: AgentServer) -> None:
    """It has neither the mark nor a parent that is watched, but it is in the group of its attempt."""
    hidden = "import os,time;open('pid','w').write(str(os.getpid()));time.sleep(600)"
    text = (
        "import os,sys,time\n"
        f"if os.fork()==0:\n  os.setsid(); os.execve(sys.executable,[sys.executable,'-S','-c',{hidden!r}],{{}})\n"
        "time.sleep(600)\n"
    )
    order = wanted(script(text))
    server.send(order)
    path = server.job_dir(order) / "pid"
    pid = int(str(wait_for("the daemon", lambda: path.exists() and path.read_text())))
    assert str(pid) in Path(groups_of_host()[0], order.attempt_id, "cgroup.procs").read_text().split()

    send_signal(server.supervisor(order), signal.SIGKILL)
    server.wait_phase(order, "ended")

    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not Path(groups_of_host()[0], order.attempt_id).exists()


@pytest.mark.parametrize("what", ["CLUSTERWEB_JOB_DIR", "CLUSTERWEB_REPORT_FILE"], ids=["job", "attempt"])
def test_job_that_deletes_its_directory_still_ends(server: AgentServer, what: str) -> None:
    """All of its job, or everything of the attempt: the end is told and the newest log is kept."""
    text = (
        f"import os,shutil,time\nwhat=os.path.dirname(os.environ[{what!r}])\nfor _ in range(1000):\n"
        "  try:\n    shutil.rmtree(what)\n    break\n"
        "  except OSError: pass\n"  # the supervisor has just written a file there
        "time.sleep(1.5)\nprint('the directory is gone')"
    )
    order = wanted(script(text))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"
    assert "the directory is gone" in server.log(order)


def test_job_that_puts_directories_in_the_way_still_ends(server: AgentServer) -> None:
    """A directory where the state file should be does not stop the supervisor."""
    text = (
        "import os,time;d=os.path.dirname(os.environ['CLUSTERWEB_REPORT_FILE']);time.sleep(0.5)\n"
        "for n in ('state.json','request.json','control.json'):\n"
        "  if os.path.exists(d+'/'+n): os.unlink(d+'/'+n)\n  os.mkdir(d+'/'+n)\n"
    )
    order = wanted(script(text))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"


def test_fifo_and_links_for_reports_are_not_followed(server: AgentServer) -> None:
    """Nothing hangs on what a job puts in place of its report file."""
    text = (
        "import os,time;f=os.environ['CLUSTERWEB_REPORT_FILE'];os.unlink(f);os.mkfifo(f);time.sleep(0.5)\n"
        "os.unlink(f);os.symlink('/etc/passwd',f);time.sleep(0.5)"
    )
    order = wanted(script(text))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"


@pytest.mark.parametrize(
    ("command", "cause", "detail"),
    [
        (("pyhton", "train.py"), "command_not_found", "pyhton: No such file"),
        (("/etc/passwd",), "command_not_found", "/etc/passwd: Permission denied"),
        (("/",), "command_not_found", "/: Permission denied"),
        (("",), "command_not_found", "empty"),
        ((), "command_not_found", "empty"),
        (("true", "x" * 300_000), "launch_failed", "Argument list too long"),
    ],
)
def test_command_that_cannot_be_started_says_why(
    server: AgentServer, command: tuple[str, ...], cause: str, detail: str
) -> None:
    """The end names the command and the reason."""
    order = wanted(command)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == cause
    assert detail in report.end_detail


def test_environment_that_no_process_can_have_is_a_failed_launch(server: AgentServer) -> None:
    """It is said, and the supervisor ends."""
    order = wanted(("true",), env={"A=B": "c"})
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "launch_failed"


def test_flood_of_reports_neither_blocks_nor_fills(server: AgentServer) -> None:
    """Millions of lines, and lines without end: the newest counts."""
    text = (
        "import os\nf=open(os.environ['CLUSTERWEB_REPORT_FILE'],'ab')\n"
        "f.write(b'x'*30_000_000+b'\\n')\n"
        'for _ in range(50): f.write(b\'{"event":"progress","step":1}\\n\'*10_000)\n'
        'f.write(b\'{"event":"progress","step":7,"loss":0.25}\\n\')\n'
    )
    order = wanted(script(text))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.step, report.loss) == ("completed", 7, 0.25)


def test_job_killed_by_a_stranger_says_which_signal(server: AgentServer) -> None:
    """A signal that we did not send is named."""
    order = wanted(script("import os;os.kill(os.getpid(),11)"))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_signal) == ("signal", 11)
    assert "SIGSEGV" in report.end_detail


def test_file_larger_than_the_disk_grant_is_refused_to_the_job(server: AgentServer) -> None:
    """One write cannot go past the grant between two looks."""
    order = wanted(script(f"open('f','wb').write(b'x'*{40 * MIB})"), disk_bytes=20 * MIB)
    server.send(order)
    server.wait_phase(order, "ended")

    assert (server.job_dir(order) / "f").stat().st_size <= 20 * MIB
    assert os.path.exists(server.directory(order))


LIES = """
import os
with open(os.environ["CLUSTERWEB_REPORT_FILE"], "a") as file:
    for step in (1, 2**61, 2**61 + 1, 2):
        file.write('{"event": "progress", "step": %d, "loss": 1.0}\\n' % step)
print("done", flush=True)
"""


def test_owner_is_told_of_a_report_that_cannot_be_used(server: AgentServer) -> None:
    """Once, in the log, with the line; the reports beside it count."""
    job = wanted(script(LIES))
    server.send(job)
    report = server.wait_phase(job, "ended")

    # The line may begin behind a word of the job whose end of line comes later.
    said = [line[line.index("[clusterweb") :] for line in server.log(job).splitlines() if "cannot be used" in line]
    assert report.step == 2
    assert said == [
        "[clusterweb: a report cannot be used and is left out, as are others like it: "
        f'{{"event": "progress", "step": {2**61}, "loss": 1.0}}]'
    ]
