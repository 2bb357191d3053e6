"""The job spec: everything wrong is named at once, and what is right has one spelling."""

from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes without stubs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec import limits as limit
from scheduler.core.spec.spec import Checkpoint, JobSpec, Progress, Resources, Retry, Schedule, job_spec_schema

SMALL: dict[str, Any] = {
    "apiVersion": "v1",
    "name": "resnet-cifar",
    "queue": "vision",
    "command": ["python", "train.py"],
}


def spec_with(**changes: object) -> dict[str, object]:
    """Return the smallest valid spec with some keys set."""
    return {**SMALL, **changes}


def errors_of(data: object) -> list[FieldError]:
    """Return what is wrong with ``data``."""
    with pytest.raises(SpecInvalid) as caught:
        JobSpec.parse(data)
    return caught.value.errors


def only_error(data: object) -> FieldError:
    """Return the one thing that is wrong with ``data``."""
    errors = errors_of(data)

    assert len(errors) == 1, errors
    return errors[0]


def test_smallest_spec_shows_every_default() -> None:
    """The stored spec names each default, so that a later change of a default changes no stored job."""
    stored = JobSpec.parse(SMALL).to_json()

    assert stored == {
        "apiVersion": "v1",
        "name": "resnet-cifar",
        "queue": "vision",
        "command": ["python", "train.py"],
        "code": None,
        "files": {},
        "python": None,
        "env": {},
        "resources": {
            "gpus": 1,
            "min_gpus": 1,
            "max_gpus": 1,
            "max_servers": 1,
            "cpus": "auto",
            "memory": "auto",
            "disk": "2GiB",
        },
        "launch": {"per": "job"},
        "schedule": {"priority": 50, "preemptible": True, "max_duration": None, "warn_before": None},
        "checkpoint": {"grace": "30s", "signal": "TERM"},
        "retry": {"max": 4},
        "progress": {"total_steps": None, "stall": None, "early_stop": False},
        "profile": "",
        "labels": {},
        "array": None,
        "depends_on": [],
    }


def test_full_spec_is_read() -> None:
    """Every key reaches its field, in seconds and bytes."""
    spec = JobSpec.parse(
        spec_with(
            files={"train.py": "print(1)\n"},
            env={"SEED": "7"},
            resources={"gpus": 4, "cpus": 6, "memory": "64GiB", "disk": "512MiB"},
            schedule={"priority": 80, "preemptible": False, "max_duration": "1.5h"},
            checkpoint={"grace": "2m"},
            retry={"max": 0},
            progress={"total_steps": 450_000},
            profile="resnet18",
            labels={"team/paper": "detr"},
        )
    )

    assert spec.resources == Resources(gpus=4, cpus=6.0, memory_bytes=64 * 2**30, disk_bytes=512 * 2**20)
    assert spec.schedule == Schedule(priority=80, preemptible=False, max_duration_s=5400.0)
    assert (spec.checkpoint, spec.retry, spec.progress) == (
        Checkpoint(grace_s=120.0),
        Retry(max=0),
        Progress(total_steps=450_000),
    )
    assert (spec.files, spec.env, spec.labels) == ({"train.py": "print(1)\n"}, {"SEED": "7"}, {"team/paper": "detr"})


def test_five_wrong_fields_give_five_entries() -> None:
    """One answer names everything that is wrong."""
    errors = errors_of(
        spec_with(
            name="has space",
            command="python train.py",
            resources={"gpus": 0, "memory": 64},
            schedule={"priority": 101},
        )
    )

    assert [error.pointer for error in errors] == [
        "/name",
        "/command",
        "/resources/gpus",
        "/resources/memory",
        "/schedule/priority",
    ]


