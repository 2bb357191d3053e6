"""What needs an admin: each cause makes its alert and takes it along, and no other user is told."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from frontend.components.devices import GPUS
from frontend.pages.overview.inbox import inbox_of
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, LeaseGpu, Server
from scheduler.models.server import ServerState
from scheduler.models.webhook import DeliveryState
from scheduler.selectors.cluster.alerts import AlertRow, alerts
from scheduler.selectors.cluster.changes import changes_since, events_since
from scheduler.selectors.cluster.next_free import next_free
from scheduler.services.cluster.settings import cluster_row
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make, user_make
from tests.support.rows.notices import delivery_make, webhook_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=2)


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


@pytest.fixture(autouse=True)
def _half_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of this machine is not the subject."""
    use_disk(monkeypatch, free=50)


def use_disk(monkeypatch: pytest.MonkeyPatch, *, free: int) -> None:
    """Let the shared directory have so many of 100 bytes free."""
    monkeypatch.setattr(
        "scheduler.selectors.cluster.alerts.shutil.disk_usage", lambda path: SimpleNamespace(total=100, free=free)
    )


def told(user: User) -> Mapping[str, AlertRow]:
    """Return the alerts by kind."""
    return {row["kind"]: row for row in alerts(user, NOW)}


def test_nothing_is_wrong(admin: User) -> None:
    """A cluster that is well has no alert, and one without anything neither."""
    assert alerts(admin, NOW) == []
    server_make(gpus=4, last_report_at=NOW)
    assert alerts(admin, NOW) == []


def test_servers_out_of_use_come_first_and_tell_their_gpus(admin: User) -> None:
    """Drained, lost and never seen: the GPUs of each are counted."""
    for name, state in (("a", ServerState.DRAINING), ("b", ServerState.LOST), ("c", ServerState.JOINING)):
        server = server_make(name, gpus=2)
        Server.objects.filter(pk=server.pk).update(
            state=state, state_reason="new fans", state_changed_at=AT, created_at=AT
        )
    use = server_make("d", gpus=4, broken=[3])
    Server.objects.filter(pk=use.pk).update(claimed_size={"num_cpus": 900}, trusted_size={"num_cpus": 9})

    found = told(admin)

    assert [(kind, row["subject"], row["lost_gpus"]) for kind, row in found.items()] == [
        ("gpu_broken", "d", 1),
        ("server_drained", "a", 2),
        ("server_lost", "b", 2),
        ("server_silent", "c", 2),
        ("size_jump", "d", 0),
    ]
    assert found["server_drained"]["numbers"] == {"reason": "new fans", "jobs": 0}
    assert found["gpu_broken"]["numbers"]["gpus"] == [3]


def test_a_server_that_is_being_drained_keeps_only_its_empty_gpus_out_of_use(admin: User) -> None:
    """Those of the jobs that still run on it are in use."""
    server = server_make("a", gpus=4, state=ServerState.DRAINING)
    job_make(state=JobState.RUNNING, num_gpus=3, server=server)

    assert (told(admin)["server_drained"]["lost_gpus"], told(admin)["server_drained"]["numbers"]["jobs"]) == (1, 1)


def test_what_a_lost_server_holds_is_out_of_use(admin: User) -> None:
    """Its jobs do not train until they run elsewhere."""
    server = server_make("a", gpus=4, state=ServerState.LOST)
    job_make(state=JobState.RUNNING, num_gpus=3, server=server)

    assert told(admin)["server_lost"]["lost_gpus"] == 4


def test_a_server_that_was_just_added_is_no_alert(admin: User) -> None:
    """It has ten minutes to report."""
    server = server_make("c", gpus=2)
    Server.objects.filter(pk=server.pk).update(state=ServerState.JOINING, created_at=NOW - timedelta(minutes=5))

    assert alerts(admin, NOW) == []


def test_the_scheduler_is_late_or_fails(admin: User) -> None:
    """Three missed rounds, unless an admin paused; and each step that fails, with its error."""
    cluster_row()
    Cluster.objects.update(
        round_finished_at=AT, round_number=7, failing_steps={"watch": {"since": AT.isoformat(), "error": "Boom: no"}}
    )
    found = told(admin)

    assert found["round_late"]["numbers"]["round"] == 7
    assert (found["step_failing"]["subject"], found["step_failing"]["numbers"]) == ("watch", {"error": "Boom: no"})
    Cluster.objects.update(paused=True, failing_steps={})
    assert alerts(admin, NOW) == []


def test_a_queue_is_told_of_until_it_is_well_again(admin: User) -> None:
    """The newest word of the scheduler counts."""
    queue = queue_make("vision")
    for kind in ("fairness_again", "fairness_over"):
        Event.objects.create(at=AT, kind=kind, actor="scheduler", queue=queue, data={"rho": 2.2, "limit": 2})
    row = told(admin)["queue_unfair"]
    assert (row["subject"], row["numbers"]) == ("vision", {"rho": 2.2, "limit": 2})

    Event.objects.create(at=NOW, kind="fairness_again", actor="scheduler", queue=queue, data={})
    assert alerts(admin, NOW) == []


def test_a_webhook_fails_when_its_last_three_messages_did(admin: User) -> None:
    """One that was delivered in between makes the count begin again."""
    hook = webhook_make(admin, name="ops-chat")
    bad = {"state": DeliveryState.FAILED, "tries": 3, "problem": "answered 503", "created_at": AT, "next_at": None}
    for _ in range(2):
        delivery_make(hook, **bad)
    assert alerts(admin, NOW) == []
    delivery_make(hook, **bad)
    assert told(admin)["webhook_failing"]["numbers"] == {"failed": 3, "problem": "answered 503"}

    delivery_make(hook, **{**bad, "state": DeliveryState.DELIVERED, "problem": ""})
    delivery_make(hook, **bad)
    assert alerts(admin, NOW) == []


