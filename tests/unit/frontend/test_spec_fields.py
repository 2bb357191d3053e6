"""Between specs and the texts of the form, both ways; YAML that reads back as itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontend.pages.jobs.submit.spec_fields import field_of, fields_of_spec, files_of_spec, fits_fields, spec_of_fields
from frontend.pages.jobs.submit.spec_yaml import line_of, spec_as_yaml
from frontend.pages.jobs.submit.workloads import TEMPLATES
from scheduler.core.spec.spec import JobSpec
from scheduler.services.jobs.spec_text import spec_from_text

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\n"), min_size=1, max_size=30)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30)
FILES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=200)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True)
SPECS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "name": NAMES,
        "queue": st.just("vision/detection"),
        "command": st.lists(WORDS, min_size=1, max_size=5),
    },
    optional={
        "code": st.one_of(
            st.just({"manifest": f"sha256:{'ab' * 32}"}),
            st.fixed_dictionaries(
                {"git": st.just("https://github.com/team/vision.git"), "commit": st.just("0123456789" * 4)},
                optional={
                    "subdir": st.just("src/train"),
                    "key": st.sampled_from([{"secret": "deploy"}, {"secret": "deploy", "of": "queue"}]),
                },
            ),
        ),
        "files": st.dictionaries(NAMES.map(lambda name: f"{name}.py"), FILES, max_size=3),
        "python": st.sampled_from([{"requirements": "a/base.txt"}, {"lock": "uv.lock"}, {"venv": "/opt/venv"}]),
        "env": st.dictionaries(NAMES.map(lambda name: f"X_{name}"), LINES, max_size=3),
        "labels": st.dictionaries(NAMES, LINES, max_size=3),
        "resources": st.fixed_dictionaries(
            {"gpus": st.integers(1, 8)},
            optional={
                "cpus": st.sampled_from(["auto", 2, 1.5]),
                "memory": st.sampled_from(["auto", "4GiB", "512MiB"]),
                "disk": st.just("3GiB"),
            },
        ),
        "schedule": st.one_of(
            st.fixed_dictionaries(
                {},
                optional={
                    "priority": st.integers(0, 100),
                    "preemptible": st.booleans(),
                    "max_duration": st.just("90m"),
                },
            ),
            st.just({"max_duration": "90m", "warn_before": "2m"}),
        ),
        "checkpoint": st.just({"grace": "45s", "signal": "USR2"}),
        "retry": st.just({"max": 0}),
        "progress": st.just({"total_steps": 600, "stall": "10m", "early_stop": True}),
        "array": st.sampled_from(["0-99%10", "1,3,5-9:2%4", 7]),
        "depends_on": st.just([{"J-12": "completed"}, {"A-3": "ended"}, "J-4"]),
    },
)


@given(data=SPECS)
def test_fields_of_a_spec_give_the_spec_back(data: dict[str, Any]) -> None:
    """Cloning loses nothing, whatever the values hold; what the fields cannot hold is told apart."""
    spec = JobSpec.parse(data)
    stored = spec.to_json()
    if not fits_fields(stored):
        return
    again, errors = spec_of_fields(fields_of_spec(stored), files_of_spec(stored))

    assert errors == []
    assert JobSpec.parse(again).to_json() == stored


@given(data=SPECS)
def test_yaml_of_a_spec_reads_back_as_the_spec(data: dict[str, Any]) -> None:
    """What the page shows as YAML is what would be submitted."""
    stored = JobSpec.parse(data).to_json()

    assert spec_from_text(spec_as_yaml(stored)) == stored


@pytest.mark.parametrize("key", TEMPLATES)
def test_every_template_is_a_valid_spec(key: str) -> None:
    """A workload of the list can be submitted as it is, once a queue is chosen."""
    spec = JobSpec.parse(TEMPLATES[key].spec() | {"queue": "vision"})

    assert spec.command[:3] == ("python", "-m", f"agents.workloads.{key}")
    assert spec.progress.total_steps == TEMPLATES[key].steps


@pytest.mark.parametrize(
    ("pointer", "field"),
    [
        ("/name", "name"),
        ("/command/3", "command"),
        ("/resources/gpus", "gpus"),
        ("/resources/frobs", "gpus"),
        ("/env/LD_PRELOAD", "env"),
        ("/files/a~1b", "upload"),
        ("/checkpoint/grace", "grace"),
        ("/checkpoint/signal", "signal"),
        ("/schedule/warn_before", "warn_before"),
        ("/names", None),
        ("", None),
    ],
)
def test_each_pointer_has_its_field(pointer: str, field: str | None) -> None:
    """An error stands where it can be mended."""
    assert field_of(pointer) == field


@pytest.mark.parametrize("command", ["[python, train.py, --lr, 0.1]", '["python", "train.py", "--lr", "0.1"]'])
def test_a_command_that_is_a_list_of_a_spec_is_taken_as_one(command: str) -> None:
    """Pasted from a spec; its brackets are no part of a word."""
    assert spec_of_fields({"command": command}, {})[0]["command"] == ["python", "train.py", "--lr", "0.1"]
    assert spec_of_fields({"command": "[ -f x ]"}, {})[0]["command"] == ["[", "-f", "x", "]"]
    assert spec_of_fields({"command": "[" * 5_000 + "]" * 5_000}, {})[0]["command"] == ["[" * 5_000 + "]" * 5_000]


def test_a_command_is_split_as_a_shell_would_and_nothing_is_expanded() -> None:
    """Quotes group, a backslash joins lines, a dollar stays a dollar."""
    spec, errors = spec_of_fields({"command": "python -c 'print(1)' \\\r\n  --home $HOME *.py # no comment"}, {})

    assert errors == []
    assert spec["command"] == ["python", "-c", "print(1)", "--home", "$HOME", "*.py", "#", "no", "comment"]


def test_an_open_quote_and_a_line_without_equals_are_named() -> None:
    """What cannot be read is an error at its field, not a guess."""
    _, errors = spec_of_fields({"command": 'python "x', "env": "A=1\nB", "labels": "a=1\na=2"}, {})

    assert [error.pointer for error in errors] == ["/command", "/env", "/labels"]


def test_errors_in_yaml_name_their_line() -> None:
    """The reader looks at the line, not at a pointer."""
    text = "apiVersion: v1\nname: x\nresources:\n  gpus: 999\ncommand: [a,\n  b]\n"

    assert line_of(text, "/resources/gpus") == 4
    assert line_of(text, "/command/1") == 6
    assert line_of(text, "/resources/memory") == 3
    assert line_of(text, "/queue") is None
    assert line_of("a: [", "/a") is None
