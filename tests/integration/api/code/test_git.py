"""Code by git: a commit of a real repository behind HTTP becomes a folder; all else is refused with the field."""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents.protocol.code import CodeLimits, CodeRefused
from scheduler.models import Cluster, CodeFolder, CodeGit, Event, Job, Secret
from scheduler.services.code import archives
from scheduler.services.code.archive_reading import entries_unpack
from scheduler.services.code.git_child import _Git
from scheduler.services.jobs.change import job_change
from scheduler.services.limited_child import child_answer
from scheduler.services.secrets.store import secret_set
from tests.integration.api.conftest import World, spec
from tests.support.rows.code import FILES, digest_of
from tests.support.rows.factories import AT
from tests.support.rows.git import GitServer, git, git_server

pytestmark = pytest.mark.usefixtures("processes")
COMMIT = "0123456789" * 4
JSON = "application/json"
NESTED = {f"src/{path}": content for path, content in FILES.items()} | {"README.md": b"read me\n", "run.sh": b"#!"}


@pytest.fixture
def served(world: World, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    """A server of repositories that an admin allows; folders have at most 50 files and 2 MiB."""
    monkeypatch.setattr(archives, "child_answer", child_answer)
    Cluster.objects.update_or_create(pk=1, defaults={"code_most_files": 50, "code_most_bytes": 2 * 2**20})
    root = tmp_path / "repositories"
    root.mkdir()
    with git_server(root) as served:
        settings.GIT_HOSTS = [served.host]
        settings.GIT_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
        yield served


def submit(client: Client, code: dict[str, Any], **changes: Any) -> Any:
    """Submit a job with this code; return the answer."""
    return client.post("/api/v1/jobs", spec(code=code, **changes), content_type=JSON)


def refusal(answer: Any) -> dict[str, str]:
    """Return the one error of an answer, after which nothing is kept."""
    assert answer.status_code == 400, answer.content
    [error] = answer.json()["errors"]
    assert not CodeFolder.objects.exists()
    return dict(error)


def test_commit_gives_the_same_folder_as_its_files(world: World, served: GitServer) -> None:
    """A folder of the repository has the digest that it has when it is sent; the stored spec says where it is from."""
    commit = served.repository("vision.git", NESTED)
    code = {"git": f"{served.url}/vision.git", "commit": commit, "subdir": "src"}
    answer = submit(world.client("member"), code)

    assert answer.status_code == 201, answer.content
    job = Job.objects.get(pk=answer.json()["id"])
    assert job.code == digest_of()
    assert job.spec["code"] == {**code, "manifest": f"sha256:{digest_of()}"}


def test_commit_is_fetched_once_for_each_user(world: World, served: GitServer) -> None:
    """Preview, many jobs and a stored spec that is sent again ask the host nothing more; another user asks anew."""
    commit = served.repository("vision.git", NESTED)
    code = {"git": f"{served.url}/vision.git", "commit": commit}
    client = world.client("member")
    previewed = client.post("/api/v1/jobs?dry_run=true", spec(code=code), content_type=JSON)
    asked = len(served.asked)
    stored = submit(client, code).json()["spec"]
    again = client.post("/api/v1/jobs", stored, content_type=JSON)
    bulk = client.post("/api/v1/jobs/bulk", {"jobs": [spec(code=code)] * 3}, content_type=JSON)

    assert [previewed.status_code, again.status_code, bulk.status_code] == [200, 201, 201], bulk.content
    assert again.json()["spec"] == stored
    assert asked == len(served.asked) > 0
    assert submit(world.client("lead"), code).status_code == 201
    assert len(served.asked) > asked
    assert CodeGit.objects.count() == 2


def test_a_lead_changes_a_job_whose_commit_its_owner_fetched(world: World, served: GitServer) -> None:
    """What the job may use is its owner's; the lead has fetched nothing."""
    commit = served.repository("vision.git", NESTED)
    answer = submit(world.client("member"), {"git": f"{served.url}/vision.git", "commit": commit})
    job = Job.objects.get(pk=answer.json()["id"])

    changed = job_change(actor=world.users["lead"], job=job, change={"cpus": 1}, at=AT)

    assert changed.spec["resources"]["cpus"] == 1
    assert changed.code == job.code


def test_programs_and_empty_files_stay(world: World, served: GitServer) -> None:
    """The right to run a file is kept, and a file without content."""
    commit = served.repository("a.git", {"run.sh": b"#!", "empty.txt": b"", "after.txt": b"x"})
    answer = submit(world.client("member"), {"git": f"{served.url}/a.git", "commit": commit})

    digest = answer.json()["spec"]["code"]["manifest"]
    assert digest == f"sha256:{CodeFolder.objects.get().pk}"
    assert CodeFolder.objects.get().num_bytes == 3


def test_commit_of_64_digits_is_fetched(world: World, served: GitServer) -> None:
    """Repositories that name their commits by SHA-256 have the same folder."""
    commit = served.repository("a.git", FILES, hashes="sha256")
    answer = submit(world.client("member"), {"git": f"{served.url}/a.git", "commit": commit})

    assert (len(commit), answer.status_code) == (64, 201), answer.content
    assert Job.objects.get(pk=answer.json()["id"]).code == digest_of()


def test_commit_that_cannot_be_listed_to_its_end_is_refused(tmp_path: Path) -> None:
    """No part of a folder passes for the whole: here a folder of the commit is missing from the repository."""
    made = GitServer(tmp_path)
    commit = made.repository("repo.git", {"a.py": b"x", "lib/b.py": b"y"})
    lib = git(tmp_path / "repo.git", "rev-parse", f"{commit}:lib")
    (tmp_path / "repo.git" / "objects" / lib[:2] / lib[2:]).unlink()
    task = {"url": "https://example.org/a.git", "commit": commit, "subdir": "", "host": "example.org", "resolve": ""}
    limits = CodeLimits(files=50, num_bytes=2**20)
    target = tmp_path / "files"
    target.mkdir()

    with pytest.raises(CodeRefused, match="cannot be listed"):
        entries_unpack(_Git(tmp_path, task, "", most_bytes=2**20).entries(), target, limits)


def test_key_of_the_user_or_the_queue_opens_a_repository(world: World, served: GitServer) -> None:
    """Without it the sentence says what to write; its use is recorded, and its value is nowhere."""
    served.password = "git:token-0123456789"
    commit = served.repository("a.git", FILES)
    code = {"git": f"{served.url}/a.git", "commit": commit}
    client = world.client("member")
    without = refusal(submit(client, code))
    missing = refusal(submit(client, {**code, "key": {"secret": "deploy"}}))
    wrong = refusal(submit(client, {**code, "key": {"secret": "wandb"}}))
    secret_set(actor=world.users["lead"], queue=world.vision, name="deploy", value="token-0123456789", at=AT)
    answer = submit(client, {**code, "key": {"secret": "deploy", "of": "queue"}})

    assert (without["pointer"], without["code"]) == ("/code/key", "key")
    assert "key: {secret: deploy}" in without["detail"]
    assert (missing["pointer"], missing["code"]) == ("/code/key", "no_secret")
    assert wrong["pointer"] == "/code/key"
    assert answer.status_code == 201, answer.content
    assert answer.json()["spec"]["code"]["key"] == {"secret": "deploy", "of": "queue"}
    assert "token-0123456789" not in answer.content.decode()
    event = Event.objects.filter(kind="secret", reason="fetch").order_by("-pk")[0]
    assert event.data == {"name": "deploy", "of": "queue", "host": served.host}
    assert Secret.objects.get(name="deploy").last_used_at is not None
    feed = world.client("lead").get("/queues/vision/secrets").content.decode()
    assert f"fetched code from {served.host} with deploy" in feed


def test_no_host_is_allowed_until_an_admin_says_so(world: World, served: GitServer, settings: Any) -> None:
    """The error says which line an admin writes; nothing is asked of the host."""
    commit = served.repository("a.git", FILES)
    code = {"git": f"{served.url}/a.git", "commit": commit}
    settings.GIT_HOSTS = []
    none = refusal(submit(world.client("member"), code))
    settings.GIT_HOSTS = ["github.com"]
    other = refusal(submit(world.client("member"), code))
    settings.GIT_HOSTS, settings.GIT_NETWORKS = [served.host], []
    private = refusal(submit(world.client("member"), code))

    assert (none["pointer"], none["code"]) == ("/code/git", "host")
    assert f"GIT_HOSTS={served.host}" in none["detail"]
    assert "from github.com, not from" in other["detail"]
    assert "no public address" in private["detail"]
    assert "GIT_NETWORKS" in private["detail"]
    assert served.asked == []


def test_host_that_sends_on_is_not_followed(world: World, served: GitServer) -> None:
    """A redirect leads nowhere, whatever is allowed."""
    commit = served.repository("a.git", FILES)
    served.redirect = f"http://localhost:{served.host.partition(':')[2]}/other"
    error = refusal(submit(world.client("member"), {"git": f"{served.url}/a.git", "commit": commit}))

    assert "sends on to another address" in error["detail"]
    assert not any(path.startswith("/other") for path in served.asked)


def bomb(served: GitServer) -> str:
    """Return a commit of a few objects that holds ten thousand files."""
    served.repository("evil.git", {"a": b"x"})
    repo = served.root / "evil.git"
    blob = git(repo, "hash-object", "-w", "--stdin", given=b"bomb")
    kind, entry = "100644 blob", blob
    for _ in range(4):
        lines = "".join(f"{kind} {entry}\tf{at}\n" for at in range(10))
        entry, kind = git(repo, "mktree", given=lines.encode()), "040000 tree"
    return served.commit_tree("evil.git", entry)


def submodule(served: GitServer) -> str:
    """Return a commit with another repository in it."""
    served.repository("evil.git", {"a": b"x"})
    return served.commit("evil.git", [f"160000 {COMMIT}\tlibs/other"])


def not_text(served: GitServer) -> str:
    """Return a commit with a name that is no UTF-8."""
    served.repository("evil.git", {"a": b"x"})
    repo = served.root / "evil.git"
    blob = git(repo, "hash-object", "-w", "--stdin", given=b"x")
    return served.commit_tree("evil.git", git(repo, "mktree", given=f"100644 blob {blob}\tevil".encode() + b"\xff\n"))


def dots(served: GitServer) -> str:
    """Return a commit with a file that leads out of the folder."""
    served.repository("evil.git", {"a": b"x"})
    repo = served.root / "evil.git"
    blob = git(repo, "hash-object", "-w", "--stdin", given=b"x")
    tree = b"100644 evil.py\0" + bytes.fromhex(blob)
    inner = git(repo, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=tree)
    outer = git(
        repo,
        *("hash-object", "-w", "-t", "tree", "--literally", "--stdin"),
        given=b"40000 ..\0" + bytes.fromhex(inner),
    )
    return served.commit_tree("evil.git", outer)


HOSTILE: dict[str, tuple[Any, str]] = {
    "link out of it": ({"evil": b"link:/etc/passwd"}, "evil is a link"),
    "link within": ({"a": b"x", "b": b"link:a"}, "b is a link"),
    "submodule": (submodule, "libs/other is a submodule"),
    "traversal": (dots, "leads out"),
    "case": ({"a/Net.py": b"x", "a/net.py": b"y"}, "a/Net.py and a/net.py differ by case alone"),
    "too many": ({f"f{at:02}": b"" for at in range(60)}, "more than 50 files, from f50 on"),
    "bomb of trees": (bomb, "more than 50 files"),
    "bomb of zeros": ({"evil.bin": bytes(3 * 2**20)}, "from evil.bin on"),
    "name that is no text": (not_text, "has a character in its name that cannot be seen"),
    "backslash": ({"..\\evil.py": b"x"}, "has a backslash in its name"),
    "nothing": ({}, "The folder holds no file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_commit_is_refused_with_the_name_and_nothing_stays(
    world: World, served: GitServer, settings: Any, name: str
) -> None:
    """The checks are those of archives; no file of it is left in the store."""
    made, told = HOSTILE[name]
    commit = made(served) if callable(made) else served.repository("evil.git", made)
    error = refusal(submit(world.client("member"), {"git": f"{served.url}/evil.git", "commit": commit}))

    assert told in error["detail"], error
    assert error["pointer"] == "/code/git"
    assert [path for path in Path(settings.SHARED_DIR).rglob("*") if path.is_file()] == []


def test_large_commit_is_refused_while_it_arrives(world: World, served: GitServer) -> None:
    """What git itself writes is held to the limit as well, also outside of the folder that is wanted."""
    noise = b"".join(ipaddress.ip_address(at * 2**96 + at * 7919).packed for at in range(1, 250_000))
    commit = served.repository("evil.git", {"data.bin": noise, "src/train.py": b"x"})
    Cluster.objects.update(code_most_bytes=2**16)
    code = {"git": f"{served.url}/evil.git", "commit": commit, "subdir": "src"}
    error = refusal(submit(world.client("member"), code))

    assert (error["code"], error["pointer"]) == ("size", "/code/git"), error


def test_what_is_not_there_is_said_of_its_field(world: World, served: GitServer) -> None:
    """A repository, a commit, a folder; a tree is no commit."""
    commit = served.repository("a.git", {"src/train.py": b"x"})
    tree = git(served.root / "a.git", "rev-parse", f"{commit}^{{tree}}")
    code = {"git": f"{served.url}/a.git", "commit": commit}
    client = world.client("member")
    wrong = [{**code, "git": f"{served.url}/b.git"}, {**code, "commit": COMMIT}, {**code, "commit": tree}]
    wrong += [{**code, "subdir": "lib"}, {**code, "subdir": "src/train.py"}]

    pointers = [refusal(submit(client, one))["pointer"] for one in wrong]

    assert pointers == ["/code/git", "/code/commit", "/code/commit", "/code/subdir", "/code/subdir"]


def test_server_without_git_says_so(world: World, served: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An admin installs it; nothing of ours speaks the protocol."""
    commit = served.repository("a.git", FILES)
    monkeypatch.setenv("PATH", "/nonexistent")
    error = refusal(submit(world.client("member"), {"git": f"{served.url}/a.git", "commit": commit}))

    assert error["detail"] == "This server has no git. An admin installs it."


def test_viewer_and_wrong_queue_fetch_nothing(world: World, served: GitServer) -> None:
    """Who may not submit there makes the server ask no host."""
    commit = served.repository("a.git", FILES)
    code = {"git": f"{served.url}/a.git", "commit": commit}

    assert submit(world.client("viewer"), code).status_code == 403
    assert submit(world.client("member"), code, queue="speech").status_code == 400
    assert served.asked == []


def test_one_request_fetches_at_most_eight_commits(world: World, served: GitServer) -> None:
    """A request cannot keep the server busy with hundreds of them, and fetches nothing of too many."""
    commits = [f"{at:040x}" for at in range(9)]
    jobs = [spec(code={"git": f"{served.url}/a.git", "commit": commit}) for commit in commits]
    answer = world.client("member").post("/api/v1/jobs/bulk", {"jobs": jobs}, content_type=JSON)
    error = refusal(answer)

    assert (error["pointer"], error["code"]) == ("/jobs/8/code/commit", "too_many")
    assert served.asked == []


def test_other_manifest_beside_a_commit_is_refused(world: World, served: GitServer) -> None:
    """A stored spec cannot claim to come from a commit."""
    commit = served.repository("a.git", FILES)
    code = {"git": f"{served.url}/a.git", "commit": commit, "manifest": f"sha256:{'ab' * 32}"}
    answer = submit(world.client("member"), code)

    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/code/manifest"]


def test_requirements_of_a_commit_make_an_environment(world: World, served: GitServer) -> None:
    """The file that an environment is built from is found in the commit."""
    commit = served.repository("a.git", {**FILES, "requirements.txt": b"einops\n"})
    code = {"git": f"{served.url}/a.git", "commit": commit}
    answer = submit(world.client("member"), code, python={"requirements": "requirements.txt"})
    missing = submit(world.client("member"), code, python={"requirements": "other.txt"})

    assert answer.status_code == 201, answer.content
    assert [error["pointer"] for error in missing.json()["errors"]] == ["/python/requirements"]
