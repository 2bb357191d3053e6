"""What-if runs from the question to the result, in real processes."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Event, Job, ScenarioRun, Server
from scheduler.models.queue import Role
from scheduler.models.scenario import AS_IT_WAS, ScenarioState
from scheduler.selectors.whatif import scenario_metrics, scenario_progress
from scheduler.services.whatif.files import trace_file_create
from scheduler.whatif.scenarios.bases import unpacked
from tests.support.rows.factories import AT, job_make, member_make, queue_make, round_make, sample_make, server_make
from tests.support.rows.scenarios import SMALL, TRACE, trace_file_make
from tests.support.rows.whatif_world import Worlds, ask, finished

pytestmark = pytest.mark.django_db(transaction=True)


def test_generated_workload_is_simulated_for_every_variant_and_seed(worlds: Worlds, admin: User) -> None:
    """All runs complete, the table has a mean and a spread, and frames told how far it was."""
    scenario = finished(worlds, ask(admin, seeds=[1, 2]))

    metrics = {metric["key"]: metric for metric in scenario_metrics(scenario)}
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert [cell["seeds"] for cell in metrics["avg_jct_s"]["variants"]] == [2, 2]
    first = metrics["avg_jct_s"]["variants"][0]
    assert first["half_width"] is None
    assert first["mean"] == pytest.approx(sum(first["draws"]) / 2)
    assert len(set(first["draws"])) == 2
    assert [metrics[key]["variants"][0]["mean"] is None for key in ("p50_jct_s", "p99_jct_s")] == [False, True]
    progress = scenario_progress(scenario, datetime.now(UTC))
    assert progress["frac"] == 1.0
    early = [run["early"] for run in progress["runs"]]
    assert [one and one["come"] for one in early] == [run.num_jobs for run in scenario.runs.all()]
    assert [one and one["baseline_wait_s"] is None for one in early] == [
        run["variant"] == 0 for run in progress["runs"]
    ]
    assert {frame.group for frame in worlds.frames.sent} == {f"scenario.{scenario.pk}"}
    assert worlds.frames.sent[-1].data["state"] == "completed"


def test_uploaded_trace_is_replayed_on_more_and_fewer_servers(worlds: Worlds, admin: User) -> None:
    """Jobs that the smallest cluster cannot hold are left out of all variants, and that is said."""
    wide = TRACE + b"30,10,8\n"
    file = trace_file_create(actor=admin, name="small.csv", content=io.BytesIO(wide), at=AT)
    start = {"kind": "trace", "file": file.pk, "cluster": SMALL}
    variants = [{"policy": "fifo"}, {"policy": "fifo", "servers": -1}]

    scenario = finished(worlds, ask(admin, start=start, variants=variants))

    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.about["warnings"] == ["1 of 4 jobs need more than 4 GPUs and were left out"]
    assert [run.num_jobs for run in scenario.runs.all()] == [3, 3]


def test_trace_that_cannot_be_read_fails_with_its_line(worlds: Worlds, admin: User) -> None:
    """The sentence of the reader reaches the page."""
    file = trace_file_make(admin, TRACE + b"40,soon,1\n")

    scenario = finished(worlds, ask(admin, start={"kind": "trace", "file": file.pk, "cluster": SMALL}))

    assert scenario.state == ScenarioState.FAILED
    assert "line 5, column run_s" in scenario.error
    assert not scenario.runs.filter(state__in=["queued", "running"]).exists()


def test_live_cluster_is_simulated_from_where_it_is(worlds: Worlds, admin: User) -> None:
    """Jobs go on where they run; what nobody knows of their length comes from those that ended."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    owner = member_make(queue)
    for _ in range(5):
        job_make(queue, state=JobState.COMPLETED, owner=owner, server=server, executed_s=600.0)
    job_make(queue, state=JobState.RUNNING, owner=owner, server=server, num_gpus=3)
    job_make(queue, owner=owner, num_gpus=2, name="waits")
    job_make(queue, owner=owner, num_gpus=1, step=10, total_steps=100, steps_per_s=1.0)

    scenario = finished(worlds, ask(admin, start={"kind": "live"}, seeds=[1, 2]))

    runs = list(scenario.runs.all())
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert [run.num_jobs for run in runs] == [3] * 4
    assert all(run.summary and run.summary["finished"] == 3 for run in runs)


