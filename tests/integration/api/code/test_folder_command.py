"""``clusterweb submit .``: what is sent of a folder, and that the second time nothing is."""

import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from clusterweb.client.account import read_account
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError
from clusterweb.client.folders import sending
from clusterweb.client.folders.folder import read_folder
from scheduler.models import CodeBlob, Job
from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World, world_make

SPEC = "apiVersion: v1\nname: package\nqueue: vision\ncommand: [python, train.py]\n"


@pytest.fixture
def shop(transactional_db: None, live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world behind a port, the member's token, and an empty folder to be in."""
    world = world_make()
    _, text = token_create(
        actor=world.users["member"], name="mine", scopes=["jobs:write"], expires_at=None, at=datetime.now(UTC)
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", text)
    folder = tmp_path / "my package"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return world


def write(**files: str) -> None:
    """Write files below the present folder; ``__`` in a name stands for a slash."""
    for name, text in files.items():
        path = Path(name.replace("__", "/").replace("_py", ".py").replace("_yaml", ".yaml"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def paths(root: str = ".") -> list[str]:
    """Return what is sent of a folder."""
    return sorted(file.path for file in read_folder(Path(root)).files)


def test_folder_with_a_spec_is_sent_and_submitted(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files and 5 MB of data; the second time nothing is sent, and a change sends the change alone."""
    write(job_yaml=SPEC, train_py="import model\n", model_py="SIZE = 1\n")
    Path("data.bin").write_bytes(random.Random(1).randbytes(5_000_000))
    assert main(["submit", "."]) == 0
    first = capsys.readouterr()
    assert main(["submit", "."]) == 0
    second = capsys.readouterr()
    write(train_py="import model as m\n")
    assert main(["submit", "."]) == 0
    third = capsys.readouterr()

    assert "4 files sent, 4.8 MiB; 0 were on the server." in first.err
    assert "Nothing to send; 4 were on the server." in second.err
    assert "1 file sent, 18 B; 3 were on the server." in third.err
    one, same, changed = Job.objects.filter(name="package").order_by("number").values_list("code", flat=True)
    assert one == same != changed


def test_folder_without_a_spec_takes_flags_and_a_command(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Name from the folder; the rest is said."""
    write(train_py="print(1)\n")
    assert (
        main(["submit", ".", "--queue", "vision", "--gpus", "2", "-o", "json", "--", "python", "train.py", "-v"]) == 0
    )
    job = json.loads(capsys.readouterr().out)

    assert job["name"] == "my-package"
    assert job["spec"]["command"] == ["python", "train.py", "-v"]
    assert job["spec"]["resources"]["gpus"] == 2
    assert job["spec"]["code"]["manifest"].startswith("sha256:")
    assert job["spec"]["python"] is None


@pytest.mark.parametrize(
    ("files", "flags", "python"),
    [
        ({"requirements.txt": "tiny==1.0\n"}, [], {"requirements": "requirements.txt"}),
        (
            {"requirements.txt": "tiny==1.0\n", "uv.lock": "version = 1\n", "pyproject.toml": ""},
            [],
            {"lock": "uv.lock"},
        ),
        ({"requirements.txt": "tiny==1.0\n", "uv.lock": ""}, [], {"requirements": "requirements.txt"}),
        ({"requirements.txt": "tiny==1.0\n"}, ["--python", "none"], {}),
        ({"gpu.txt": "tiny==1.0\n"}, ["--python", "gpu.txt"], {"requirements": "gpu.txt"}),
        ({"uv.lock": ""}, ["--python", "/opt/venv"], {"venv": "/opt/venv"}),
    ],
)
def test_folder_without_a_spec_brings_its_packages(
    shop: World, capsys: pytest.CaptureFixture[str], files: dict[str, str], flags: list[str], python: dict[str, str]
) -> None:
    """The file on top that names them is used as the form uses it, unless a flag says otherwise."""
    write(train_py="print(1)\n", **files)
    assert main(["submit", ".", "--queue", "vision", *flags, "-o", "json", "--", "python", "train.py"]) == 0

    found = json.loads(capsys.readouterr().out)["spec"]["python"] or {}
    assert {key: value for key, value in found.items() if value} == python


@pytest.mark.parametrize(
    "code",
    ["code: {dir: src}\n", "code:\n  dir: src  # the package\n", 'code: {dir: "src"}\n'],
)
def test_spec_may_name_its_folder(shop: World, code: str) -> None:
    """``code: {dir: ...}`` counts from the spec; what is beside it is not sent."""
    write(job_yaml=SPEC + code, src__train_py="print(1)\n", other_py="")
    assert main(["submit", "job.yaml"]) == 0
    assert main(["submit", "."]) == 0

    assert len(set(Job.objects.filter(name="package").values_list("code", flat=True))) == 1
    assert CodeBlob.objects.count() == 1


def test_small_files_of_the_command_go_with_it(shop: World) -> None:
    """``--file`` and a folder are one submit."""
    write(job_yaml=SPEC, train_py="")
    Path("note.txt").write_text("hello")
    assert main(["submit", ".", "--file", "note.txt"]) == 0

    assert Job.objects.get(name="package").spec["files"] == {"note.txt": "hello"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["submit", "."], "There is no job.yaml"),
        (["submit", "spec.yaml", "--gpus", "2"], "Only a folder"),
        (["submit", "spec.yaml", "--", "python"], "Only a folder"),
        (["submit", "with", "--name", "x"], "says what to run"),
        (["submit", "nowhere.yaml"], "No such file"),
        (["submit", "lost"], "code names the folder gone"),
        (["submit", "empty", "--", "true"], "no file to send"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    shop: World, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    """Before anything is sent, with what to do."""
    write(spec_yaml=SPEC, with__job_yaml=SPEC, lost__job_yaml=SPEC + "code: {dir: gone}\n")
    Path("empty").mkdir()
    assert main(arguments) == 2

    assert told in capsys.readouterr().err
    assert not CodeBlob.objects.exists()


def test_a_script_in_place_of_a_spec_is_told_the_way(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Not that its ninth line is no YAML."""
    write(my__train_py="import torch\n")

    assert main(["submit", "my/train.py"]) != 0
    told = capsys.readouterr().err
    assert "my/train.py is a script, not a spec." in told
    assert told.splitlines()[-1] == "clusterweb submit my --queue QUEUE -- python train.py"


def test_a_script_that_is_not_sent_is_told(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A spec by itself sends no folder; with the folder, the file, or a script of the server nothing is told."""
    write(job_yaml=SPEC, train_py="import torch\n", other_yaml=SPEC.replace("train.py", "/opt/train.py"))

    assert main(["submit", "job.yaml"]) == 0
    assert "train.py lies beside the spec and is not sent" in capsys.readouterr().err
    for sent in (["."], ["job.yaml", "--file", "train.py"], ["other.yaml"]):
        assert main(["submit", *sent]) == 0
        assert "lies beside" not in capsys.readouterr().err


def test_ignored_files_stay_here(shop: World) -> None:
    """As git does it, in each folder; .clusterwebignore has the last word; the rest is never of use elsewhere."""
    write(
        train_py="",
        data__big="x",
        data__keep="x",
        src__a_py="",
        src__out__log="x",
        src__a__cache="",
        **{".git/config": "x", ".venv/pyvenv.cfg": "x", ".venv/lib/x": "x"},
    )
    Path("src/__pycache__").mkdir()
    Path("src/__pycache__/a.pyc").write_text("x")
    Path(".gitignore").write_text("# results\n/data/\n*.log\n!keep.log\nbuild\n")
    Path(".clusterwebignore").write_text("!/data/\n/data/*\n!/data/keep\n")
    Path("src/.gitignore").write_text("out/\n!c.log\n")
    for name in ("a.log", "keep.log", "src/b.log", "src/c.log", "src/build"):
        Path(name).write_text("")

    assert paths() == sorted(
        [
            *(".clusterwebignore", ".gitignore", "data/keep", "keep.log"),
            *("src/.gitignore", "src/a.py", "src/a/cache", "src/c.log", "train.py"),
        ]
    )


def test_link_is_refused_with_its_name(shop: World) -> None:
    """A link would be another file on the server; one that is ignored does not matter."""
    write(train_py="")
    os.symlink("train.py", "latest")
    with pytest.raises(CommandError, match="latest is a link"):
        read_folder(Path())
    Path(".clusterwebignore").write_text("latest\n")

    assert paths() == [".clusterwebignore", "train.py"]


def test_program_stays_a_program(shop: World) -> None:
    """The right to run a file is part of what is sent."""
    write(run="#!/bin/sh\n", train_py="")
    Path("run").chmod(0o755)

    assert {file.path: file.mode for file in read_folder(Path()).files} == {"run": "755", "train.py": "644"}


def test_file_that_changes_while_it_is_sent_is_told(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer or shorter than it was hashed: the submit ends with its name, and another one goes on."""
    write(job_yaml=SPEC, train_py="print(1)\n")
    folder = read_folder(Path())
    Path("train.py").write_text("")
    monkeypatch.setattr(sending, "read_folder", lambda root: folder)
    with pytest.raises(CommandError, match=r"train\.py changed while it was sent"):
        sending.folder_send(Client(read_account()), Path())


def test_large_folder_goes_in_few_requests(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are bundled, a large one goes alone, and all arrive."""
    monkeypatch.setattr(sending, "BUNDLE_BYTES", 1_000)
    write(job_yaml=SPEC, train_py="", **{f"f{at:02}": f"{at:0300}" for at in range(10)})
    Path("large").write_bytes(bytes(5_000))
    assert main(["submit", "."]) == 0

    assert CodeBlob.objects.count() == 13


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("nothere.py", "Scripts in it: main.py, train.py, src/fit.py"),
        ("fit.py", "clusterweb submit . --queue vision -- python src/fit.py --lr 1"),
        ("trian.py", "clusterweb submit . --queue vision -- python train.py --lr 1"),
        ("raw/get.py", "raw/ is ignored.\nWrite !raw/ into .clusterwebignore"),
    ],
)
def test_a_script_that_the_folder_lacks_is_refused_before_anything_is_sent(
    shop: World, capsys: pytest.CaptureFixture[str], script: str, told: str
) -> None:
    """With what would be right."""
    write(train_py="print(1)\n", main_py="print(1)\n", src__fit_py="print(1)\n", raw__get_py="print(1)\n")
    Path(".gitignore").write_text("raw/\n")
    assert main(["submit", ".", "--queue", "vision", "--", "python", script, "--lr", "1"]) == 2

    assert told in capsys.readouterr().err
    assert not CodeBlob.objects.exists()


def test_a_spec_whose_script_the_folder_lacks_is_refused(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """By the server, which reads the spec; a small file beside the folder counts."""
    write(job_yaml=SPEC, main_py="print(1)\n")
    assert main(["submit", "."]) == 1
    told = capsys.readouterr().err
    Path("train.py").write_text("print(1)\n")
    assert main(["submit", ".", "--file", "train.py"]) == 0

    assert "/command: train.py is not in the folder of the job. Did you mean main.py?" in told
    assert Job.objects.filter(name="package").count() == 1


def test_signs_of_a_shell_are_warned_of(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the answer, also of a dry run; the job is stored as it is."""
    write(train_py="print(1)\n")
    asked = ["submit", ".", "--queue", "vision", "-o", "json"]
    command = ["--", "python", "train.py", "&&", "python", "train.py"]
    told = "`&&` is an argument of python as written. Use bash -c 'python train.py && python train.py'"
    assert main([*asked, "--dry-run", *command]) == 0
    tried = capsys.readouterr()
    assert main([*asked, *command]) == 0
    stored = capsys.readouterr()
    assert main(["submit", ".", "--queue", "vision", "--dry-run", *command]) == 0

    assert "No job is stored; the folder stays on the server.\n" in capsys.readouterr().out
    for found in (tried, stored):
        assert f"Warning: No shell reads the command: {told}\n" in found.err
        assert json.loads(found.out)["warnings"] == [f"No shell reads the command: {told}"]
    assert Job.objects.get(name="my-package").spec["command"] == command[1:]
