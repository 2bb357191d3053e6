"""Names and options become a configuration."""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from scheduler.choices import Choice, build_config, choices
from scheduler.core.model.errors import SpecInvalid
from scheduler.introspection.slicing import Slicing
from scheduler.options import checked, parameters
from scheduler.policies.las import Las


def test_everything_to_choose_from_is_json_with_help() -> None:
    """Each choice has a sentence, each option a type, a default, its range and a sentence."""
    offered = json.loads(json.dumps(choices(), allow_nan=False))

    assert {"fifo", "srtf", "las"} <= {choice["name"] for choice in offered["policies"]}
    for kind in offered.values():
        for choice in kind:
            assert choice["help"].endswith(".")
            assert all(parameter["help"] and parameter["type"] for parameter in choice["parameters"])


def _defaults(choice: Choice) -> dict[str, Any]:
    return {parameter["name"]: parameter["default"] for parameter in choice["parameters"]}


def test_defaults_can_be_sent_back() -> None:
    """What choices() offers as defaults is accepted as options and gives the same configuration."""
    offered = json.loads(json.dumps(choices()))
    for choice in offered["policies"]:
        sent = build_config(policy=choice["name"], policy_options=_defaults(choice))
        assert sent == build_config(policy=choice["name"])
    for kind, plural in (("locality", "localities"), ("mechanism", "mechanisms")):
        for choice in offered[plural]:
            named: dict[str, Any] = {kind: choice["name"]}
            options: dict[str, Any] = {f"{kind}_options": _defaults(choice)}
            sent = build_config(policy="fifo", **named, **options)
            assert sent == build_config(policy="fifo", **named)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """A choice with an option of the kinds that las does not have."""

    by: Literal["job", "user"] = field(default="job", metadata={"help": "Whose share."})
    count: int = field(default=2, metadata={"help": "How many.", "minimum": 1, "maximum": 4})
    history: tuple[float, ...] = field(default=(1.0, 1.0), metadata={"help": "Any numbers.", "ordered": False})


@pytest.mark.parametrize(
    ("option", "value", "made"),
    [("by", "user", "user"), ("count", 3.0, 3), ("history", [2, 1, 2], (2.0, 1.0, 2.0))],
)
def test_values_become_what_the_field_holds(option: str, value: object, made: object) -> None:
    """Text of a fixed set, whole numbers, and lists whose order does not matter."""
    known = {parameter["name"]: parameter for parameter in parameters(_Sample)}

    assert checked(known[option], value) == made


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("by", "moon", "unknown"),
        ("by", ["job"], "unknown"),
        ("count", 2.5, "type"),
        ("count", 5, "range"),
        ("history", [], "type"),
        ("history", ["1"], "type"),
    ],
)
def test_other_values_are_refused(option: str, value: object, code: str) -> None:
    """Each with a code and a sentence that names the option."""
    known = {parameter["name"]: parameter for parameter in parameters(_Sample)}
    with pytest.raises(ValueError, match=option) as refused:
        checked(known[option], value)

    assert refused.value.args[0] == code


def test_options_reach_the_policy() -> None:
    """A list of numbers and a number, null for never."""
    config = build_config(policy="las", policy_options={"queue_limits_gpu_s": [60, 600], "promote_after": 8})

    assert config.policy == Las(queue_limits_gpu_s=(60.0, 600.0), promote_after=8.0)
    never = build_config(policy="las", policy_options={"promote_after": None}).policy
    assert isinstance(never, Las)
    assert never.promote_after == math.inf


@pytest.mark.parametrize(
    ("arguments", "pointer", "code"),
    [
        ({"policy": "lifo"}, "/policy", "unknown"),
        ({"policy": "fifo", "locality": "moon"}, "/locality", "unknown"),
        ({"policy": "fifo", "mechanism": ""}, "/mechanism", "unknown"),
        ({"policy": "fifo", "policy_options": {"x": 1}}, "/policy_options/x", "unknown"),
        ({"policy": "las", "policy_options": {"promote_after": -1}}, "/policy_options/promote_after", "range"),
        ({"policy": "las", "policy_options": {"promote_after": True}}, "/policy_options/promote_after", "type"),
        ({"policy": "las", "policy_options": {"queue_limits_gpu_s": 5}}, "/policy_options/queue_limits_gpu_s", "type"),
        (
            {"policy": "las", "policy_options": {"queue_limits_gpu_s": [5, 5]}},
            "/policy_options/queue_limits_gpu_s",
            "order",
        ),
        (
            {"policy": "las", "mechanism_options": {"sort_by_demand": 1}},
            "/mechanism_options/sort_by_demand",
            "type",
        ),
    ],
)
def test_bad_choices_are_refused_where_they_are(arguments: dict[str, Any], pointer: str, code: str) -> None:
    """Each bad name or value gives one entry with a pointer to it."""
    with pytest.raises(SpecInvalid) as refused:
        build_config(**arguments)

    assert [(error.pointer, error.code) for error in refused.value.errors] == [(pointer, code)]


def test_all_bad_choices_are_told_at_once() -> None:
    """Nobody corrects one field after the other."""
    with pytest.raises(SpecInvalid) as refused:
        build_config(policy="x", locality="y", mechanism="z", introspection=["w"], introspection_options={"v": {}})

    pointers = [error.pointer for error in refused.value.errors]
    assert pointers == ["/policy", "/locality", "/mechanism", "/introspection/0", "/introspection_options/v"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"policy": "fifo", "policy_options": {"backfill": False}, "introspection": ["slicing"]},
        {"policy": "srtf", "preempt": False, "introspection": ["slicing"]},
        {"policy": "srtf", "min_run_s": 61.0, "introspection": ["slicing"]},
        {"policy": "maxmin", "introspection": ["growth"]},
        {"policy": "maxmin", "introspection": ["slicing"]},
    ],
)
def test_choices_that_work_against_each_other_are_refused(arguments: dict[str, Any]) -> None:
    """One sentence that names both; each of them alone is fine."""
    with pytest.raises(SpecInvalid) as refused:
        build_config(**arguments)

    assert [(error.pointer, error.code) for error in refused.value.errors] == [("/introspection/0", "contradiction")]
    assert refused.value.errors[0].detail.count(".") == 1
    build_config(**{**arguments, "introspection": []})
    build_config(policy="srtf", introspection=arguments["introspection"])


def test_introspection_gets_its_own_options() -> None:
    """By name, in the order in which they act; options of one that is not chosen are refused."""
    options = {"slicing": {"quantum_s": 90}}
    config = build_config(policy="fifo", introspection=["packing", "slicing"], introspection_options=options)

    assert [one.name for one in config.introspection] == ["packing", "slicing"]
    assert config.introspection[1] == Slicing(quantum_s=90.0)
    with pytest.raises(SpecInvalid) as refused:
        build_config(policy="fifo", introspection=["slicing", "slicing"], introspection_options={"slicing": {"x": 1}})
    pointers = [error.pointer for error in refused.value.errors]
    assert pointers == ["/introspection_options/slicing/x", "/introspection/1"]