@pytest.mark.parametrize(
    ("changes", "pointer", "code", "detail"),
    [
        (
            {"resources": {"gpus": 5000}},
            "/resources/gpus",
            "range",
            "GPUs must be between 1 and 4096. You asked for 5000.",
        ),
        (
            {"resources": {"gpus": True}},
            "/resources/gpus",
            "type",
            "GPUs must be a whole number between 1 and 4096, not true.",
        ),
        (
            {"resources": {"gpus": 2, "min_gpus": 3}},
            "/resources/min_gpus",
            "range",
            "min_gpus must be between 1 and 2. You asked for 3.",
        ),
        ({"resources": {"gpus": 2, "max_gpus": 1}}, "/resources/max_gpus", "range", None),
        ({"resources": {"max_servers": 0}}, "/resources/max_servers", "range", None),
        ({"resources": {"gpus": 1.5}}, "/resources/gpus", "type", "GPUs must be a whole number. You asked for 1.5."),
        ({"resources": {"gpus": 10**4000}}, "/resources/gpus", "range", None),
        ({"resources": {"cpus": float("nan")}}, "/resources/cpus", "range", None),
        ({"resources": {"memory": 64}}, "/resources/memory", "unit", "memory needs a unit: 64GiB."),
        ({"resources": {"memory": "64"}}, "/resources/memory", "unit", "memory needs a unit: 64GiB."),
        ({"resources": {"memory": "64 gigs"}}, "/resources/memory", "unit", None),
        ({"resources": {"memory": ["4GiB"]}}, "/resources/memory", "type", None),
        ({"schedule": {"max_duration": 90}}, "/schedule/max_duration", "unit", "max_duration needs a unit: 90s."),
        (
            {"schedule": {"preemptible": "no"}},
            "/schedule/preemptible",
            "type",
            "preemptible must be true or false, not 'no'.",
        ),
        (
            {"checkpoint": {"grace": "3h"}},
            "/checkpoint/grace",
            "range",
            "checkpoint grace must be between 1s and 1h. You asked for 3h.",
        ),
        ({"retry": {"max": -1}}, "/retry/max", "range", "retry max must be between 0 and 100. You asked for -1."),
        ({"command": ["python", 3]}, "/command/1", "type", 'command word 2 must be text: write "3" in quotes.'),
        ({"command": []}, "/command", "required", None),
        ({"command": [""]}, "/command/0", "required", None),
        ({"command": ["x"] * 1025}, "/command", "length", "command may have at most 1024 words. It has 1025."),
        ({"env": {"SEED": 7}}, "/env/SEED", "type", 'env SEED must be text: write "7" in quotes.'),
        ({"env": {"1X": ""}}, "/env/1X", "characters", None),
        ({"env": {"PATH": "/bin"}}, "/env/PATH", "reserved", "PATH is set by the cluster. Choose another name."),
        ({"env": {"LD_PRELOAD": "x"}}, "/env/LD_PRELOAD", "reserved", None),
        ({"env": {"CLUSTERWEB_JOB_ID": "x"}}, "/env/CLUSTERWEB_JOB_ID", "reserved", None),
        ({"env": {"A": "\x00"}}, "/env/A", "characters", None),
        ({"env": {"A": "\ud800"}}, "/env/A", "characters", None),
        (
            {"env": {f"A{n}": "" for n in range(129)}},
            "/env",
            "length",
            "env may have at most 128 entries. There are 129.",
        ),
        ({"files": {"../x": ""}}, "/files/..~1x", "characters", None),
        ({"files": {"a\n": ""}}, "/files/a\n", "characters", None),
        (
            {"files": {"a": "x" * 2**20, "b": "x"}},
            "/files",
            "length",
            "files may take at most 1MiB in all. It takes 1048577 bytes.",
        ),
        ({"files": {f"f{n}": "" for n in range(65)}}, "/files", "length", None),
        ({"labels": {f"l{n}": "" for n in range(33)}}, "/labels", "length", None),
        ({"labels": {"a b": ""}}, "/labels/a b", "characters", None),
        ({"labels": {1: "x"}}, "/labels/1", "unknown", None),
        ({"name": "x" * 81}, "/name", "length", "name may have at most 80 characters. It has 81."),
        ({"name": "a\n"}, "/name", "characters", None),
        ({"name": None}, "/name", "required", "name is required."),
        ({"queue": ""}, "/queue", "required", "queue is required."),
        ({"apiVersion": "v2"}, "/apiVersion", "version", "apiVersion must be v1, not 'v2'."),
        ({"apiVersion": None}, "/apiVersion", "required", None),
        ({"resources": [1]}, "/resources", "type", "resources must be a mapping of keys to values, not a list."),
        ({"image": "x"}, "/image", "unknown", None),
        (
            {"priority": 3},
            "/priority",
            "unknown",
            "'priority' is not a key of a job. Did you mean 'schedule.priority'?",
        ),
        (
            {"prioritee": 3},
            "/prioritee",
            "unknown",
            "'prioritee' is not a key of a job. Did you mean 'schedule.priority'?",
        ),
        ({"gpu": 2}, "/gpu", "unknown", "'gpu' is not a key of a job. Did you mean 'resources.gpus'?"),
        (
            {"resources": {"gpu": 2}},
            "/resources/gpu",
            "unknown",
            "'gpu' is not a key of resources. Did you mean 'gpus'?",
        ),
        ({"lables": {}}, "/lables", "unknown", "'lables' is not a key of a job. Did you mean 'labels'?"),
    ],
)
def test_bad_field_is_named_with_a_plain_sentence(
    changes: dict[str, object], pointer: str, code: str, detail: str | None
) -> None:
    """A bad field gives one entry with its pointer, a stable code and a sentence with the numbers."""
    error = only_error(spec_with(**changes))

    assert (error.pointer, error.code) == (pointer, code)
    assert error.detail[-1] in ".?"
    assert detail is None or error.detail == detail


