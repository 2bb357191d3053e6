"""What a job can reach that runs as the agent's own user: its own files, and nothing that belongs to others."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from errno import EACCES
from functools import partial
from pathlib import Path

import pytest

from agents.files.cache_owners import sweep_apart
from agents.host.job_paths import JOB_PATHS, confine_to, confinement_of, job_paths
from agents.host.job_users import FIRST_UID
from agents.host.landlock import SIGNALS_ABI, Confinement, abi, confine
from tests.support.agents.server import AgentServer, script, wanted

pytestmark = pytest.mark.skipif(abi() < SIGNALS_ABI, reason="CONFINEMENT IS NOT TESTED: this kernel has no Landlock")


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """A folder that an admin opened for jobs to read, with one that they may write."""
    (tmp_path / "data" / "results").mkdir(parents=True)
    (tmp_path / "data" / "set.txt").write_text("a dataset")
    return tmp_path / "data"


@pytest.fixture
def server(tmp_path: Path, opened: Path) -> Iterator[AgentServer]:
    """A server whose jobs run as the agent's own user."""
    made = AgentServer(tmp_path)
    made.config = replace(
        made.config,
        confines=True,
        readable_dirs=(str(opened),),
        writable_dirs=(str(opened / "results"),),
        warm_processes=1,
    )
    made.start()
    yield made
    made.end()


TRYING = """
import json, os, resource, signal, socket, subprocess, sys, tempfile
def trying(act):
    try:
        act()
        return "done"
    except OSError as error:
        return type(error).__name__
here = os.path.dirname(os.environ["CLUSTERWEB_REPORT_FILE"])
jobs = os.path.dirname(os.path.dirname(os.getcwd()))
parent = os.getppid()
places = %s
answers = {
    "own launch": trying(lambda: open(here + "/launch.json").read()),
    "own limits": trying(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))),
    "own work": trying(lambda: open("mine", "w").write("")),
    "own home": trying(lambda: open(os.environ["HOME"] + "/.rc", "w").write("")),
    "own scratch": trying(lambda: open(os.environ["CLUSTERWEB_SCRATCH_DIR"] + "/s", "w").write("")),
    "own checkpoints": trying(lambda: open(here + "/checkpoints/c", "w").write("")),
    "own report": trying(lambda: open(here + "/reports.jsonl", "a").write("")),
    "temporary": trying(lambda: tempfile.TemporaryFile()),
    "process": trying(lambda: subprocess.run(["/bin/true"], check=True)),
    "shared memory": trying(lambda: tempfile.NamedTemporaryFile(dir="/dev/shm")),
    "dataset": trying(lambda: open(places["dataset"]).read()),
    "results": trying(lambda: open(places["results"] + "/r", "w").write("")),
    "forge state": trying(lambda: open(here + "/state.json", "w").write("{}")),
    "forge control": trying(lambda: open(here + "/control.json", "w").write("{}")),
    "change dataset": trying(lambda: open(places["dataset"], "a").write("")),
    "agent's state": trying(lambda: os.listdir(places["state"])),
    "other attempt": trying(lambda: open(places["other"]).read()),
    "other jobs": trying(lambda: os.listdir(jobs)),
    "beside its directory": trying(lambda: open(os.path.dirname(os.getcwd()) + "/laid.json", "w").write("{}")),
    "its directory itself": trying(lambda: os.rename(os.getcwd(), os.getcwd() + "-moved")),
    "other attempts": trying(lambda: os.listdir(os.path.dirname(here))),
    "configuration": trying(lambda: open(places["code"] + "/Makefile").read()),
    "home": trying(lambda: os.listdir(os.path.expanduser("~root"))),
    "terminal": trying(lambda: os.listdir("/dev/pts")),
    "passwords": trying(lambda: open("/etc/shadow").read()),
    "kill supervisor": trying(lambda: os.kill(parent, signal.SIGKILL)),
    "kill another": trying(lambda: os.kill(places["pid"], 0)),
    "limits of another": trying(lambda: resource.prlimit(places["pid"], resource.RLIMIT_NOFILE)),
    "environment of supervisor": trying(lambda: open(f"/proc/{parent}/environ", "rb").read()),
    "memory of supervisor": trying(lambda: open(f"/proc/{parent}/mem", "rb").read(1)),
    "descriptors of another": trying(lambda: os.readlink(f"/proc/{places['pid']}/fd/1")),
    "temporary files of others": trying(lambda: open("/tmp/clusterweb-confined", "w")),
}
print(json.dumps(answers))
"""
MAY = {
    *("own launch", "own work", "own checkpoints", "own report", "temporary", "process", "shared memory"),
    *("dataset", "results", "own limits", "own home", "own scratch"),
}


