"""What would start a waiting job: tried before it is told, made so by one POST, on random clusters through the API."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from hypothesis import event, given
from hypothesis import strategies as st

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.round.plan_round import plan_round
from scheduler.live.rounds.run_round import round_run
from scheduler.models import Attempt, Cluster, Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.ports import Ports
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.one_job.present import present_read, simulate_starts
from tests.integration.api.conftest import World, spec
from tests.support.live.ports import memory_ports
from tests.support.rows.factories import job_make, member_make, queue_make, server_make, user_make
from tests.support.suite.examples import tried

pytestmark = pytest.mark.django_db
NOW_KINDS = ("now", "after_others_leave")


def ports_now() -> Ports:
    """Return ports whose clock shows the time of day."""
    ports, clock, _, _ = memory_ports()
    clock.advance((datetime.now(UTC) - clock.now()).total_seconds())
    return ports


def post(client: Client, path: str, body: object) -> Any:
    """POST JSON; return the answer, which must be good."""
    answer = client.post(path, json.dumps(body), content_type="application/json")
    assert answer.status_code < 300, answer.content
    return answer.json()


def full(world: World) -> dict[str, Any]:
    """Return a job of the member that waits in vision, whose quota is used up, while speech is idle."""
    cluster_row()
    Cluster.objects.update(policy="fifo", policy_options={}, round_number=world.round.number)
    Queue.objects.filter(name="vision").update(quota_gpus=2, may_borrow=False)
    job: dict[str, Any] = post(world.client("member"), "/api/v1/jobs", spec(resources={"gpus": 2, "cpus": 1}))
    round_run(ports_now(), "test")
    return job


def unblockers(client: Client, job: str) -> list[dict[str, Any]]:
    """Return what is offered."""
    found: list[dict[str, Any]] = client.get(f"/api/v1/jobs/{job}/explain").json()["unblock"]
    return found


def test_other_queue_and_fewer_gpus_are_offered_and_work(world: World) -> None:
    """Each is a body for the route beside it; after it and a round the job has its GPUs."""
    member_make(world.speech, Role.MEMBER, user=world.users["member"])
    job = full(world)
    client = world.client("member")
    offered = {entry["key"]: entry for entry in unblockers(client, job["id"])}

    assert offered["queue"]["title"] == "Move it to speech"
    assert offered["queue"]["starts"] == "now"
    assert "Ask for 1 GPU instead of 2" not in [entry["title"] for entry in offered.values()]  # two run already
    changed = post(client, f"/api/v1/jobs/{job['id']}/unblock", offered["queue"]["change"])
    round_run(ports_now(), "test")

    stored = Job.objects.get(pk=job["id"])
    assert (changed["id"], changed["queue"], changed["spec"]["queue"]) == (job["id"], "speech", "speech")
    assert Attempt.objects.filter(job=stored, ended_at=None).exists()
    assert "vision" not in json.dumps(client.get(f"/api/v1/jobs/{job['id']}/events?limit=500").json()["results"][-1])
    told = Event.objects.get(job=stored, kind="job_changed")
    assert (told.actor, told.data) == ("mia", {"queue_id": {"before": world.vision.pk, "after": world.speech.pk}})


def test_nothing_is_offered_to_who_may_not_change_it(world: World) -> None:
    """A viewer reads why, and no button that would be refused; neither does one whose queues do not help."""
    job = full(world)

    assert unblockers(world.client("viewer"), job["id"]) == []
    assert all(entry["key"] != "queue" for entry in unblockers(world.client("member"), job["id"]))
    refused = world.client("viewer").post(f"/api/v1/jobs/{job['id']}/unblock", "{}", content_type="application/json")
    assert refused.status_code == 403


def test_change_is_checked_like_a_spec_and_refused_for_what_runs(world: World) -> None:
    """Bad values name their field, a queue that is not one's own is unknown, a running job is a conflict."""
    job = full(world)
    client = world.client("member")
    path = f"/api/v1/jobs/{job['id']}/unblock"

    def answer(body: object, where: str = path) -> Any:
        return client.post(where, json.dumps(body), content_type="application/json")

    too_many, no_queue, odd = answer({"gpus": 9}), answer({"queue": "speech"}), answer({"memory": "4 apples"})
    unknown, running = answer({"priority": 9}), answer({"gpus": 1}, f"/api/v1/jobs/{world.job.pk}/unblock")

    assert [each.status_code for each in (too_many, no_queue, odd, unknown, running)] == [400, 400, 400, 400, 409]
    assert too_many.json()["errors"][0]["pointer"] == "/resources/gpus"
    assert no_queue.json()["errors"][0]["pointer"] == "/queue"
    assert odd.json()["errors"][0]["pointer"] == "/resources/memory"
    assert Job.objects.get(pk=job["id"]).event_count == 2  # submitted, waits


