"""A dry run says what would become of a job: whether it fits, where and when it starts, who makes room."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.run_round import round_run
from scheduler.models import Attempt, Cluster, Event, Job, Lease, Queue, Server
from scheduler.models.server import ServerState
from scheduler.ports import Ports
from scheduler.services.cluster.settings import cluster_row
from tests.integration.api.conftest import World, spec
from tests.support.live.ports import memory_ports
from tests.support.rows.factories import job_make, server_make


def policy(name: str, **columns: Any) -> None:
    """Let rounds decide by a policy with its defaults."""
    cluster_row()
    Cluster.objects.update(policy=name, policy_options={}, **columns)


def ask(world: World, role: str = "member", **changes: Any) -> dict[str, Any]:
    """Return the preview of a spec."""
    body = json.dumps(spec(**changes))
    answer = world.client(role).post("/api/v1/jobs?dry_run=true", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    preview: dict[str, Any] = answer.json()["preview"]
    return preview


def ports_now() -> Ports:
    """Return ports whose clock shows the time of day."""
    ports, clock, _, _ = memory_ports()
    clock.advance((datetime.now(UTC) - clock.now()).total_seconds())
    return ports


def test_job_that_fits_starts_where_the_next_round_puts_it(world: World) -> None:
    """The place in the answer is the place that the round then gives."""
    policy("fifo", round_number=world.round.number)
    foretold = ask(world, resources={"gpus": 2, "cpus": 1})
    job = world.client("member").post(
        "/api/v1/jobs", json.dumps(spec(resources={"gpus": 2, "cpus": 1})), content_type="application/json"
    )
    round_run(ports_now(), "test")

    leases = Lease.objects.filter(attempt__job_id=job.json()["id"], closed_at=None)
    given = [(lease.server.name, lease.num_gpus) for lease in leases]
    assert (foretold["feasible"], foretold["starts"]) == (True, "now")
    assert [(seat["server"], seat["num_gpus"]) for seat in foretold["placement"]] == given == [("server-01", 2)]
    assert foretold["estimate"]["known"]
    assert foretold["sentence"] == "It starts with the next round on 2 GPUs of server-01."


def test_demand_of_the_queue_is_a_check(world: World) -> None:
    """That of the queues above it holds, too; it is passed while a server that is up meets it."""

    def check() -> dict[str, Any]:
        answer = world.client("member").post("/api/v1/jobs?dry_run=true", json.dumps(spec()), "application/json")
        [found] = [check for check in answer.json()["checks"] if check["name"] == "isolation"]
        return {"ok": found["ok"], "text": found["text"]}

    before = check()
    Queue.objects.filter(name="org").update(isolation="files")
    unmet = check()
    Server.objects.filter(pk=world.server.pk).update(isolation="none+landlock")
    server_make("server-03")
    met = check()
    Server.objects.update(state=ServerState.LOST)
    unknown = check()

    only = "Jobs of vision start only where jobs of other queues cannot open their files"
    assert before == {"ok": True, "text": "Jobs of vision start on every server that takes jobs."}
    assert unmet == {"ok": False, "text": f"{only}: on no server that is up."}
    assert met == {"ok": True, "text": f"{only}: on 1 of 2 servers that are up."}
    assert unknown == {"ok": True, "text": f"{only}."}


def test_nothing_is_stored(world: World) -> None:
    """Neither a job, an event, a profile nor a job number is left of a question."""
    policy("fifo")
    before = (Job.objects.count(), Event.objects.count(), Attempt.objects.count(), cluster_row().next_job_number)

    ask(world)

    after = (Job.objects.count(), Event.objects.count(), Attempt.objects.count(), cluster_row().next_job_number)
    assert after == before


def test_job_that_never_fits_is_told_the_most_that_does(world: World) -> None:
    """Too large for every server, or for what its queue may ever hold: with the largest number that is possible."""
    policy("fifo")
    too_large = ask(world, resources={"gpus": 9})
    Queue.objects.filter(name="vision").update(max_gpus=4, quota_gpus=3, may_borrow=False)
    over_quota = ask(world, resources={"gpus": 4})

    assert (too_large["feasible"], too_large["largest_gpus"]) == (False, 4)
    assert "between 1 and 4 on one server." in too_large["sentence"]
    assert too_large["sentence"].endswith("The largest that can start on one server has 4 GPUs.")
    assert (over_quota["feasible"], over_quota["largest_gpus"]) == (False, 3)
    assert over_quota["sentence"].endswith("The largest that can start has 3 GPUs.")


def test_job_that_waits_is_told_why_and_when(world: World) -> None:
    """It starts when the running job ends: the same reason as that of a stored job, with p50 and p90."""
    policy("fifo")
    Job.objects.filter(pk=world.job.pk).update(step=0, total_steps=1_000, steps_per_s=1.0)

    preview = ask(world, resources={"gpus": 4}, progress={"total_steps": 100})
    blind = ask(world, resources={"gpus": 4})

    assert (preview["feasible"], preview["starts"], preview["reason"]) == (True, "later", "no_capacity")
    assert (preview["position"], preview["waiting_jobs"]) == (1, 1)
    assert not blind["estimate"]["known"]
    assert blind["estimate"]["sentence"].startswith("Not known: too few jobs have ended")


def test_when_is_simulated(world: World) -> None:
    """With the lengths of the jobs known the start is about the end of what runs."""
    policy("fifo")
    now = datetime.now(UTC)
    Job.objects.filter(pk=world.job.pk).update(step=0, total_steps=1_000, steps_per_s=1.0)
    for run_s in range(50, 60):
        done = job_make(world.vision, state=JobState.COMPLETED, at=now - timedelta(hours=1))
        Job.objects.filter(pk=done.pk).update(executed_s=float(run_s), submitted_at=now - timedelta(days=30))
    Job.objects.filter(state=JobState.QUEUED).delete()

    estimate = ask(world, resources={"gpus": 4})["estimate"]

    assert estimate["known"], estimate
    p50, p90 = (datetime.fromisoformat(estimate[name]) for name in ("p50_at", "p90_at"))
    assert now + timedelta(seconds=700) < p50 <= p90 < now + timedelta(seconds=1_600)


def test_who_makes_room_is_named_only_to_those_who_see_it(world: World) -> None:
    """The member of the queue reads the name, a member of another queue the size alone."""
    policy("srtf")
    Queue.objects.filter(name="vision").update(quota_gpus=0)
    Queue.objects.filter(name="org").update(quota_gpus=4)
    Job.objects.update(wanted="suspend")  # nobody else is to be in the way
    world.server.state = ServerState.DRAINING
    world.server.save()
    server = server_make("server-02", gpus=4, last_report_at=datetime.now(UTC))
    big = job_make(world.vision, state=JobState.RUNNING, owner=world.users["member"], server=server, num_gpus=4)

    own = ask(world, queue="speech", role="admin", resources={"gpus": 2})
    stranger = ask(world, queue="speech", role="outsider", resources={"gpus": 2})

    assert own["starts"] == stranger["starts"] == "after_others_leave"
    assert [(row["number"], row["name"]) for row in own["preempts"]] == [(big.number, big.name)]
    assert [(row["number"], row["name"], row["queue"]) for row in stranger["preempts"]] == [
        (None, "another job", "another queue")
    ]
    assert "vision" not in json.dumps(stranger)


def test_paused_and_empty_clusters_say_so(world: World) -> None:
    """No start is foretold that nobody could keep."""
    policy("fifo", paused=True)
    paused = ask(world)
    Cluster.objects.update(paused=False)
    world.server.state = ServerState.DRAINING
    world.server.save()
    empty = ask(world)

    assert (paused["starts"], paused["reason"]) == ("unknown", "policy_paused")
    assert (empty["starts"], empty["feasible"], empty["reason"]) == ("unknown", None, "no_server")
    assert empty["sentence"].startswith(f"No server takes jobs. It waits for {world.server.name}, drained since ")


@pytest.mark.parametrize("role", ["viewer", "outsider"])
def test_dry_run_is_refused_like_the_submit(world: World, role: str) -> None:
    """Whoever may not submit learns nothing."""
    answer = world.client(role).post("/api/v1/jobs?dry_run=true", json.dumps(spec()), content_type="application/json")

    assert answer.status_code == {"viewer": 403, "outsider": 400}[role]
