"""Options of policies with their unit: on forms, rounds, questions and in the feed."""

from typing import Any

import pytest

from frontend.components.event_words.options import option_said
from frontend.components.event_words.settings import setting_changes, settings_words
from frontend.components.option_fields import option_fields
from scheduler.choices import choices
from scheduler.selectors.rows import EventRow


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("queue_limits_gpu_s", [36_000.0], "10 GPU-hours"),
        ("queue_limits_gpu_s", [3_600], "1 GPU-hour"),
        ("queue_limits_gpu_s", [3_250.0], "3\u202f250 GPU-seconds"),
        ("queue_limits_gpu_s", [900.0, 36_000.0], "0.25 and 10 GPU-hours"),
        ("lease_s", 1_200.0, "20 min"),
        ("lease_s", 90_061.0, "1 d 1 h 1 min 1 s"),
        ("measure_s", 0.5, "0.5 s"),
        ("threshold", 0.25, "0.25"),
        ("backfill", True, "on"),
        ("by", "user", "user"),
        ("promote_after", None, "none"),
        ("lease_s", float("nan"), "nan"),
        ("queue_limits_gpu_s", [900.0, float("inf")], "900.0 and inf"),
    ],
)
def test_a_value_is_read_with_its_unit(name: str, value: Any, said: str) -> None:
    """The largest unit that rounds nothing."""
    assert option_said(name, value).replace("\u00a0", " ") == said


def test_forms_say_the_unit_beside_the_label() -> None:
    """Once: the help does not repeat it."""
    las = next(choice for choice in choices()["policies"] if choice["name"] == "las")
    [limits, *_] = option_fields(las, "policy", stored={"queue_limits_gpu_s": [36_000.0]}, errors={})

    assert (limits.label, limits.unit) == ("Queue limits", "GPU-seconds")
    assert limits.said.replace("\u00a0", " ") == "10 GPU-hours"
    every = [one for many in choices().values() for choice in many for one in choice["parameters"]]  # type: ignore[attr-defined]  # a TypedDict of lists
    assert not [one["name"] for one in every if one["unit"] and one["help"].rstrip(".").endswith("seconds")]


def test_each_option_that_changes_is_named_with_both_values() -> None:
    """Also the default, which is not stored, and the options of a policy that is no longer chosen."""
    las = {"policy": "las", "policy_options": {}}
    limited = {"policy": "las", "policy_options": {"queue_limits_gpu_s": [36_000.0]}}
    [change] = setting_changes(las, limited)
    [other, gone] = setting_changes(limited, {"policy": "srtf", "policy_options": {}})

    assert change.what == "queue limits of las"
    assert change.before.endswith("(default)")
    assert change.after == "10\u00a0GPU-hours"
    assert (other.before, other.after) == ("las", "srtf")
    assert (gone.what, gone.after) == ("queue limits of las", "not chosen")


def test_the_feed_says_what_changed_in_which_unit() -> None:
    """Not only that options did."""
    data = {
        "before": {"policy_options": {}, "min_run_s": 0.0},
        "after": {"policy_options": {"lease_s": 1_200.0}, "min_run_s": 300.0},
    }
    row: EventRow = {
        "id": 1, "number": None, "at": "", "kind": "settings", "actor": "ada", "job_id": None, "job_number": None,
        "job_name": None, "queue": None, "color_slot": None, "server": None, "old_state": "", "new_state": "",
        "reason": "change", "data": data | {"reason": "fairer"},
    }  # fmt: skip
    words = settings_words(row)[2].replace("\u00a0", " ")

    assert words == ("ada changed lease of the policy from default to 20 min, least run from 0 s to 5 min: fairer")