def test_the_disk_is_nearly_full(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine tenths are used."""
    use_disk(monkeypatch, free=9)

    assert told(admin)["disk_full"]["numbers"] == {"used_frac": 0.91, "free_bytes": 9}


def test_more_alerts_cost_no_more_queries(admin: User, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """Servers, webhooks and queues are read together; other users are asked nothing of the database."""
    for number in range(6):
        server_make(f"s{number}", gpus=2, broken=[0])
        Event.objects.create(
            at=AT, kind="fairness_over", actor="scheduler", queue=queue_make(), data={"rho": 3, "limit": 2}
        )
    with django_assert_max_num_queries(10):
        assert len(alerts(admin, NOW)) == 12
    other = member_make(queue_make("x"))
    with django_assert_max_num_queries(0):
        assert alerts(other, NOW) == []


def test_servers_by_when_they_are_free() -> None:
    """A free one now, then by the end of its last job; without a known end last; other queues' jobs have no name."""
    queue = queue_make("vision")
    reader = member_make(queue)
    servers = {name: server_make(name, gpus=2, last_report_at=NOW) for name in ("busy", "soon", "idle", "dark")}
    for name, left in (("busy", 7200), ("soon", 60), ("dark", None)):
        of = queue if name != "busy" else queue_make("speech")
        job = job_make(of, state=JobState.RUNNING, server=servers[name], name=f"on-{name}")
        job.step, job.total_steps, job.steps_per_s = 0, left, 1.0
        job.save(update_fields=["step", "total_steps", "steps_per_s"])

    rows = next_free(reader, NOW)

    assert [(row["server"], row["free_gpus"]) for row in rows] == [("idle", 2), ("soon", 1), ("busy", 1), ("dark", 1)]
    jobs = {row["server"]: row["last_job"] and row["last_job"]["name"] for row in rows}
    assert jobs == {"idle": None, "soon": "on-soon", "busy": "another job", "dark": None}
    at = (NOW + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    assert rows[1]["whole_at"] == at
    assert [(end["at"], end["num_gpus"], end["job"]["name"]) for end in rows[1]["ends"]] == [(at, 1, "on-soon")]
    assert [len(row["ends"]) for row in rows] == [0, 1, 1, 0]


def test_a_server_tells_of_each_end_how_many_gpus_it_frees() -> None:
    """Soonest first. A GPU that two jobs share is free with the later of them, a broken one never."""
    queue, server = queue_make("vision"), server_make("many", gpus=5, broken=[4], last_report_at=NOW)
    for name, left, gpus in (("late", 600, 2), ("early", 60, 1), ("unknown", None, 1)):
        job = job_make(queue, state=JobState.RUNNING, server=server, name=name, num_gpus=gpus)
        Job.objects.filter(pk=job.pk).update(step=0, total_steps=left, steps_per_s=1.0)
    [row] = next_free(member_make(queue), NOW)

    assert [(end["num_gpus"], end["job"]["name"]) for end in row["ends"]] == [(1, "early"), (2, "late")]
    assert (row["num_gpus"], row["free_gpus"], row["whole_at"]) == (4, 0, None)

    early = LeaseGpu.objects.get(lease__attempt__job__name="early")
    late = LeaseGpu.objects.filter(lease__attempt__job__name="late").first()
    assert late
    LeaseGpu.objects.create(lease=early.lease, gpu=late.gpu, slot=1)
    [row] = next_free(member_make(queue, name="second"), NOW)
    assert [(end["num_gpus"], end["job"]["name"]) for end in row["ends"]] == [(1, "early"), (2, "late")]


def test_changes_are_those_of_queues_that_one_sees() -> None:
    """Counts and events after the moment, of the reader's queues alone."""
    mine, other = queue_make("vision"), queue_make("speech")
    reader = member_make(mine)
    job_make(mine, state=JobState.COMPLETED, at=AT, name="done")
    job_make(other, state=JobState.FAILED, at=AT, name="hidden")

    found = changes_since(reader, AT - timedelta(seconds=1))

    assert (found["submitted"], found["completed"], found["failed"]) == (1, 1, 0)
    names = {row["job_name"] for row in events_since(reader, AT - timedelta(seconds=1), limit=50)}
    assert names == {"done"}
    assert changes_since(reader, NOW)["completed"] == 0


def test_files_that_no_agent_removed_within_a_day(admin: User) -> None:
    """One alert with the oldest; it leaves when they are gone."""
    late: dict[str, Any] = {
        "state": JobState.COMPLETED,
        "directory_bytes": 5,
        "directory_removal_at": NOW - timedelta(hours=25),
    }
    job_make(state=JobState.COMPLETED, directory_bytes=7, directory_removal_at=NOW - timedelta(hours=23))
    assert alerts(admin, NOW) == []
    oldest = job_make(**{**late, "directory_removal_at": NOW - timedelta(days=2)})
    job_make(**late)

    assert told(admin)["files_stay"]["numbers"] == {"jobs": 2, "size_bytes": 10, "oldest_job": oldest.number}
    [line] = inbox_of(alerts(admin, NOW), looked_at=None, device=GPUS).first
    assert line.finding.replace("\u00a0", " ") == "Files of 2 jobs are not removed"
    assert line.cause.replace("\u00a0", " ").startswith(f"10 B were to go a day ago, first those of J-{oldest.number}.")
    assert (line.verb, line.to) == (f"Open J-{oldest.number}", f"/jobs/J-{oldest.number}")
    Job.objects.update(directory_removed_at=NOW)
    assert alerts(admin, NOW) == []