@pytest.mark.parametrize("data", [None, [], "x", 3, [[[]]]])
def test_what_is_no_mapping_is_one_error_at_the_root(data: object) -> None:
    """Something else than a mapping is one error, not a dozen missing fields."""
    assert only_error(data).pointer == ""


def test_hostile_values_are_quoted_short_and_on_one_line() -> None:
    """A sentence never carries control characters, the inside of a structure, or more than a few words of the input."""
    deep: list[object] = []
    for _ in range(500):
        deep = [deep, deep]
    details = [error.detail for error in errors_of(spec_with(name="\x1b[31m" + "a" * 60, env=deep, profile=deep))]

    assert all(len(detail) < 200 and detail.isprintable() for detail in details)


def test_number_of_errors_is_capped() -> None:
    """A huge wrong input gives a bounded answer."""
    assert len(errors_of({f"key{n}": 1 for n in range(100_000)})) == limit.ERRORS


def test_bad_field_has_its_default_for_callers_that_check_more() -> None:
    """``read`` gives both the errors and a spec whose good fields can be checked further."""
    spec, errors = JobSpec.read(spec_with(queue="speech", resources={"gpus": "many"}))

    assert (spec.queue, spec.resources.gpus, len(errors)) == ("speech", 1, 1)


@pytest.mark.parametrize(
    ("text", "written"), [("60s", "1m"), ("90s", "90s"), ("3600s", "1h"), ("1.5h", "90m"), ("1.25 s", "1.25s")]
)
def test_duration_has_one_spelling(text: str, written: str) -> None:
    """Equal durations are equal texts in the stored spec."""
    spec = JobSpec.parse(spec_with(schedule={"max_duration": text}))

    assert spec.to_json()["schedule"]["max_duration"] == written


@pytest.mark.parametrize(
    ("text", "written"), [("1024MiB", "1GiB"), ("1GB", "1000000000B"), ("0.5GiB", "512MiB"), ("2TiB", "2TiB")]
)
def test_size_has_one_spelling(text: str, written: str) -> None:
    """Equal sizes are equal texts in the stored spec."""
    assert JobSpec.parse(spec_with(resources={"memory": text})).to_json()["resources"]["memory"] == written


