"""One spec, however it comes: by form, by REST as curl sends it, by the command, the stored bytes are the same."""

import ipaddress
import json
import os
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from scheduler.models import Job
from scheduler.services.accounts.tokens import token_create
from scheduler.services.code import archives
from scheduler.services.limited_child import child_answer
from tests.integration.api.conftest import World, world_make
from tests.support.rows.code import digest_of, folder_send
from tests.support.rows.git import git_server

SCRIPT = "print('ä')\nprint(2)\n"
# Every field there is, none at its default.
SPEC: dict[str, Any] = {
    "apiVersion": "v1",
    "name": "resnet",
    "queue": "vision",
    "command": ["python", "train.py", "--note", "two words"],
    "code": {"manifest": f"sha256:{digest_of()}"},
    "files": {"train.py": SCRIPT, "requirements.txt": "einops\n"},
    "python": {"requirements": "requirements.txt"},
    "env": {
        "SEED": "1",
        "NOTE": "a=b  c ",
        "WANDB_API_KEY": {"secret": "wandb"},
        "S3_KEY": {"secret": "wandb", "of": "queue"},
        "RUN_TOKEN": {"plain": 'a1b2c3"d4e5f6a7'},
    },
    "resources": {
        "gpus": 2,
        "min_gpus": 1,
        "max_gpus": 4,
        "max_servers": 2,
        "cpus": 1.5,
        "memory": "1Gi",
        "disk": "3GiB",
    },
    "launch": {"per": "gpu"},
    "schedule": {"priority": 70, "preemptible": False, "max_duration": "90m", "warn_before": "2m"},
    "checkpoint": {"grace": "45s", "signal": "USR1"},
    "retry": {"max": 1},
    "progress": {"total_steps": 600, "stall": "10m", "early_stop": True},
    "profile": "auto-canary",
    "labels": {"model": "resnet"},
    "array": "1,3%1",
    "depends_on": [{"J-1": "ended"}],
}
FIELDS = {
    "mode": "form",
    "action": "submit",
    "name": "resnet",
    "queue": "vision",
    "command": 'python train.py --note "two words"',
    "code": f"sha256:{digest_of()}",
    "file-0-name": "train.py",
    "file-0-text": SCRIPT,
    "file-1-name": "requirements.txt",
    "file-1-text": "einops\n",
    "python": "requirements.txt",
    "env": (
        'SEED=1\r\nNOTE=a=b  c \r\nWANDB_API_KEY={secret: wandb}\r\nS3_KEY={ secret: "wandb",of: queue }\r\n'
        'RUN_TOKEN={plain: "a1b2c3\\"d4e5f6a7"}'
    ),
    "labels": "model=resnet",
    "array": " 1, 3 % 1",
    "depends_on": "1: ended",
    "profile": "auto-canary",
    "gpus": "2",
    "min_gpus": "1",
    "max_gpus": "4",
    "max_servers": "2",
    "launch": "gpu",
    "cpus": "1.5",
    "memory": "1024MiB",
    "disk": "3Gi",
    "priority": "70",
    "preemptible": "",
    "max_duration": "5400s",
    "warn_before": "120s",
    "grace": "45s",
    "signal": "SIGUSR1",
    "retry": "1",
    "total_steps": "600",
    "stall": "10m",
    "early_stop": "on",
}


