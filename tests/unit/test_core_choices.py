"""Names and options become a configuration."""

import json
import math
from typing import Any

import pytest

from scheduler.choices import build_config, choices
from scheduler.core.errors import SpecInvalid
from scheduler.policies.las import Las


def test_everything_to_choose_from_is_json_with_help() -> None:
    """Each choice has a sentence, each option a type, a default, its range and a sentence."""
    offered = json.loads(json.dumps(choices(), allow_nan=False))

    assert [choice["name"] for choice in offered["policies"]] == ["fifo", "srtf", "las"]
    for kind in offered.values():
        for choice in kind:
            assert choice["help"].endswith(".")
            assert all(parameter["help"] and parameter["type"] for parameter in choice["parameters"])


def test_defaults_can_be_sent_back() -> None:
    """What choices() offers as defaults is accepted as options and gives the same configuration."""
    offered = choices()
    las = next(choice for choice in offered["policies"] if choice["name"] == "las")
    options = {parameter["name"]: parameter["default"] for parameter in las["parameters"]}

    assert build_config(policy="las", policy_options=options).policy == Las()


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
        build_config(policy="x", locality="y", mechanism="z")

    assert len(refused.value.errors) == 3
