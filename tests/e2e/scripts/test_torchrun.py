"""torchrun over two servers, started once on each, by the whole product."""

import os
import signal
from collections import defaultdict
from pathlib import Path

import psutil

from tests.support.e2e.scripts import LISTENS, TORCHRUN
from tests.support.e2e.stack import Stack, wait_for

STEPS = 400


def steps_of(record: Path) -> dict[int, dict[int, set[str]]]:
    """Return the losses of each step, as text, by rank; a step trained twice the same way has one."""
    found: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in record.read_text().splitlines() if record.exists() else []:
        step, rank, _, loss = line.split()
        found[int(step)][int(rank)].add(loss)
    return found


def rank_of(process: psutil.Process) -> int:
    """Return the rank that torchrun gave to a process; -1 for torchrun itself."""
    return int(process.environ().get("RANK", -1))


def test_torchrun_over_two_servers_goes_on_after_a_killed_rank(faulty: Stack, tmp_path: Path) -> None:
    """Three ranks of two servers train one model; one is killed; all are started again and go on."""
    member, record = faulty.client("member"), tmp_path / "steps"
    job_id = member.submit(
        name="torchrun",
        queue="vision",
        command=["torchrun", "train.py", str(STEPS), str(record)],
        files={"train.py": TORCHRUN},
        resources={"gpus": 3, "max_servers": 2},
        launch={"per": "server"},
    )
    wait_for("a checkpoint", lambda: (member.job(job_id)["checkpoint"] or {}).get("step", 0) > 10, within_s=120)
    first = [process for process in faulty.processes(str(record)) if rank_of(process) >= 0]
    assert sorted(map(rank_of, first)) == [0, 1, 2]
    os.kill(next(process.pid for process in first if rank_of(process) == 2), signal.SIGKILL)
    wait_for("the second attempt", lambda: len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 2)
    (tmp_path / "hurry").touch()
    job = member.wait_state(job_id, "completed", "failed", within_s=240)

    logs = [member.get(f"/api/v1/jobs/{job_id}/logs?rank={rank}")["text"] for rank in (0, 1)]
    print(*logs, sep="\n")  # in full: pytest cuts the message of an assertion
    attempts = {attempt["number"]: attempt for attempt in member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]}
    assert (job["state"], job["step"], len(attempts)) == ("completed", STEPS, 2)
    assert sorted(len(seat["gpus"]) for seat in attempts[2]["servers"]) == [1, 2]
    assert attempts[1]["end_cause"] == "exit_code"
    assert attempts[2]["first_step"] > 0
    assert not any(process.is_running() for process in first)
    steps = steps_of(record)
    assert sorted(steps) == list(range(STEPS))
    assert all(sorted(ranks) == [0, 1, 2] for ranks in steps.values())
    # What was trained again after the checkpoint came out the same, and every rank has the mean over all of them.
    assert all(len({*losses}) == 1 for ranks in steps.values() for losses in ranks.values())
    assert all(len(set().union(*ranks.values())) == 1 for ranks in steps.values())
    assert "server 0 of 2, ranks 0 and 1 of 3" in logs[0]
    assert "server 1 of 2, ranks 2 of 3" in logs[1]


def test_two_gangs_of_one_server_have_a_port_each(one_server: Stack, tmp_path: Path) -> None:
    """They run at the same time on the same server, and each can listen on the port that it was given."""
    member = one_server.client("member")
    jobs = []
    for name, other in (("a", "b"), ("b", "a")):
        command = ["python", "listen.py", str(tmp_path / name), str(tmp_path / other)]
        spec = {"files": {"listen.py": LISTENS}, "launch": {"per": "server"}}
        jobs.append(member.submit(name=name, queue="vision", command=command, **spec))
    for job_id in jobs:
        assert member.wait_state(job_id, "completed", "failed", within_s=120)["state"] == "completed"

    assert len({(tmp_path / name).read_text() for name in ("a", "b")}) == 2
