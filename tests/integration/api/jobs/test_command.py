"""The ``clusterweb`` command against a web server that listens on a port."""

import io
import json
import re
import stat
import sys
from pathlib import Path

import pytest
from django.conf import settings
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from clusterweb.cli.servers import NONE_LEFT
from clusterweb.client import rows
from clusterweb.client.rest import Rest
from scheduler.api.jobs.logs import LogRow
from scheduler.core.model.plan import WaitReason
from scheduler.models import Cluster, Job, Server, WrittenLoss
from scheduler.models.server import ServerState
from scheduler.selectors.cluster import environments
from scheduler.selectors.files import rows as file_rows
from scheduler.selectors.jobs import reason_rows
from scheduler.selectors.jobs import rows as job_rows
from tests.integration.api.conftest import World
from tests.integration.api.jobs.conftest import SPEC, sign_in
from tests.support.rows.factories import AT, gang_make, job_make, server_make


def test_submitted_spec_is_stored_as_by_rest(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The same YAML with its file gives the same stored spec by command and by REST."""
    assert main(["submit", "job.yaml", "--file", "train.py", "-o", "json"]) == 0
    by_command = json.loads(capsys.readouterr().out)
    body = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["python", "train.py"]}
    body["files"] = {"train.py": "print('hello')\n"}  # type: ignore[assignment]
    by_rest = shop.client("member").post(
        "/api/v1/jobs", body, content_type="application/json", headers=shop.bearer("member")
    )

    assert Job.objects.get(pk=by_command["id"]).spec == Job.objects.get(pk=by_rest.json()["id"]).spec


def test_dry_run_stores_nothing(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run prints the checks."""
    before = Job.objects.count()

    assert main(["submit", "job.yaml", "--dry-run"]) == 0
    assert "ok  Jobs of vision start on every server that takes jobs." in capsys.readouterr().out
    Cluster.objects.update(paused=True)
    assert main(["submit", "job.yaml", "--dry-run"]) == 0
    assert "NO  An admin paused the scheduler." in capsys.readouterr().out
    assert Job.objects.count() == before


def test_every_bad_field_is_named(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A spec with two wrong fields is refused with a line for each, status 1."""
    Path("job.yaml").write_text(SPEC + "resources: {gpus: 0}\ntypo: 1\n")

    assert main(["submit", "job.yaml"]) == 1
    said = capsys.readouterr().err
    assert "/resources/gpus" in said
    assert "/typo" in said


def test_one_bad_field_is_told_once(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The one of a query is told by its sentence alone; a spec's with its place, in the cluster's word for devices."""
    Server.objects.update(device_kind="cpu_slot")
    assert main(["ls", "--state", "foo"]) == 1
    filtered = capsys.readouterr().err
    Path("job.yaml").write_text(SPEC + "resources: {gpus: 0}\n")
    assert main(["submit", "job.yaml"]) == 1

    assert filtered.startswith("state must be a comma-separated list")
    assert len(filtered.splitlines()) == 1
    said = "  /resources/gpus: CPU slots must be between 1 and 4096. You asked for 0. This cluster has 4 CPU slots."
    assert capsys.readouterr().err.splitlines() == ["One field is wrong.", said]


@pytest.mark.parametrize(
    ("asked", "ending"), [("queud", ", not 'queud'. Did you mean 'queued'?"), ("queued,foo", ", not 'foo'.")]
)
def test_a_wrong_word_of_a_list_is_repeated(
    shop: World, asked: str, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the word that comes near it, as for the keys of a spec."""
    assert main(["ls", "--state", asked]) == 1

    assert capsys.readouterr().err.strip().endswith(ending)


def test_list_walks_over_pages_and_filters(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """ls shows what matches, and says so when nothing does."""
    for _ in range(3):
        assert main(["submit", "job.yaml"]) == 0
    capsys.readouterr()

    assert main(["ls", "--state", "queued", "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("JOB")
    assert main(["ls", "--search", "no-such-name"]) == 0
    assert capsys.readouterr().out == "No job matches.\n"


def test_job_verbs(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """get, explain, suspend (or pause), resume, cancel, logs work by number; one bad name does not stop others."""
    main(["submit", "job.yaml"])
    number = capsys.readouterr().out.split()[0]

    assert main(["get", number]) == 0
    assert "vision" in capsys.readouterr().out
    assert main(["explain", number]) == 0
    said = capsys.readouterr().out
    assert "The next round decides about it." in said
    assert "CPU slots in the cluster: " in said
    assert main(["logs", number]) == 0
    assert "has not started" in capsys.readouterr().err
    for verb in ("suspend", "pause"):
        assert main([verb, number]) == 0
        assert capsys.readouterr().out == f"{number}  suspended\n"
        assert main(["resume", number]) == 0
        capsys.readouterr()
    assert main(["cancel", "J-999999", number]) == 1
    captured = capsys.readouterr()
    assert "J-999999" in captured.err
    assert captured.out.splitlines()[-1] == f"{number}  cancelled"


def test_loss_of_a_job_that_reports_none_is_that_of_its_files(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """With the file it is from, by command and by REST; one that was reported comes before it."""
    job, path = shop.job, f"/api/v1/jobs/{shop.job.pk}"
    Job.objects.filter(pk=job.pk).update(loss=None, first_started_at=job.submitted_at)
    assert shop.client("member").get(path).json()["written_loss"] is None
    WrittenLoss.objects.create(job=job, loss=0.5, step=7, source="loss in out/metrics.csv", read_at=job.submitted_at)

    assert shop.client("member").get(path).json()["written_loss"] == {
        "loss": 0.5,
        "step": 7,
        "source": "loss in out/metrics.csv",
    }
    assert main(["get", f"J-{job.number}"]) == 0
    assert re.search(r"loss +0\.5 \(loss in out/metrics.csv\)\n", capsys.readouterr().out)
    Job.objects.filter(pk=job.pk).update(loss=0.25)
    assert main(["get", f"J-{job.number}"]) == 0
    assert re.search(r"loss +0\.25\n", capsys.readouterr().out)


def test_explain_says_what_to_do_and_names_no_job_ahead_that_cannot_start(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the page; a job whose place a round would not give is in no list."""
    monkeypatch.setattr("scheduler.api.jobs.history.job_unblockers", lambda user, job, at: [])
    stuck, first, job = (job_make(shop.vision, owner=shop.users["member"], name=name) for name in ("no", "go", "me"))
    never = {"needed_gpus": 99, "largest_possible_gpus": 4}
    for row, place, reason, evidence in (
        (stuck, None, WaitReason.NEVER_FEASIBLE, never),
        (first, 1, WaitReason.NO_CAPACITY, {}),
        (job, 2, WaitReason.BEHIND_POLICY_ORDER, {"needed_gpus": 1, "free_gpus": 0}),
    ):
        Job.objects.filter(pk=row.pk).update(wait_position=place, wait_reason=reason, wait_evidence=evidence)

    assert main(["explain", f"J-{job.number}"]) == 0
    said = capsys.readouterr().out
    assert "1 job is ahead" in said
    assert f"J-{first.number} go" in said
    assert f"J-{stuck.number}" not in said
    assert said.endswith("\nNo change of the job that we tried would start it sooner. Each round tries again.\n")
    assert main(["explain", f"J-{stuck.number}"]) == 0
    said = capsys.readouterr().out
    assert "\nNo change of the job that we tried would start it. It cannot start until servers that can give it" in said
    assert " in line" not in said


def test_log_of_a_rank_and_how_often_a_command_starts(
    shop: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--rank`` chooses the process; what is submitted for several servers says what it starts."""
    attempt = shop.job.attempts.get()
    directory = Path(settings.SHARED_DIR) / "attempts" / gang_make(attempt).pk
    directory.mkdir(parents=True)
    (directory / f"log.{0:020d}").write_text("of rank 1\n")
    spec = {"apiVersion": "v1", "name": "wide", "queue": "vision", "command": ["./run"], "launch": {"per": "server"}}
    Path("wide.json").write_text(json.dumps({**spec, "resources": {"gpus": 2, "max_servers": 2}}), encoding="utf-8")

    assert main(["logs", f"J-{shop.job.number}", "--rank", "1"]) == 0
    assert capsys.readouterr().out == "of rank 1\n"
    assert main(["logs", f"J-{shop.job.number}", "--rank", "7"]) == 0
    assert "numbered 0 to 1" in capsys.readouterr().err
    assert main(["submit", "wide.json", "--dry-run"]) in (0, 1)
    assert "Its command starts once on each" in capsys.readouterr().out
    assert main(["submit", "wide.json"]) == 0
    said = capsys.readouterr()
    assert said.err == "Its command starts once on each server.\n"
    assert main(["get", said.out.split()[0]]) == 0
    assert "starts    once on each server" in capsys.readouterr().out


def test_cancel_of_a_waiting_job_is_taken_back(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says how, and does it."""
    main(["submit", "job.yaml"])
    number = capsys.readouterr().out.split()[0]

    assert main(["cancel", number]) == 0
    assert f"clusterweb undo {number}" in capsys.readouterr().err
    assert main(["undo", number]) == 0
    assert capsys.readouterr().out == f"{number}  queued\n"


def test_failures_are_counted_only_while_the_job_is_tried_again(
    shop: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it has failed, how it ended says why."""
    number = f"J-{shop.job.number}"
    Job.objects.filter(pk=shop.job.pk).update(failures=1)
    assert main(["get", number]) == 0
    assert "1 of at most" in capsys.readouterr().out

    Job.objects.filter(pk=shop.job.pk).update(
        state="failed", ended_at=AT, end_detail="Not tried again: its code is wrong."
    )
    assert main(["get", number]) == 0
    said = capsys.readouterr().out
    assert "Not tried again" in said
    assert "of at most" not in said


def test_priority_is_changed_and_a_bad_one_refused(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The job has it in its spec; a number out of range names the field."""
    main(["submit", "job.yaml"])
    number = capsys.readouterr().out.split()[0]

    assert main(["priority", number, "80"]) == 0
    assert capsys.readouterr().out == f"{number}  priority 80 from the next round on\n"
    assert main(["priority", number, "101"]) == 1
    assert "/priority: It must be a whole number between 0 and 100." in capsys.readouterr().err
    assert Job.objects.get(number=int(number.removeprefix("J-"))).priority == 80


def test_templates_are_kept_listed_printed_and_removed(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is a spec that can be submitted again."""
    assert main(["templates", "add", "job.yaml", "--queue", "vision", "--name", "nightly run"]) == 0
    key = capsys.readouterr().out.split()[0]
    assert main(["templates"]) == 0
    assert "nightly run" in capsys.readouterr().out
    assert main(["templates", "get", key]) == 0
    Path("again.json").write_text(capsys.readouterr().out)
    assert main(["submit", "again.json"]) == 0
    assert capsys.readouterr().out.startswith("J-")
    assert main(["templates", "rm", key]) == 0
    assert main(["templates", "get", key]) == 2
    assert main(["templates", "add", "job.yaml"]) == 2
    said = capsys.readouterr().err
    assert f"There is no template {key}" in said
    assert "--queue and --name" in said


def test_server_is_renamed_labelled_drained_and_undrained_with_a_reason(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An admin's verb; what still runs is not removed."""
    assert main(["server", "rename", "server-01", "gpu-17", "--reason", "new rack"]) == 1
    sign_in(shop, "admin", monkeypatch)
    assert main(["server", "label", "server-01", "west"]) == 2
    assert main(["server", "rename", "server-01", "gpu-17", "--reason", "new rack"]) == 0
    assert main(["server", "label", "gpu-17", "west", "new fans", "--reason", "new rack"]) == 0
    assert main(["server", "drain", "gpu-17", "--reason", "new fans"]) == 0
    assert Server.objects.get(pk=shop.server.pk).state == ServerState.DRAINING
    assert main(["server", "undrain", "gpu-17", "gpu-18", "--reason", "has them"]) == 2
    assert main(["server", "undrain", "gpu-17", "--reason", "has them"]) == 0
    said = capsys.readouterr().out
    assert "gpu-17 takes no more jobs; those on it are asked to save and to leave." in said
    assert NONE_LEFT in said
    assert "gpu-17 takes jobs again." in said
    assert main(["server", "remove", "gpu-17", "--reason", "sold"]) == 1
    assert "is up and takes jobs" in capsys.readouterr().err
    server = Server.objects.get(pk=shop.server.pk)
    assert (server.name, server.labels) == ("gpu-17", ["west", "new fans"])


def test_drain_of_one_server_of_several_says_nothing_of_the_others(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs still start elsewhere."""
    server_make("server-02")
    sign_in(shop, "admin", monkeypatch)

    assert main(["server", "drain", "server-01", "--reason", "new fans"]) == 0
    assert NONE_LEFT not in capsys.readouterr().out


def test_login_stores_the_token_for_its_owner_alone(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, live_server: LiveServer
) -> None:
    """The token comes from standard input, is checked, and lies in a file that others cannot read."""
    token = sign_in(shop, "lead", monkeypatch)
    monkeypatch.delenv("CLUSTERWEB_TOKEN")
    monkeypatch.delenv("CLUSTERWEB_URL")
    assert main(["ls"]) == 2

    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong\n"))
    assert main(["login", live_server.url]) == 1
    monkeypatch.setattr(sys, "stdin", io.StringIO(token + "\n"))
    assert main(["login", live_server.url]) == 0
    stored = next(Path("config").rglob("account.json"))
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert main(["top"]) == 0
    assert token not in capsys.readouterr().out


@pytest.mark.usefixtures("connections")
def test_server_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is named, and no traceback shown."""
    monkeypatch.setattr("clusterweb.client.rest._AGAIN_S", (0.0, 0.0))
    monkeypatch.setenv("CLUSTERWEB_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CLUSTERWEB_TOKEN", "x")

    assert main(["ls"]) == 2
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("read", "sent"),
    [
        (rows.JobLine, job_rows.JobRow),
        (rows.JobAnswer, job_rows.JobDetail),
        (rows.WrittenLoss, job_rows.WrittenLossRow),
        (rows.AttemptAnswer, job_rows.AttemptRow),
        (rows.Directory, job_rows.Directory),
        (rows.LogPiece, LogRow),
        (rows.FileLine, file_rows.FileRow),
        (rows.FolderAnswer, file_rows.FolderRow),
        (rows.Check, reason_rows.CheckRow),
        (rows.Explanation, reason_rows.ExplanationWithChanges),
        (rows.JobAhead, reason_rows.JobAhead),
        (rows.EnvironmentAnswer, environments.EnvironmentRow),
        (rows.Build, environments.BuildRow),
        (rows.Change, reason_rows.UnblockRow),
        (rows.Estimate, reason_rows.EstimateRow),
        (rows.Estimate, reason_rows.SimulatedStart),
        (rows.DryRun, reason_rows.DryRun),
        (rows.Preview, reason_rows.JobPreview),
        (rows.PreemptedJob, reason_rows.PreemptedJob),
    ],
)
def test_every_field_that_the_command_reads_is_sent(read: type, sent: type) -> None:
    """The command names fields again, since it may stand alone on a laptop; the server has each of them."""
    assert set(read.__annotations__) <= set(sent.__annotations__)


def test_top_says_which_servers_are_simulated(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside their state, as the pages do; a real one has its state alone."""
    server_make("gpu-real", device_kind="gpu")
    server_make("gpu-none", agent_version="simulated 0.1.0")

    assert main(["top"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("gpu-")}
    assert "up, as simulated" in lines["gpu-none"]
    assert "simulated" not in lines["gpu-real"]


def test_top_and_the_pages_count_drained_devices_alike(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """They are named, and are none of those of which some are held."""
    server_make("gpu-drained", gpus=4, state=ServerState.DRAINING)
    assert main(["top"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    held, usable = re.match(r"(\d+) of (\d+) ", line).groups()  # type: ignore[union-attr]  # it fails here else

    assert ", 4 drained, " in line
    for path in ("/", "/cluster"):
        assert f"{held} of {usable} " in shop.client("admin").get(path).content.decode().replace("\u00a0", " ")


def test_top_calls_the_devices_what_pages_call_them(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine without GPUs has CPU slots; where both are there they are devices."""
    for kind, words in (("cpu_slot", "CPU slots"), ("gpu", "GPUs")):
        Server.objects.update(device_kind=kind)
        assert main(["top"]) == 0
        said = capsys.readouterr().out
        assert f" {words} held, " in said.splitlines()[0]
        assert f"  {words.upper()}  " in said
    server_make(device_kind="cpu_slot")
    assert main(["top"]) == 0
    assert " devices held, " in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["ls", "get", "explain"])
def test_sentences_call_the_devices_what_pages_call_them(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A job that waits on a machine of CPU slots waits for no GPU; no server is asked for; JSON is as of REST."""
    main(["submit", "job.yaml"])
    number = capsys.readouterr().out.split()[0]
    evidence = {"needed_gpus": 1, "free_gpus": 0}
    Job.objects.filter(number=int(number[2:])).update(wait_reason=WaitReason.NO_CAPACITY, wait_evidence=evidence)
    Server.objects.update(device_kind="cpu_slot")
    given, asked, get = [verb] if verb == "ls" else [verb, number], list[str](), Rest.get

    def noted(rest: Rest, path: str, /, **query: object) -> object:
        asked.append(path)
        return get(rest, path, **query)

    monkeypatch.setattr(Rest, "get", noted)

    assert main(given) == 0
    said = capsys.readouterr().out
    assert len(asked) == 1
    assert "needs 1 CPU slot; none is free" in said
    assert "GPU" not in said
    assert main([*given, "-o", "json"]) == 0
    assert "needs 1 GPU; none is free" in capsys.readouterr().out