@pytest.fixture
def shop(transactional_db: None, live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world behind a port, and the member's token for curl and the command."""
    world = world_make()
    folder_send(world.users["member"])
    _, text = token_create(
        actor=world.users["member"], name="mine", scopes=["jobs:write"], expires_at=None, at=datetime.now(UTC)
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", text)
    monkeypatch.chdir(tmp_path)
    return world


def by_curl(url: str, token: str, body: bytes, content_type: str) -> str:
    """POST as curl does, without a session; return the id."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    request = urllib.request.Request(f"{url}/api/v1/jobs", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return str(json.load(answer)["id"])


def by_form(client: Client, fields: dict[str, str]) -> str:
    """Submit by the form; return the id."""
    answer = client.post("/jobs/new", fields)
    assert answer.status_code == 302, answer.content.decode()
    return Job.objects.get(number=int(answer["Location"].rpartition("-")[2])).pk


@pytest.mark.usefixtures("processes")
def test_form_curl_and_command_store_equal_bytes(
    shop: World, live_server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every field of a spec reaches the store the same way from everywhere, also written otherwise."""
    token = os.environ["CLUSTERWEB_TOKEN"]
    browser = shop.client("member")
    text = yaml.safe_dump(SPEC, allow_unicode=True)
    Path("job.yaml").write_text(yaml.safe_dump({**SPEC, "files": {"requirements.txt": "einops\n"}}), encoding="utf-8")
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    assert main(["submit", "job.yaml", "--file", "train.py", "-o", "json"]) == 0
    by_command = json.loads(capsys.readouterr().out)["id"]

    ids = {
        "command": by_command,
        "curl, JSON": by_curl(live_server.url, token, json.dumps(SPEC).encode(), "application/json"),
        "curl, YAML": by_curl(live_server.url, token, text.encode(), "application/yaml"),
        "form": by_form(browser, FIELDS),
        "form, YAML": by_form(browser, {"mode": "yaml", "action": "submit", "spec": text}),
    }

    stored = {way: json.dumps(Job.objects.get(pk=pk).spec).encode() for way, pk in ids.items()}
    assert len(set(stored.values())) == 1, stored
    whole = json.loads(stored["form"])
    assert whole["resources"]["memory"] == "1GiB"
    assert (whole["resources"]["min_gpus"], whole["resources"]["max_servers"]) == (1, 2)


@pytest.mark.usefixtures("processes")
def test_code_by_git_is_stored_alike_from_everywhere(
    shop: World,
    live_server: LiveServer,
    capsys: pytest.CaptureFixture[str],
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Repository, commit, folder and key reach the store the same way; the form filled from the job gives them back."""
    monkeypatch.setattr(archives, "child_answer", child_answer)
    token, browser = os.environ["CLUSTERWEB_TOKEN"], shop.client("member")
    with git_server(tmp_path) as served:
        served.password = "git:local-0123456789"
        commit = served.repository("vision.git", {"src/train.py": b"print(1)\n"})
        settings.GIT_HOSTS, settings.GIT_NETWORKS = [served.host], [ipaddress.ip_network("127.0.0.0/8")]
        key = {"secret": "wandb", "of": "user"}
        url = f"{served.url}/vision.git"
        code = {"git": url, "commit": commit, "subdir": "src", "key": key}
        spec = {key: value for key, value in SPEC.items() if key not in ("code", "files", "python")} | {"code": code}
        fields = {name: text for name, text in FIELDS.items() if not name.startswith(("code", "file", "python"))}
        fields |= {
            "git": url,
            "git_commit": commit,
            "git_subdir": " src ",
            "git_key": "{secret: wandb, of: user}",
        }
        Path("job.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        assert main(["submit", "job.yaml", "-o", "json"]) == 0
        ids = {
            "command": json.loads(capsys.readouterr().out)["id"],
            "curl": by_curl(live_server.url, token, json.dumps(spec).encode(), "application/json"),
            "form": by_form(browser, fields),
            "form, YAML": by_form(browser, {"mode": "yaml", "action": "submit", "spec": yaml.safe_dump(spec)}),
        }
        page = browser.get(f"/jobs/new?clone={Job.objects.get(pk=ids['form']).number}").context["form"]
        again = {name: str(page[name].value() or "") for name in page.fields if name != "upload"}
        ids["clone"] = by_form(
            browser, {**FIELDS, "file-0-name": "", "file-0-text": "", "file-1-name": "", **again, "file-1-text": ""}
        )

    stored = {way: json.dumps(Job.objects.get(pk=pk).spec).encode() for way, pk in ids.items()}
    assert len(set(stored.values())) == 1, stored
    found = json.loads(stored["form"])["code"]
    assert found.pop("manifest") == f"sha256:{digest_of({'train.py': b'print(1)' + bytes([10])})}"
    assert found == code


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("per", ["", "job", "server", "gpu"])
def test_launch_is_stored_alike_said_or_not(
    shop: World, live_server: LiveServer, capsys: pytest.CaptureFixture[str], per: str
) -> None:
    """Left out it is what the resources imply, everywhere; said it is what was said."""
    token = os.environ["CLUSTERWEB_TOKEN"]
    resources = {"gpus": 2, "max_servers": 1 if per == "job" else 2}
    spec: dict[str, Any] = {"apiVersion": "v1", "name": "a", "queue": "vision", "command": ["./run"]}
    spec |= {"resources": resources} | ({"launch": {"per": per}} if per else {})
    fields = {"mode": "form", "action": "submit", "name": "a", "queue": "vision", "command": "./run", "launch": per}
    fields |= {"gpus": "2", "max_servers": str(resources["max_servers"]), "preemptible": "on"}
    Path("job.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    assert main(["submit", "job.yaml"]) == 0
    said = capsys.readouterr()

    ids = {
        "command": said.out.split()[1],
        "curl": by_curl(live_server.url, token, json.dumps(spec).encode(), "application/json"),
        "form": by_form(shop.client("member"), fields),
    }
    stored = {json.dumps(Job.objects.get(pk=pk).spec) for pk in ids.values()}
    assert len(stored) == 1, stored
    assert json.loads(stored.pop())["launch"] == {"per": per or "gpu"}
    assert ("starts once" in said.err) == (per != "job")


def test_clone_of_a_job_submits_the_same_bytes_again(shop: World) -> None:
    """The form filled from a job holds all of its spec."""
    browser = shop.client("member")
    first = Job.objects.get(pk=by_form(browser, FIELDS))
    page = browser.get(f"/jobs/new?clone=J-{first.number}").context["form"]
    fields = {name: str(page[name].value() or "") for name in page.fields if name != "upload"}

    again = Job.objects.get(pk=by_form(browser, {**FIELDS, **fields}))

    assert json.dumps(again.spec) == json.dumps(first.spec)
