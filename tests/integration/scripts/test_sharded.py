"""FSDP under torchrun on a real agent: shards of all ranks, one manifest; preempted, killed, resumed."""

import os
import signal
import sys
from pathlib import Path

import pytest

from agents.protocol.gangs import GangHost, GangOrder
from tests.support.agents.fsdp import FSDP, STEPS
from tests.support.agents.gang_ranks import free_port
from tests.support.agents.preempted import PreemptedJob
from tests.support.agents.server import SERVER_ID, AgentServer, marked, wait_for

# Of rank 1: the writing of its shards waits while there is a file ``stall``.
STALLS = """
import os, time
import torch.distributed.checkpoint as dcp

write = dcp.FileSystemWriter.write_data


def stalled(*arguments, **named):
    while os.path.exists("stall"):
        time.sleep(0.05)
    return write(*arguments, **named)


if os.environ["RANK"] == "1":
    dcp.FileSystemWriter.write_data = stalled
"""


def torchrun(text: str = FSDP, *, is_slow: bool = True) -> PreemptedJob:
    """Return a job whose command starts once on a server, with two devices there."""
    return PreemptedJob(
        (sys.executable, "-m", "torch.distributed.run", "train.py"),
        files={"train.py": text} | ({"slow": ""} if is_slow else {}),
        gpu_indexes=(0, 1),
        gpu_uuids=tuple(f"cpu-slot-{SERVER_ID}-{index}" for index in (0, 1)),
        gang=GangOrder(
            rank=0,
            size=1,
            version=0,
            members=(),
            address="127.0.0.1",
            port=free_port(),
            secret=os.urandom(16).hex(),
            hosts=(GangHost(address="127.0.0.1", slots=2),),
        ),
    )


def losses(directory: Path, rank: int) -> list[tuple[int, str]]:
    """Return step and loss of each line that a rank wrote."""
    path = directory / f"record-{rank}"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


def rank_pids(job: PreemptedJob) -> dict[int, int]:
    """Return the process of each rank."""
    found = {}
    for pid in marked(job.order.attempt_id):
        environ = dict(part.partition(b"=")[::2] for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        if b"LOCAL_RANK" in environ:
            found[int(environ[b"LOCAL_RANK"])] = pid
    return found


@pytest.fixture(scope="module")
def curve(processes: None, tmp_path_factory: pytest.TempPathFactory) -> list[list[tuple[int, str]]]:
    """The losses of both ranks of a run that is left alone."""
    server = AgentServer(tmp_path_factory.mktemp("alone"))
    server.start()
    job = torchrun(is_slow=False)
    job.start(server)
    assert job.end().end_cause == "completed", job.logs
    found = [losses(job.directory, rank) for rank in (0, 1)]
    server.end()
    return found


def test_split_model_goes_on_from_the_shards_of_all_ranks(
    servers: list[AgentServer], curve: list[list[tuple[int, str]]]
) -> None:
    """Preempted and moved: both ranks save at one step, leave together, and go on as if nothing had been."""
    job = torchrun()
    job.start(servers[0])
    report = job.preempt("twelve steps", lambda: len(losses(job.directory, 0)) >= 12)
    kept = {path.name for path in (job.directory / "shards").iterdir()}
    newest = job.directory / "shards" / f"step-{report.step:06d}"
    shards = {path.name for path in newest.glob("*.distcp")}
    job.start(servers[1])
    (job.directory / "slow").unlink()
    last = job.end()

    assert (report.end_cause, report.checkpoint_step) == ("preempted", report.step), job.logs
    assert shards == {"__0_0.distcp", "__1_0.distcp"}
    assert kept <= {"step-000010", newest.name}
    assert (last.end_cause, last.first_step, last.step) == ("completed", report.step, STEPS), job.logs
    assert [losses(job.directory, rank) for rank in (0, 1)] == curve


def test_checkpoint_counts_only_when_all_ranks_have_written(
    servers: list[AgentServer], curve: list[list[tuple[int, str]]]
) -> None:
    """One rank is killed while it writes and the other is done: that is no checkpoint; the one before it is used."""
    job = torchrun(STALLS + FSDP)
    job.start(servers[0])
    shards = job.directory / "shards"
    wait_for("a checkpoint", lambda: [*shards.glob("step-*")])
    (job.directory / "stall").touch()
    torn = wait_for("the shard of rank 0", lambda: [*shards.glob(".step-*/__0_0.distcp")])
    os.kill(rank_pids(job)[1], signal.SIGKILL)
    broken = job.end()
    left = sorted(path.name for path in shards.iterdir())
    (job.directory / "stall").unlink()
    job.start(servers[0])
    (job.directory / "slow").unlink()
    last = job.end()

    assert broken.end_cause == "exit_code", job.logs
    assert broken.checkpoint_step is not None
    assert torn[0].parent.name == f".step-{broken.checkpoint_step + 10:06d}.partial"
    assert f"step-{broken.checkpoint_step:06d}" in left
    assert f"step-{broken.checkpoint_step + 10:06d}" not in left
    assert last.first_step == broken.checkpoint_step
    assert (last.end_cause, last.step) == ("completed", STEPS), job.logs
    # What was trained after the checkpoint is trained again, and comes out the same.
    assert [sorted(set(losses(job.directory, rank))) for rank in (0, 1)] == curve
    assert not [*shards.glob(".*")]
