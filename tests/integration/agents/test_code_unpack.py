"""The folder of a job is there, whole, before its first process starts, whatever is killed on the way."""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.files.code_unpack import UnpackFailed
from agents.files.job_dir import LAID_FILE
from agents.files.job_hold import Hold
from agents.supervisor.unpacking import folder_lay_out
from tests.support.agents.code import blob_of, store_put
from tests.support.agents.server import AgentServer, attempt_id, script, wait_for, wanted

FILES = {
    "train.py": b"import json, pkg.model\nprint(len(open('data/train.bin', 'rb').read()), pkg.model.SIZE)\n",
    "pkg/model.py": b"SIZE = 7\n",
    "pkg/__init__.py": b"",
    "pkg-extra/a/b/c.txt": b"deep",
    "data/train.bin": bytes(5_000_000),
    "run.sh": b"#!/bin/sh\nexec python train.py\n",
}
fork = multiprocessing.get_context("fork")


class Place:
    """A shared directory with a folder in its store, and the directory of one job."""

    def __init__(self, path: Path) -> None:
        self.shared = path / "shared"
        self.digest = store_put(self.shared, FILES, executable="run.sh")
        self.job = attempt_id()
        self.around = self.shared / "jobs" / self.job
        self.root = self.around / "dir"
        self.said: list[str] = []

    def unpack(self, number: int = 1, uid: int | None = None) -> None:
        """Lay it out for an attempt."""
        order = wanted((), job_id=self.job, code=self.digest)
        folder_lay_out(str(self.shared), order, Hold(1, number), uid=uid, says=self.said.append)

    def found(self) -> dict[str, bytes]:
        """Return the files of the job."""
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """One job whose folder was sent."""
    return Place(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_folder_belongs_to_the_user_of_the_job(place: Place) -> None:
    """All of it, and of what lies beside it HOME alone: the marks and the lock stay ours."""
    place.unpack(uid=50_123)
    root, home = place.root, place.around / "home"

    assert {path.lstat().st_uid for path in [home, root, *root.rglob("*")]} == {50_123}
    assert {path.lstat().st_uid for path in place.around.iterdir() if path not in (root, home)} == {0}


def hold_back(place: Place, content: bytes) -> Path:
    """Make reading a content wait; return where it is."""
    blob = blob_of(place.shared, content)
    blob.unlink()
    os.mkfifo(blob)
    return blob


def test_files_are_as_they_were_sent(place: Place) -> None:
    """Content, mode, folders."""
    place.unpack()

    assert place.found() == FILES
    assert os.access(place.root / "run.sh", os.X_OK)
    assert not os.access(place.root / "train.py", os.X_OK)
    assert place.said == ["unpacking 6 files, 4.8 MiB"]


def test_second_start_finds_what_the_job_made_of_it(place: Place) -> None:
    """Unpacked once for each job: what it changed, added and removed stays so."""
    place.unpack()
    (place.root / "train.py").write_text("changed")
    (place.root / "data/train.bin").unlink()
    (place.root / "out").write_text("kept")
    place.unpack(number=2)

    assert place.found()["train.py"] == b"changed"
    assert place.found()["out"] == b"kept"
    assert "data/train.bin" not in place.found()
    assert len(place.said) == 1


def test_kill_while_unpacking_leaves_nothing_half_used(place: Place) -> None:
    """kill -9 in the middle: no directory, no mark; the next start makes it whole."""
    blob = hold_back(place, FILES["pkg/model.py"])
    process = fork.Process(target=place.unpack)
    process.start()
    wait_for("some files", lambda: list(place.around.glob(".new.*/data/train.bin")))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()

    assert not place.root.exists()
    assert not (place.around / LAID_FILE).exists()
    blob.unlink()
    blob.write_bytes(FILES["pkg/model.py"])
    place.unpack(number=2)
    assert place.found() == FILES


def test_kill_between_mark_and_name_is_mended(place: Place) -> None:
    """A whole folder that has not got its name yet gets it; nothing is copied again."""
    place.unpack()
    staged = json.loads((place.around / LAID_FILE).read_bytes())["staged"]
    os.rename(place.root, place.around / staged)
    place.unpack(number=2)

    assert place.found() == FILES
    assert len(place.said) == 1


def test_ranks_that_start_at_once_unpack_once(place: Place) -> None:
    """The second waits for the first, and finds it done."""
    blob = hold_back(place, FILES["pkg/model.py"])
    ranks = [fork.Process(target=place.unpack) for _ in range(3)]
    for rank in ranks:
        rank.start()
    with blob.open("wb") as writer:  # opens when a rank reads
        writer.write(FILES["pkg/model.py"])
    for rank in ranks:
        rank.join()

    assert [rank.exitcode for rank in ranks] == [0, 0, 0]
    assert place.found() == FILES


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda place: blob_of(place.shared, FILES["train.py"]).unlink(), "train.py is gone or damaged"),
        (lambda place: blob_of(place.shared, FILES["train.py"]).write_bytes(b"other"), "train.py is gone or damaged"),
        (lambda place: next((place.shared / "code/manifests").iterdir()).unlink(), "no longer on the server"),
        (lambda place: next((place.shared / "code/manifests").iterdir()).write_bytes(b"{}"), "cannot be unpacked"),
        (lambda place: (place.shared / "code").rename(place.shared / "gone"), "not in the shared directory"),
    ],
)
def test_damage_is_told_with_the_name(place: Place, harm: object, told: str) -> None:
    """A job never starts in a folder that is not the one that was sent."""
    assert callable(harm)
    harm(place)
    with pytest.raises(UnpackFailed, match=told):
        place.unpack()

    assert not place.root.exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def test_job_starts_in_its_folder(server: AgentServer) -> None:
    """The command finds its package and its data, and small files of the spec beside them."""
    digest = store_put(server.config.shared_dir, FILES)
    order = wanted(script("exec(open('train.py').read())"), code=digest, files={"note.txt": "hello"})
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed", server.log(order)
    assert server.log(order) == "[clusterweb: unpacking 6 files, 4.8 MiB]\n5000000 7\n"


def test_job_that_is_cancelled_while_it_unpacks_never_starts(server: AgentServer) -> None:
    """The supervisor hears of it at once, ends the unpacking, and reports the end."""
    digest = store_put(server.config.shared_dir, FILES)
    blob = blob_of(server.config.shared_dir, FILES["pkg/model.py"])
    blob.unlink()
    os.mkfifo(blob)
    order, jobs = wanted(script("print('started')"), code=digest), server.config.shared_dir / "jobs"
    server.send(order)
    wait_for("unpacking", lambda: list(jobs.glob("*/.new.*/data/train.bin")))
    server.generation += 1
    server.orders = {
        order.attempt_id: wanted(
            order.command, code=digest, job_id=order.job_id, attempt_id=order.attempt_id, wanted="cancel"
        )
    }
    server.renew()
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "cancelled"
    assert "started" not in server.log(order)
    assert server.processes() == []


def test_folder_that_is_gone_ends_the_attempt_with_a_sentence(server: AgentServer) -> None:
    """The owner reads what to do; the agent goes on."""
    order, other = wanted(script("pass"), code="0" * 64), wanted(script("print('hello')"), gpu_indexes=(1,))
    store_put(server.config.shared_dir, FILES)
    server.send(order, other)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_code) == ("launch_failed", None)
    assert "Send it again" in report.end_detail
    assert server.wait_phase(other, "ended").end_cause == "completed"