@pytest.mark.parametrize("way", ["anew", "in a warm process"])
def test_job_reaches_its_own_files_and_no_others(server: AgentServer, opened: Path, way: str) -> None:
    """The same for a process that was started ahead of time, and for one that the agent starts anew."""
    other = wanted(script("open('secret', 'w').write('of another job')"))
    server.send(other)
    server.wait_phase(other, "ended")
    places = {
        "dataset": str(opened / "set.txt"),
        "results": str(opened / "results"),
        "state": str(server.config.state_dir),
        "other": str(server.job_dir(other) / "secret"),
        "code": str(Path(__file__).parents[3]),
        "pid": os.getpid(),
    }
    text = TRYING % json.dumps(places)
    command = script(text) if way == "anew" else (sys.executable, "hostile.py")
    job = wanted(command, files={"hostile.py": text})
    server.send(other, job)
    report = server.wait_phase(job, "ended")

    assert report.end_cause == "completed", (report, server.log(job))
    found = json.loads(server.log(job).splitlines()[-1])
    assert {name for name, answer in found.items() if answer == "done"} == MAY
    assert {answer for name, answer in found.items() if name not in MAY} == {"PermissionError"}
    assert (opened / "results" / "r").exists()


def test_report_names_the_level(server: AgentServer) -> None:
    """The page of the server says what a job gets."""
    job = wanted(script("pass"))
    server.send(job)
    server.wait_phase(job, "ended")

    assert "landlock" in server.mail.newest[1].isolation.split("+")


def apart(act: Callable[[], object]) -> str:
    """Return what became of it in a child process: "done", or the name of the error."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            act()
            answer = "done"
        except Exception as error:
            answer = type(error).__name__
        os.write(writable, answer.encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(pid, 0)
    with open(readable, "rb") as file:
        return file.read().decode()


@pytest.mark.parametrize("is_open", [True, False])
def test_environment_that_a_spec_names_is_read_where_an_admin_opened_its_folder(
    server: AgentServer, tmp_path: Path, opened: Path, is_open: bool
) -> None:
    """Else a member would open any folder that has a ``bin/python``, or a link of the job's own to one."""
    folder = (opened if is_open else tmp_path) / "venv"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("")
    (folder / "secret").write_text("of others")
    order = wanted(("/bin/cat", str(folder / "secret")), venv=str(folder))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause == "completed") is is_open
    assert ("of others" in server.log(order)) is is_open


def test_link_that_a_job_planted_opens_nothing(tmp_path: Path) -> None:
    """The dataset cache lies where every job may write; a link in its place would lead to the agent's key."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "key").write_text("secret")
    (tmp_path / "cache").symlink_to(tmp_path / "state")
    (tmp_path / "own").mkdir()

    def read() -> None:
        confine(Confinement(listed=(), readable=(), writable=(str(tmp_path / "cache"), str(tmp_path / "own"))))
        (tmp_path / "own" / "note").write_text("")
        (tmp_path / "state" / "key").read_text()

    assert apart(read) == "PermissionError"
    assert (tmp_path / "own" / "note").exists()


DATASET = """
import json, os
folders = [os.environ["CLUSTERWEB_CACHE_DIR"], os.environ["CLUSTERWEB_DATASETS_DIR"]]
for folder in folders:
    os.makedirs(folder + "/photos", exist_ok=True)
    open(folder + "/photos/" + os.environ["CLUSTERWEB_ATTEMPT_ID"], "w").write("true")
print(json.dumps([sorted(os.listdir(folder + "/photos")) for folder in folders] + folders))
"""
SPOILING = """
import json, os
def trying(act):
    try:
        act()
        return "done"
    except OSError as error:
        return type(error).__name__
answers = []
for folder in %r:
    name = folder + "/photos/" + %r
    for act in (lambda: os.listdir(folder), lambda: open(name).read(), lambda: open(name, "w").write("false"),
                lambda: open(folder + "/photos/bad.jsonl", "a").write("{}"), lambda: os.unlink(name)):
        answers.append(trying(act))
print(json.dumps(answers))
"""


def test_cached_datasets_are_shared_within_a_queue_and_closed_to_others(server: AgentServer) -> None:
    """Items and notes that a job of another queue could rewrite would train a model on what is not true."""
    first, second = (wanted(script(DATASET), queue_id=7) for _ in range(2))
    found = []
    for order in (first, second):
        server.send(order)
        server.wait_phase(order, "ended")
        found.append(json.loads(server.log(order)))
    items, notes, *folders = found[1]
    stranger = wanted(script(SPOILING % (folders, first.attempt_id)), queue_id=8)
    server.send(stranger)
    server.wait_phase(stranger, "ended")

    assert first.attempt_id in items
    assert notes == sorted([first.attempt_id, second.attempt_id])
    assert json.loads(server.log(stranger)) == ["PermissionError"] * 10


def test_sweeper_of_the_cache_deletes_nothing_behind_a_link(tmp_path: Path) -> None:
    """Unpaid items are deleted; the folder of items may be a link to the checkpoints of another job."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "checkpoint").write_text("weights")
    dataset = tmp_path / "cache" / "dataset"
    (dataset / "owners" / "gone").mkdir(parents=True)
    (dataset / "owners" / "gone" / ".alive").write_text("")
    (dataset / "items").symlink_to(tmp_path / "victim")
    sweep_apart(tmp_path / "cache", confine=partial(confine_to, {JOB_PATHS: "{}"}, str(tmp_path / "cache")))

    assert (tmp_path / "victim" / "checkpoint").exists()