def test_lead_learns_of_other_queues_only_sums(worlds: Worlds) -> None:
    """Nothing that is kept of the runs has the name of a job or queue of others, nor when one of their jobs ran."""
    server = server_make("gpu-01", gpus=8)
    vision, nlp = queue_make("vision", quota_gpus=4), queue_make("nlp", quota_gpus=4)
    lead, stranger = member_make(vision, Role.LEAD), member_make(nlp)
    for _ in range(5):
        job_make(vision, state=JobState.COMPLETED, owner=lead, server=server, executed_s=600.0)
    job_make(vision, owner=lead, num_gpus=2, name="mine")
    for index in range(3):
        job_make(nlp, owner=stranger, num_gpus=2, name=f"secret-{index}")
    variants = [{"quotas": {"vision": 4}}, {"quotas": {"vision": 6}}]

    scenario = finished(worlds, ask(lead, start={"kind": "live"}, variants=variants))

    kept = json.dumps(list(scenario.runs.values("figures", "summary")), default=str)
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.base is not None
    assert "secret" not in kept + unpacked(bytes(scenario.base)).decode()
    assert "nlp" not in kept + unpacked(bytes(scenario.base)).decode()
    for run in scenario.runs.all():
        assert run.figures is not None
        assert run.figures["queue_names"] == ["vision", "other queues"]
        assert run.figures["bar_names"] == ["mine"]
        assert len(run.figures["gantt"]["bars"]) == 1
        assert run.summary is not None
        assert run.summary["jobs"] == 4


