"""How often a command is started: what a spec may say, what it says when it says nothing, how stored ones are read."""

from typing import Any

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.launch import (
    LaunchPer,
    StoredResources,
    launch_words,
    launcher_of,
    stored_per,
    unsaid_errors,
    unsplit_errors,
)
from scheduler.core.spec.spec import JobSpec


def data_of(resources: dict[str, int], per: str | None = None, *command: str) -> Any:
    """Return the data of a spec with such resources."""
    launch = {} if per is None else {"launch": {"per": per}}
    words = list(command or ("python", "train.py"))
    data = {"apiVersion": "v1", "name": "a", "queue": "q", "command": words, "resources": resources}
    return data | launch


def errors_of(resources: dict[str, int], per: str) -> list[tuple[str, str, str]]:
    """Return pointer, code and sentence of what is wrong."""
    _, errors = JobSpec.read(data_of(resources, per))
    return [(error.pointer, error.code, error.detail) for error in errors]


@pytest.mark.parametrize(
    ("resources", "per"),
    [
        ({"gpus": 1}, "job"),
        ({"gpus": 8}, "job"),
        ({"gpus": 8, "max_servers": 2}, "gpu"),
        ({"gpus": 2, "min_gpus": 1}, "gpu"),
        ({"gpus": 2, "max_gpus": 4}, "gpu"),
        ({"gpus": 2, "min_gpus": 2, "max_gpus": 2, "max_servers": 1}, "job"),
    ],
)
def test_spec_that_says_nothing_stores_what_it_implies(resources: dict[str, int], per: str) -> None:
    """Once, or once for every GPU on several servers or of an elastic job; specs stored before are read alike."""
    data = data_of(resources)
    stored = JobSpec.parse(data).to_json()

    assert stored["launch"] == {"per": per}
    assert stored_per(stored) == stored_per({**stored, "launch": None}) == LaunchPer(per)
    assert stored_per(data) == LaunchPer(per)
    assert JobSpec.parse(stored).to_json() == stored
    assert JobSpec.parse(stored) == JobSpec.parse(data)


@pytest.mark.parametrize("per", ["job", "server", "gpu"])
def test_what_is_said_is_stored_and_stays(per: str) -> None:
    """It does not flip when another field of the stored spec is changed."""
    stored = JobSpec.parse(data_of({"gpus": 4}, per)).to_json()
    stored["resources"]["gpus"] = stored["resources"]["min_gpus"] = stored["resources"]["max_gpus"] = 2

    assert stored["launch"] == {"per": per}
    assert JobSpec.parse(stored).to_json()["launch"] == {"per": per}
    assert JobSpec.parse(stored).starts_per == LaunchPer(per)


def test_more_servers_do_not_change_how_a_stored_job_starts() -> None:
    """A job that starts once is refused several servers, with what would be right, instead of starting more often."""
    stored = JobSpec.parse(data_of({"gpus": 4})).to_json()
    stored["resources"]["max_servers"] = 2

    with pytest.raises(SpecInvalid) as refused:
        JobSpec.parse(stored)
    [error] = refused.value.errors
    assert (error.pointer, error.code) == ("/launch/per", "servers")
    assert "server (once on each)" in error.detail


@pytest.mark.parametrize(
    ("per", "resources", "code", "words"),
    [
        ("node", {"gpus": 1}, "choice", "must be job (once), server"),
        ("job", {"gpus": 2, "max_gpus": 4}, "elastic", "Write gpu, or leave min_gpus and max_gpus out."),
        ("server", {"gpus": 2, "min_gpus": 1, "max_servers": 2}, "elastic", "once for every GPU"),
        ("job", {"gpus": 2, "max_servers": 2}, "servers", "set max_servers to 1"),
    ],
)
def test_what_cannot_be_is_one_entry_with_what_would(
    per: str, resources: dict[str, int], code: str, words: str
) -> None:
    """The field, the reason and what would be right."""
    [(pointer, found, detail)] = errors_of(resources, per)

    assert (pointer, found) == ("/launch/per", code)
    assert words in detail