def test_closed_folder_stays_closed_in_what_is_open(tmp_path: Path) -> None:
    """Below a folder that is read or written, and behind a link beside it."""
    for name in ("data/set", "data/cluster/state", "results/cluster"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to(tmp_path / "data" / "cluster")
    told = job_paths(
        readable=[tmp_path / "data"],
        writable=[tmp_path / "results"],
        closed=[tmp_path / "data" / "cluster" / "state", tmp_path / "results" / "cluster"],
    )
    allowed = confinement_of(told, own=(), read=(), uid=None)
    assert allowed is not None

    inside = [path for path in (*allowed.readable, *allowed.writable) if path.startswith(str(tmp_path))]
    assert inside == [str(tmp_path / "data" / "set")]


@pytest.mark.skipif(os.geteuid() != 0, reason="WHAT ROOT ALONE MAY READ IS NOT TESTED: only root may")
def test_job_of_root_reads_of_the_configuration_what_all_may(tmp_path: Path) -> None:
    """Passwords and keys of the machine are root's own files."""
    allowed = confinement_of(job_paths(readable=(), writable=(), closed=()), own=(), read=(), uid=None)
    assert allowed is not None

    def read(path: str) -> None:
        confine(allowed)
        Path(path).read_bytes()

    assert apart(partial(read, "/etc/passwd")) == "done"
    assert {apart(partial(read, f"/etc/{name}")) for name in ("shadow", "gshadow")} == {"PermissionError"}


@pytest.mark.parametrize(("has_gpus", "named"), [(True, "done"), (False, "PermissionError")])
def test_threads_can_be_named_where_cuda_has_to(monkeypatch: pytest.MonkeyPatch, has_gpus: bool, named: str) -> None:
    """Also by what the job starts. Memory of other processes of its user stays closed, and so does the kernel's."""
    uid = None if os.geteuid() != 0 else FIRST_UID
    allowed = confinement_with(monkeypatch, has_gpus=has_gpus, uid=uid)

    def become() -> None:
        if uid is not None:
            os.setresuid(uid, uid, uid)

    def write(path: Callable[[], str]) -> None:
        become()
        other = os.getpid()  # of the same user, and not confined
        confined = apart(lambda: confined_write(path, other))
        assert confined == "done", confined

    def confined_write(path: Callable[[], str], other: int) -> None:
        confine(allowed)
        told = apart(lambda: overwrite(path().format(other=other)))  # as a program does that the job starts
        if told != "done":
            raise OSError(EACCES, told)

    def answer(path: Callable[[], str]) -> str:
        return "done" if apart(partial(write, path)) == "done" else "PermissionError"

    assert answer(lambda: f"/proc/{os.getpid()}/task/{os.getpid()}/comm") == named
    assert answer(lambda: "/proc/{other}/mem") == "PermissionError"
    assert answer(lambda: "/proc/sys/kernel/core_pattern") == "PermissionError"


@pytest.mark.skipif(os.geteuid() != 0, reason="WHAT ROOT MAY WRITE IS NOT TESTED: only root may")
def test_job_of_root_writes_nothing_in_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """It owns ``/proc/sys``: a name in ``core_pattern`` is run by the kernel."""
    allowed = confinement_with(monkeypatch, has_gpus=True, uid=None)

    def write(path: str) -> None:
        confine(allowed)
        overwrite(path)

    assert {apart(partial(write, f"/proc/{name}")) for name in ("self/comm", "sys/kernel/core_pattern")} == {
        "PermissionError"
    }


def confinement_with(monkeypatch: pytest.MonkeyPatch, *, has_gpus: bool, uid: int | None) -> Confinement:
    """Return what a job may use on a server with NVIDIA devices, or without."""
    monkeypatch.setattr("glob.glob", lambda pattern: ["/dev/nvidia0"] * has_gpus)
    allowed = confinement_of(job_paths(readable=(), writable=(), closed=()), own=(), read=(), uid=uid)
    assert allowed is not None
    return allowed


def overwrite(path: str) -> None:
    """Open a file that is there to write it anew."""
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
