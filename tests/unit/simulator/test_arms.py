"""Arms of a comparison: how they are written, what they take from the options around them."""

import pytest

from scheduler.policies.las import Las
from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.arms import Arm, parse_arms, parse_options, short_names

BASE = Arm(policy="las", locality="any", mechanism="proportional", policy_options={"queue_limits_gpu_s": 60})


def test_an_arm_takes_what_it_leaves_out_from_the_options() -> None:
    """Locality and mechanism come from the base; the base's options hold only where the same policy is named."""
    las, srtf, tuned = parse_arms("las, srtf:consolidate ,fifo+tune", BASE)

    assert las == BASE
    assert (srtf.policy, srtf.locality, srtf.mechanism, srtf.policy_options) == (
        "srtf",
        "consolidate",
        "proportional",
        {},
    )
    assert (tuned.policy, tuned.locality, tuned.mechanism) == ("fifo", "any", "tune")


def test_introspection_follows_the_mechanism() -> None:
    """What is no mechanism is introspection, in its order."""
    both, only = parse_arms("fifo+tune+slicing+packing,fifo+slicing+packing", BASE)

    assert (both.mechanism, both.introspection) == ("tune", ("slicing", "packing"))
    assert (only.mechanism, only.introspection) == ("proportional", ("slicing", "packing"))


@pytest.mark.parametrize("text", ["", " , ", "fifo tune", "fifo::any", "+tune", "fifo,fifo", "fifo+"])
def test_what_is_no_arm_is_refused(text: str) -> None:
    """The message shows how one is written, or which stands twice."""
    with pytest.raises(BadInput, match="--compare"):
        parse_arms(text, BASE)


def test_options_are_json_or_text() -> None:
    """Numbers, lists, booleans, null and words."""
    options = parse_options(["a=1.5", "b=3600,36000", "c=true", "d=null", "e=total", "f=x=y"], flag="--policy-option")

    assert options == {"a": 1.5, "b": [3600, 36000], "c": True, "d": None, "e": "total", "f": "x=y"}


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_an_option_without_a_name_or_value_is_refused(pair: str) -> None:
    """The flag is named."""
    with pytest.raises(BadInput, match="--policy-option"):
        parse_options([pair], flag="--policy-option")


def test_one_number_makes_a_list_where_a_list_is_wanted() -> None:
    """``queue_limits_gpu_s=60`` is a list of one."""
    policy = BASE.config().policy

    assert isinstance(policy, Las)
    assert policy.queue_limits_gpu_s == (60.0,)


def test_a_bad_choice_is_told_with_what_there_is() -> None:
    """Names and values, without a traceback."""
    with pytest.raises(BadInput, match="no policy nope"):
        Arm(policy="nope", locality="any", mechanism="tune").config()
    with pytest.raises(BadInput, match="at least"):
        Arm(policy="las", locality="any", mechanism="tune", policy_options={"queue_limits_gpu_s": [-1]}).config()


def test_short_names_leave_out_what_all_share() -> None:
    """Two arms that differ in the mechanism are told apart by it."""
    arms = parse_arms("fifo,srtf+tune", BASE)

    assert short_names(arms) == ["fifo + proportional", "srtf + tune"]
    assert short_names(parse_arms("fifo,srtf", BASE)) == ["fifo", "srtf"]
    assert short_names([BASE]) == ["las + any + proportional"]
