"""YAML and JSON text of a spec: one meaning, and no text can hurt."""

import time

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.spec import JobSpec
from scheduler.services.jobs.spec_text import spec_from_text

YAML = """\
apiVersion: v1
name: resnet-cifar
queue: vision
command: [python, train.py, "--epochs", "3"]
files:
  train.py: |
    print("hello")
resources: {gpus: 2, memory: 4GiB}
"""
JSON = """{"apiVersion": "v1", "name": "resnet-cifar", "queue": "vision",
 "command": ["python", "train.py", "--epochs", "3"], "files": {"train.py": "print(\\"hello\\")\\n"},
 "resources": {"gpus": 2, "memory": "4096MiB"}}"""


def refusal(text: str | bytes) -> tuple[str, str]:
    """Return code and sentence of the refusal."""
    with pytest.raises(SpecInvalid) as caught:
        spec_from_text(text)
    (error,) = caught.value.errors

    assert error.pointer == ""
    return error.code, error.detail


def test_yaml_and_json_give_equal_stored_specs() -> None:
    """The same job in either language is stored in the same words."""
    stored = [JobSpec.parse(spec_from_text(text)).to_json() for text in (YAML, JSON, JSON.encode(), "\ufeff" + YAML)]

    assert all(spec == stored[0] for spec in stored)


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("a: 1\nb: [1,2", "syntax", "Line 3, column 1"),
        ('{"a": ', "syntax", "Line 1, column 7"),
        ("a: 1\na: 2", "repeated", "Line 2: the key 'a' is there twice."),
        ('{"a": 1, "a": 2}', "repeated", "The key 'a' is there twice."),
        ('{"a": NaN}', "syntax", "NaN"),
        ("a: 1\n---\nb: 2", "syntax", "another document"),
        (b"\xff\xfe", "characters", "UTF-8"),
        ("a: \x00", "characters", "character"),
        ("\ud800: 1", "characters", "UTF-8"),
        ("!!python/object/apply:os.system [ls]", "syntax", "tag"),
        ("x: " + "9" * 5000, "range", "too long"),
        ("x" * (2 * 2**20 + 1), "length", "2 MiB"),
    ],
)
def test_bad_text_is_refused_with_its_place(text: str | bytes, code: str, part: str) -> None:
    """Text that is no spec is refused with a sentence that says where."""
    assert refusal(text)[0] == code
    assert part in refusal(text)[1]


BOMBS = {
    "deep lists": "[" * 100_000,
    "deep yaml": "a: " + "[ " * 100_000,
    "deep blocks": "\n".join(" " * n + "a:" for n in range(1000)),
    "many values": "- a\n" * 500_000,
    "many keys": "{" + ",".join(f'"k{n}":0' for n in range(150_000)) + ',"k0":0}',
    "laughs": "a0: &a0 [x,x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 40)),
    "merges": "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)),
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_bomb_is_refused_quickly(text: str) -> None:
    """A small text that would unfold into much is refused in little time."""
    started = time.process_time()
    refusal(text)

    assert time.process_time() - started < 2.0
