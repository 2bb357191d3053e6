"""The script that a command starts, and signs in it that only a shell would read."""

import shlex

import pytest

from clusterweb.client.folders.script import script_of as script_of_client
from scheduler.core.spec.command_hints import command_warnings, in_shell, missing_script, script_of

SCRIPTS = [
    ("python train.py --lr 1", "train.py"),
    ("python3.11 -u -X dev src/train.py", "src/train.py"),
    ("/usr/bin/python ./train.py", "train.py"),
    ("python -m package.train x.py", ""),
    ("python -c pass train.py", ""),
    ("python /opt/train.py", ""),
    ("python ../train.py", ""),
    ("python {script}", ""),
    ("python $SCRIPT", ""),
    ("python", ""),
    ("python -", ""),
    ("bash -e run.sh", "run.sh"),
    ("bash -o pipefail run.sh", "run.sh"),
    ("bash -c 'python train.py'", ""),
    ("bash -lc 'python train.py'", ""),
    ("sh -ec 'python train.py'", ""),
    ("bash -euo pipefail -c 'python train.py'", ""),
    ("bash -eo pipefail run.sh", "run.sh"),
    ("bash --rcfile rc run.sh", "run.sh"),
    ("python -um package.train a.py", ""),
    ("python -mpackage.train --cfg x", ""),
    ("python -Xdev train.py", "train.py"),
    ("python -uX dev train.py", "train.py"),
    ("torchrun --module package.train --cfg a.py", ""),
    ("./run.sh a", "run.sh"),
    ("torchrun --nproc_per_node 2 train.py --data x.py", "train.py"),
    ("torchrun -m package.train", ""),
    ("nvidia-smi train.py", ""),
    ("", ""),
]


@pytest.mark.parametrize(("line", "script"), SCRIPTS)
def test_script_of_a_command(line: str, script: str) -> None:
    """Where it is certain; server and command line say the same."""
    command = shlex.split(line)

    assert script_of(command) == script_of_client(command) == script


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["train.py", "nothere.py"], ""),
        (["nothere.py/__main__.py"], ""),
        (["src/nothere.py", "train.py"], "Did you mean src/nothere.py?"),
        (["nothere2.py", "a.py"], "Did you mean nothere2.py?"),
        (["train.py", "a/b.py"], "It has train.py, a/b.py."),
        ([f"{letter}.py" for letter in "abcde"], "It has a.py, b.py, c.py, d.py, …."),
        (["data.csv"], "It has no file that ends in .py."),
    ],
)
def test_missing_script_is_told_with_what_would_be_right(paths: list[str], told: str) -> None:
    """The same name elsewhere first, then the nearest, then what there is."""
    found = missing_script(["python", "./nothere.py"], paths)

    assert found == (f"nothere.py is not in the folder of the job. {told}" if told else "")


@pytest.mark.parametrize(
    ("line", "signs"),
    [
        ("python a.py && python b.py", "`&&` is an argument"),
        ("python a.py | tee log", "`|` is an argument"),
        ("python a.py > out.txt", "`>` is an argument"),
        ("python a.py 2>&1", "`2>&1` is an argument"),
        ("python a.py >out.txt", "`>out.txt` is an argument"),
        ("cd src; python a.py", "`src;` is an argument"),
        ("python a.py --out $HOME/x &", "`$HOME/x`, `&` are arguments"),
    ],
)
def test_signs_of_a_shell_are_warned_of_with_the_line_that_would_work(line: str, signs: str) -> None:
    """As they are written; the way out runs what was meant."""
    words = shlex.split(line)
    (warning,) = command_warnings(words)

    assert warning == (
        f"No shell reads the command: {signs} of {words[0]} as written. Use {shlex.join(['bash', '-c', line])}"
    )
    assert in_shell(words) == ["bash", "-c", line]


@pytest.mark.parametrize(
    "line",
    [
        "bash -c 'a && b | c > d'",
        "python a.py --note 'a > b' --price '$5'",
        "find . -exec ls {} ;",
        "python -c 'a > b'",
    ],
)
def test_what_no_shell_has_to_read_is_not_warned_of(line: str) -> None:
    """A shell's own line, and signs within a quoted text."""
    assert command_warnings(shlex.split(line)) == []
