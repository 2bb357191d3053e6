"""Search spaces are read strictly, and fill a spec."""

from typing import Any

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.search_space import Parameter, filled, read_space


def test_space_is_read() -> None:
    """Ranges, whole numbers, choices."""
    space = read_space(
        {
            "lr": {"low": 1e-4, "high": 1, "log": True},
            "depth": {"low": 1, "high": 8, "integer": True},
            "opt": {"choices": ["sgd", "adam"]},
        }
    )

    assert space == (
        Parameter(name="lr", low=1e-4, high=1.0, log=True),
        Parameter(name="depth", low=1.0, high=8.0, integer=True),
        Parameter(name="opt", choices=("sgd", "adam")),
    )


@pytest.mark.parametrize(
    ("space", "pointer"),
    [
        ({}, "/space"),
        ([], "/space"),
        ({"a b": {"low": 0, "high": 1}}, "/space/a b"),
        ({"lr": 3}, "/space/lr"),
        ({"lr": {"low": 1, "high": 1}}, "/space/lr"),
        ({"lr": {"low": 0, "high": 1, "log": True}}, "/space/lr"),
        ({"lr": {"low": 0.5, "high": 3, "integer": True}}, "/space/lr"),
        ({"lr": {"low": True, "high": 3}}, "/space/lr"),
        ({"lr": {"low": 0, "high": float("inf")}}, "/space/lr"),
        ({"lr": {"low": 0, "hihg": 1}}, "/space/lr"),
        ({"lr": {"choices": []}}, "/space/lr"),
        ({"lr": {"choices": [1], "low": 0}}, "/space/lr"),
    ],
)
def test_space_without_sense_is_refused(space: Any, pointer: str) -> None:
    """With where and what."""
    with pytest.raises(SpecInvalid) as refused:
        read_space(space)

    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_values_go_into_command_and_environment() -> None:
    """And into no file; other braces stay."""
    spec = {"name": "s", "command": ["t", "--lr={lr}", "{x}"], "env": {"LR": "{lr}"}, "files": {"a": "{lr}"}}

    assert filled(spec, {"lr": 0.5}, number=7) == {
        "name": "s-7",
        "command": ["t", "--lr=0.5", "{x}"],
        "env": {"LR": "0.5"},
        "files": {"a": "{lr}"},
    }


@pytest.mark.parametrize(
    ("name", "found"), [("lr-{lr}", "lr-0.5-7"), ("{opt}", "a-b-c-7"), ("{x}", "{x}-7"), ("n" * 90, "n" * 70 + "-7")]
)
def test_values_go_into_the_name_as_far_as_a_name_has_such_letters(name: str, found: str) -> None:
    """A name that is none by itself stays so, and is refused as one."""
    assert filled({"name": name}, {"lr": 0.5, "opt": "a, b/c"}, number=7) == {"name": found}