def test_lead_does_not_move_a_job_where_its_owner_could_not_follow(world: World) -> None:
    """The owner would no longer see the own job."""
    member_make(world.speech, Role.MEMBER, user=world.users["lead"])
    job = full(world)

    answer = world.client("lead").post(
        f"/api/v1/jobs/{job['id']}/unblock", json.dumps({"queue": "speech"}), content_type="application/json"
    )

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"] == "mia, whose job it is, may not submit to speech."


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """A small cluster with what is submitted to it in two waves."""
    job = st.fixed_dictionaries(
        {
            "queue": st.integers(0, 2),
            "gpus": st.sampled_from([1, 1, 2, 3, 4]),
            "cpus": st.sampled_from(["auto", "auto", 1, 6]),
            "max_servers": st.sampled_from([1, 1, 1, 2]),
            "priority": st.sampled_from([10, 50]),
        }
    )
    return {
        "servers": draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3)),
        "quotas": draw(st.lists(st.integers(0, 4), min_size=3, max_size=3)),
        "borrows": draw(st.lists(st.booleans(), min_size=3, max_size=3)),
        "policy": draw(st.sampled_from(["fifo", "las", "srtf", "priority", "fair", "afs-l"])),
        "mechanism": draw(st.sampled_from(["tune", "proportional"])),
        "smoke_run_s": draw(st.sampled_from([0.0, 0.0, 30.0])),
        "waves": draw(st.lists(st.lists(job, min_size=1, max_size=4), min_size=2, max_size=2)),
    }


@tried(27)
@given(drawn=clusters())
def test_no_queued_job_is_without_a_reason_and_every_offer_works(drawn: dict[str, Any]) -> None:
    """After real rounds each queued job has a reason from the closed list; every change offered gives it GPUs."""
    _try_cluster(drawn)


@tried(12)
@given(drawn=clusters())
def test_every_offer_starts_the_job_in_the_simulator(drawn: dict[str, Any]) -> None:
    """Where enough jobs have ended to simulate ahead: at once if that was offered, and sooner than as it is if not."""
    _try_cluster(drawn | {"ended": 6})


def _try_cluster(drawn: dict[str, Any]) -> None:
    """Play one cluster, and undo it."""
    cache.clear()
    with transaction.atomic():
        _play(drawn)
        transaction.set_rollback(True)


def _play(drawn: dict[str, Any]) -> None:
    user = user_make()
    queues = [
        queue_make(f"team-{number}", quota_gpus=quota, may_borrow=borrows)
        for number, (quota, borrows) in enumerate(zip(drawn["quotas"], drawn["borrows"], strict=True))
    ]
    for queue in queues:
        member_make(queue, Role.MEMBER, user=user)
    for gpus in drawn["servers"]:
        server_make(gpus=gpus, num_cpus=2 * gpus, last_report_at=datetime.now(UTC))
    cluster_row()
    Cluster.objects.update(
        policy=drawn["policy"], policy_options={}, mechanism=drawn["mechanism"], smoke_run_s=drawn["smoke_run_s"]
    )
    for _ in range(drawn.get("ended", 0)):
        at = datetime.now(UTC) - timedelta(hours=3)
        job_make(queues[0], owner=user, state=JobState.COMPLETED, at=at, executed_s=1_800.0)
    client = Client()
    client.force_login(user)
    for wave in drawn["waves"]:
        for job in wave:
            _reasons_hold(client, explained=_submit(client, job))
        round_run(ports_now(), "test")
        _reasons_hold(client)
    for row in client.get("/api/v1/jobs?state=queued").json()["results"]:
        offers = unblockers(client, row["id"])
        before_s = _median_start_s(row["id"]) if offers and drawn.get("ended") else math.inf
        for offer in offers:
            event(f"offered: {offer['key']} {offer['starts']}")
            with transaction.atomic():
                if drawn.get("ended"):
                    _starts_in_simulator(client, row["id"], offer, before_s)
                if offer["starts"] in NOW_KINDS:
                    _offer_works(client, row["id"], offer)
                transaction.set_rollback(True)


def _submit(client: Client, job: dict[str, Any]) -> list[str]:
    """Return the id of the job, if it was taken."""
    body = spec(
        queue=f"team-{job['queue']}",
        resources={name: job[name] for name in ("gpus", "cpus", "max_servers")},
        schedule={"priority": job["priority"]},
    )
    answer = client.post("/api/v1/jobs", json.dumps(body), content_type="application/json")
    assert answer.status_code in (201, 400), answer.content  # some are too large for any server
    return [answer.json()["id"]] if answer.status_code == 201 else []


def _reasons_hold(client: Client, *, explained: list[str] | None = None) -> None:
    """Every queued job has its reason; so has what is told at length of these, or of all."""
    for row in client.get("/api/v1/jobs?state=queued").json()["results"]:
        assert WaitReason(row["wait_reason"])
        assert len(row["wait_sentence"]) > 10
        if explained is not None and row["id"] not in explained:  # nothing has been decided since it was asked last
            continue
        told = client.get(f"/api/v1/jobs/{row['id']}/explain").json()
        assert WaitReason(told["reason"])
        assert len(told["sentence"]) > 10