# How fast the machine is at the moment says nothing about the spec.
PATIENT = settings(suppress_health_check=[HealthCheck.too_slow])
NAMES = st.from_regex(limit.PLAIN_NAME, fullmatch=True)
TEXT = st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=30)


def to_size(number: int) -> str:
    """Return MiB in the text that users write."""
    return f"{number}MiB"


SPECS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "name": NAMES,
        "queue": st.text(alphabet="abc/", min_size=1, max_size=20),
        "command": st.lists(TEXT, min_size=1, max_size=5).filter(lambda words: words[0] != ""),
    },
    optional={
        "files": st.dictionaries(NAMES, TEXT, max_size=3),
        "env": st.dictionaries(st.from_regex(r"[A-Z_]{5}", fullmatch=True), TEXT, max_size=3),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "gpus": st.integers(1, 4096),
                "cpus": st.just("auto") | st.integers(1, 512) | st.floats(0.1, 512),
                "memory": st.just("auto") | st.integers(16, 10**6).map(to_size),
                "disk": st.integers(1, 10**6).map(to_size),
            },
        ),
        "schedule": st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(0, 100),
                "preemptible": st.booleans(),
                "max_duration": st.none() | st.integers(1, 10**6).map(lambda s: f"{s}s"),
            },
        ),
        "checkpoint": st.fixed_dictionaries({}, optional={"grace": st.integers(1, 60).map(lambda m: f"{m}m")}),
        "retry": st.fixed_dictionaries({}, optional={"max": st.integers(0, 100)}),
        "progress": st.fixed_dictionaries(
            {}, optional={"total_steps": st.none() | st.integers(1, 10**9), "early_stop": st.booleans()}
        ),
        "profile": st.just("resnet18"),
        "labels": st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), TEXT, max_size=3),
    },
)


@PATIENT
@given(data=SPECS)
def test_stored_spec_reads_back_as_itself_and_fits_the_schema(data: dict[str, object]) -> None:
    """parse, write, parse is the identity, and the schema takes both the input and what is stored."""
    spec = JobSpec.parse(data)
    stored = spec.to_json()

    assert JobSpec.parse(stored) == spec
    assert JobSpec.parse(stored).to_json() == stored
    jsonschema.Draft202012Validator(job_spec_schema()).validate(data)
    jsonschema.Draft202012Validator(job_spec_schema()).validate(stored)


def test_schema_is_a_schema_and_describes_every_key() -> None:
    """The schema is valid, and every key has a description for the form and the REST docs."""
    schema = job_spec_schema()

    jsonschema.Draft202012Validator.check_schema(schema)
    sections = [schema, *(part for part in schema["properties"].values() if "properties" in part)]
    assert all(part.get("description") for section in sections for part in section["properties"].values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(sorted(SMALL)), inner, max_size=4)
    ),
    max_leaves=15,
)


@PATIENT
@given(
    data=JSON | st.fixed_dictionaries(dict.fromkeys(("name", "command", "env", "resources", "schedule", "files"), JSON))
)
def test_any_data_is_read_or_refused_with_entries(data: object) -> None:
    """No input raises anything but SpecInvalid, and that has at least one entry."""
    try:
        JobSpec.parse(data)
        entries = 1
    except SpecInvalid as error:
        entries = len(error.errors)

    assert entries >= 1


def test_object_of_kubernetes_is_called_one_and_shown_the_way_in() -> None:
    """Not seven keys that are no keys."""
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {}}}
    _, errors = JobSpec.read(manifest)

    assert [(error.pointer, error.detail) for error in errors] == [
        ("/kind", "This is an object of Kubernetes, 'Job'. `clusterweb import` makes a job of it.")
    ]