def test_live_cluster_of_unknown_run_times_says_so(worlds: Worlds, admin: User) -> None:
    """Nothing is made up where nothing is known any more when the run begins."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    job = job_make(queue, state=JobState.RUNNING, server=server, num_gpus=3, step=1, total_steps=100, steps_per_s=1.0)
    asked = ask(admin, start={"kind": "live"})
    Job.objects.filter(pk=job.pk).update(steps_per_s=None)

    scenario = finished(worlds, asked)

    assert scenario.state == ScenarioState.FAILED
    assert scenario.error.startswith("1 of 1 jobs tell no run time")


def test_past_window_is_replayed_and_compared_with_what_happened(worlds: Worlds, admin: User) -> None:
    """The fidelity card has the replay under the settings of then beside what really happened."""
    server, queue = server_make("gpu-01", gpus=2), queue_make("vision", quota_gpus=2)
    round_make(1, started_at=AT, policy="fifo")
    for index in range(6):
        begin, end = AT + timedelta(seconds=200 * index), AT + timedelta(seconds=200 * index + 150)
        job_make(queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=begin, ended_at=end, executed_s=150.0)
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start))

    rows = {row["key"]: row for row in scenario.about["fidelity"]}
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.about["held"]["policy"] == "fifo"
    assert rows["avg_jct_s"]["happened"] == pytest.approx(150.0)
    assert rows["avg_jct_s"]["error_frac"] == pytest.approx(0.0, abs=1e-6)
    assert rows["makespan_s"]["error_frac"] == pytest.approx(0.0, abs=1e-6)
    assert ScenarioRun.objects.filter(variant=AS_IT_WAS).count() == 1


def test_history_of_another_size_is_told(worlds: Worlds, admin: User) -> None:
    """What was held is compared in GPUs, since the replay may have fewer; the page says so."""
    server, queue = server_make("gpu-01", gpus=2), queue_make("vision", quota_gpus=2)
    for _ in range(3):
        job_make(
            queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=AT, ended_at=AT + timedelta(seconds=300),
            executed_s=300.0,
        )  # fmt: skip
    for minutes in range(5):
        sample_make("cluster", "1", AT + timedelta(minutes=minutes), num_gpus=10, drained_gpus=1, broken_gpus=1)
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start))

    rows = {row["key"]: row for row in scenario.about["fidelity"]}
    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert rows["avg_allocated_gpus"]["happened"] == pytest.approx(6.0)
    assert scenario.about["warnings"][0].startswith("On average 8 GPUs took jobs then. The replay has")
    assert scenario.about["warnings"][0].endswith("with 2, so its waits come out too long")


def test_past_window_has_the_servers_of_then(worlds: Worlds, admin: User) -> None:
    """One is drained since, one was added since, one was lost before half of it, one is removed."""
    queue, hour = queue_make("vision", quota_gpus=4), timedelta(hours=1)
    stayed, drained, removed, brief, new = (server_make(f"gpu-0{n}", gpus=n) for n in range(1, 6))
    Server.objects.exclude(pk=new.pk).update(created_at=AT - hour)
    Server.objects.filter(pk=new.pk).update(created_at=AT + 2 * hour)
    for server, at, before, after in (
        (drained, AT + 2 * hour, "up", "draining"),
        (removed, AT + timedelta(minutes=40), "up", "draining"),
        (brief, AT - hour, "joining", "up"),
        (brief, AT - timedelta(minutes=10), "up", "lost"),
        (brief, AT + 2 * hour, "lost", "up"),
    ):
        Event.objects.create(kind="server_state", at=at, server=server, old_state=before, new_state=after, actor="ada")
        Server.objects.filter(pk=server.pk).update(state=after)
    Server.objects.filter(pk=removed.pk).update(state="lost", removed_at=AT + 3 * hour)
    job_make(
        queue, state=JobState.COMPLETED, server=stayed, num_gpus=1, at=AT, ended_at=AT + timedelta(seconds=300),
        executed_s=300.0,
    )  # fmt: skip
    since = AT - 3 * hour  # no server was there before the last two hours of it
    start = {"kind": "past", "since": since.isoformat(), "until": (AT + hour).isoformat()}

    scenario = finished(worlds, ask(admin, start=start))

    assert scenario.state == ScenarioState.COMPLETED, scenario.error
    assert scenario.base is not None
    assert json.loads(unpacked(bytes(scenario.base)))["servers"]["names"] == ["gpu-01", "gpu-02", "gpu-03"]
    (told,) = scenario.about["warnings"]
    assert told.startswith("Other servers took jobs then than do now.")
    assert told.endswith("with 6 GPUs")


def test_quotas_that_were_others_are_told(worlds: Worlds, admin: User) -> None:
    """Only of queues whose quota is another now; the replay has those of now."""
    server, vision, speech = server_make("gpu-01", gpus=6), queue_make("vision", quota_gpus=4), queue_make("speech")
    Server.objects.update(created_at=AT - timedelta(hours=1))
    for queue, minutes, before, after in (
        (vision, 10, 3, 1),
        (vision, 40, 1, 2),
        (vision, 90, 2, 4),
        (speech, 50, speech.quota_gpus, 1),
        (speech, 55, 1, speech.quota_gpus),
    ):
        data = {"before": {"quota_gpus": before}, "after": {"quota_gpus": after}}
        Event.objects.create(kind="quota", at=AT + timedelta(minutes=minutes), queue=queue, data=data, actor="ada")
    job_make(
        vision, state=JobState.COMPLETED, server=server, num_gpus=1, at=AT, ended_at=AT + timedelta(seconds=300),
        executed_s=300.0,
    )  # fmt: skip
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start))

    assert scenario.about["warnings"] == ["Quotas are those of now: vision had 1 GPU then, 4 now"]


def test_history_counts_what_ran_on_when_the_window_began(worlds: Worlds, admin: User) -> None:
    """A job from before the window holds its GPUs in the replay too, for as long as it still ran."""
    server, queue = server_make("gpu-01", gpus=2), queue_make("vision", quota_gpus=2)
    early = job_make(queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=AT - timedelta(seconds=1000))
    Job.objects.filter(pk=early.pk).update(ended_at=AT + timedelta(seconds=300), executed_s=1200.0)
    Attempt.objects.filter(job=early).update(
        created_at=AT - timedelta(seconds=900), ended_at=AT + timedelta(seconds=300)
    )
    job_make(
        queue, state=JobState.COMPLETED, server=server, num_gpus=2, at=AT,
        ended_at=AT + timedelta(seconds=400), executed_s=100.0,
    )  # fmt: skip
    start = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}

    scenario = finished(worlds, ask(admin, start=start, variants=[{"policy": "fifo"}, {"policy": "las"}]))

    rows = {row["key"]: row for row in scenario.about["fidelity"]}
    assert rows["makespan_s"]["happened"] == pytest.approx(400.0)
    assert rows["makespan_s"]["replayed"] == pytest.approx(400.0)