def _offer_works(client: Client, job: str, offer: dict[str, Any]) -> None:
    post(client, f"/api/v1/jobs/{job}/unblock", offer["change"])
    round_run(ports_now(), "test")
    stored = Job.objects.get(pk=job)
    has_gpus = Attempt.objects.filter(job=stored, ended_at=None).exists()
    waits_for_leavers = stored.wait_reason == WaitReason.RECONFIGURING
    assert has_gpus or (offer["starts"] == "after_others_leave" and waits_for_leavers), (offer, stored.wait_reason)


def _starts_in_simulator(client: Client, job: str, offer: dict[str, Any], before_s: float) -> None:
    """Simulate the cluster ahead with the change, which is taken back; ``before_s`` is when it starts as it is."""
    with transaction.atomic():
        post(client, f"/api/v1/jobs/{job}/unblock", offer["change"])
        after_s = _median_start_s(job)
        transaction.set_rollback(True)
    assert math.isfinite(after_s), offer
    assert after_s < before_s, offer
    if offer["starts"] in NOW_KINDS:
        assert after_s == 0.0, offer


def _median_start_s(job: str) -> float:
    present, stored = present_read(ports_now().clock.now()), Job.objects.get(pk=job)
    row = present.row_of(stored)
    assert row is not None
    seen = simulate_starts(
        present, present.tables, row, owner_pk=stored.owner_id, futures=12, cpu_s=60.0, most_cpu_s=60.0
    )
    return seen.after_s(0.5)


def test_bulk_action_answers_for_each_job(world: World) -> None:
    """What one may not do, or not see, stops nothing of the rest."""
    client = world.client("member")
    mine = post(client, "/api/v1/jobs", spec(name="mine"))
    outcomes = post(
        client, "/api/v1/jobs/actions", {"action": "cancel", "jobs": [f"J-{mine['number']}", "J-999999", mine["id"]]}
    )["results"]
    too_low = post(world.client("viewer"), "/api/v1/jobs/actions", {"action": "suspend", "jobs": [world.job.pk]})

    assert [(row["ok"], row["state"]) for row in outcomes] == [(True, "cancelled"), (False, ""), (True, "cancelled")]
    assert "no job" in outcomes[1]["detail"]
    assert [(row["ok"], row["id"]) for row in too_low["results"]] == [(False, world.job.pk)]
    assert Job.objects.get(pk=world.job.pk).wanted == "run"


def test_answers_say_what_is_kept_of_a_job_that_is_to_end(world: World) -> None:
    """One by one and for several: of a job that runs and has told of no checkpoint all its work is at stake."""
    world.job.attempts.update(started_at=datetime.now(UTC) - timedelta(seconds=240))
    client = world.client("member")
    waiting = post(client, "/api/v1/jobs", spec(name="waits"))
    both = {"action": "suspend", "jobs": [world.job.pk, waiting["id"]]}
    told = post(client, "/api/v1/jobs/actions", both)["results"]
    alone = post(client, f"/api/v1/jobs/{world.job.pk}/cancel", {})
    why = client.get(f"/api/v1/jobs/{world.job.pk}/explain").json()

    assert [row["kept"][:50] for row in told] == ["It has told of no checkpoint: 4 min of work counts", ""]
    assert (alone["keeps_work"], waiting["keeps_work"]) == ("unknown", None)
    assert alone["kept"] == told[0]["kept"] == why["kept"]


def test_bulk_priority_needs_one_and_only_there(world: World) -> None:
    """``reprioritise`` takes the new priority; elsewhere one is a mistake, as none is here."""
    client = world.client("member")
    mine = post(client, "/api/v1/jobs", spec(name="mine"))

    def sent(body: dict[str, Any]) -> Any:
        return client.post("/api/v1/jobs/actions", body, content_type="application/json")

    done = sent({"action": "reprioritise", "jobs": [mine["id"]], "priority": 80})
    missing = sent({"action": "reprioritise", "jobs": [mine["id"]]})
    stray = sent({"action": "suspend", "jobs": [mine["id"]], "priority": 80})

    assert [row["ok"] for row in done.json()["results"]] == [True]
    assert Job.objects.get(pk=mine["id"]).priority == 80
    for refused in (missing, stray):
        assert refused.status_code == 400
        assert [entry["pointer"] for entry in refused.json()["errors"]] == ["/priority"]
    assert Job.objects.get(pk=mine["id"]).wanted == "run"


def test_change_between_planning_and_applying_is_met_by_the_next_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that asks for less while a round is planned is not given what it asked for before."""
    job = full(world)
    Queue.objects.filter(name="vision").update(quota_gpus=4)

    def planned(*arguments: Any) -> Any:
        plan = plan_round(*arguments)
        post(world.client("member"), f"/api/v1/jobs/{job['id']}/unblock", {"gpus": 1})
        return plan

    with monkeypatch.context() as patched:
        patched.setattr("scheduler.live.rounds.run_round.plan_round", planned)
        round_run(ports_now(), "test")
    held_at_once = Attempt.objects.filter(job_id=job["id"]).exists()
    round_run(ports_now(), "test")

    assert not held_at_once
    assert Attempt.objects.get(job_id=job["id"]).num_gpus == 1