def test_one_gpu_fits_one_server_whatever_it_may_use() -> None:
    """Once is possible then."""
    assert errors_of({"gpus": 1, "max_servers": 4}, "job") == []
    assert JobSpec.parse(data_of({"gpus": 1, "max_servers": 4}, "job")).starts_per is LaunchPer.JOB


@pytest.mark.parametrize(
    ("launch", "pointer"), [({"pro": "gpu"}, "/launch/pro"), ("gpu", "/launch"), ({"per": ["gpu"]}, "/launch/per")]
)
def test_section_of_another_shape_is_refused(launch: object, pointer: str) -> None:
    """As every other section."""
    _, errors = JobSpec.read({**data_of({"gpus": 1}), "launch": launch})

    assert [error.pointer for error in errors] == [pointer]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("torchrun", "train.py"), "torchrun"),
        (("/opt/venv/bin/accelerate", "launch", "train.py"), "accelerate"),
        (("python3", "-m", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        (("python", "-m", "train"), ""),
        (("python", "-m"), ""),
        (("bash", "run.sh"), ""),
        ((), ""),
    ],
)
def test_programs_that_start_ranks_are_known(command: tuple[str, ...], name: str) -> None:
    """By their name, or as a module."""
    assert launcher_of(command) == name


def test_new_job_that_starts_torchrun_for_every_gpu_must_say_so() -> None:
    """It would start a process for each GPU in each of them; both ways to say what is meant are named."""
    torchrun = ("torchrun", "train.py")
    silent = data_of({"gpus": 4, "max_servers": 2}, None, *torchrun)
    [error] = unsaid_errors(silent, command=torchrun, per=JobSpec.parse(silent).starts_per)

    assert error.pointer == "/launch/per"
    assert "{per: server}" in error.detail
    assert "{per: gpu}" in error.detail
    assert unsaid_errors(data_of({"gpus": 4}, "gpu", *torchrun), command=torchrun, per=LaunchPer.GPU) == []
    assert unsaid_errors(data_of({"gpus": 4}, None, *torchrun), command=torchrun, per=LaunchPer.JOB) == []


def test_a_line_in_one_word_is_refused_with_its_words() -> None:
    """No program is named so; a path with a space and arguments behind it stays as it is."""
    [error] = unsplit_errors(["python train.py --name 'my run'"])

    assert error.pointer == "/command/0"
    assert '["python", "train.py", "--name", "my run"]' in error.detail
    assert unsplit_errors(["it's one line"])
    assert unsplit_errors(["/opt/my env/bin/python", "train.py"]) == []
    assert unsplit_errors(["true"]) == unsplit_errors([]) == []


@pytest.mark.parametrize(
    ("per", "resources", "words"),
    [
        ("job", {"gpus": 1}, "once"),
        ("job", {"gpus": 4}, "once, with all its GPUs on one server"),
        ("gpu", {"gpus": 4, "max_servers": 2}, "once for every GPU, 4 processes"),
        ("gpu", {"gpus": 1, "max_gpus": 4}, "once for every GPU"),
        ("gpu", {"gpus": 1}, "once"),
        ("server", {"gpus": 8, "max_servers": 2}, "once on each of up to 2 servers"),
        ("server", {"gpus": 2, "max_servers": 4}, "once on each of up to 2 servers"),
        ("server", {"gpus": 8}, "once, with all its GPUs on one server"),
        ("server", {"gpus": 1, "max_servers": 2}, "once"),
    ],
)
def test_words_say_how_often(per: str, resources: dict[str, int], words: str) -> None:
    """Form, preview, page and command say the same, of a spec as of a stored one."""
    spec = JobSpec.parse(data_of(resources, per))

    assert launch_words(spec.starts_per, spec.resources) == words
    assert launch_words(LaunchPer(per), StoredResources(resources)) == words
