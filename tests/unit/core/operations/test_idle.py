"""When a job counts as holding GPUs without use, and when it is stopped for it."""

import pytest

from scheduler.core.operations.idle import SILENT_S, IdleAction, IdleRule, IdleStep, Seen, idle_step, seen_after

RULE = IdleRule(after_s=600.0, action=IdleAction.SUSPEND)


def after(
    minutes: int,
    *,
    is_told: bool,
    rule: IdleRule = RULE,
    gpu_frac: float = 0.0,
    busy_cores: float = 0.0,
    step: int | None = None,
    steps_rise: bool = False,
) -> IdleStep:
    """Return what is to be done after so many minutes with a report every second, all with the same values."""
    seen: Seen | None = None
    for second in range(60 * minutes + 1):
        at = second if steps_rise else step
        seen = seen_after(seen, now_s=float(second), gpu_frac=gpu_frac, busy_cores=busy_cores, step=at)
    assert seen is not None
    return idle_step(seen, rule, is_told=is_told, now_s=60.0 * minutes)


def test_it_is_told_when_the_time_is_over_and_stopped_a_grace_later() -> None:
    """Ten minutes are allowed: told at ten, nothing more until twenty."""
    assert after(9, is_told=False) is IdleStep.NOTHING
    assert after(10, is_told=False) is IdleStep.TELL
    assert after(19, is_told=True) is IdleStep.NOTHING
    assert after(20, is_told=True) is IdleStep.ACT


def test_a_queue_may_only_tell() -> None:
    """Nothing is ever stopped by such a rule."""
    rule = IdleRule(after_s=600.0, action=IdleAction.TELL)

    assert after(600, is_told=True, rule=rule) is IdleStep.NOTHING


def test_used_gpus_are_never_idle_and_end_the_notice() -> None:
    """Five percent is use; one that was told of and is used again is forgotten."""
    assert after(60, is_told=False, gpu_frac=0.05) is IdleStep.NOTHING
    assert after(60, is_told=True, gpu_frac=0.05) is IdleStep.FORGET
    assert after(60, is_told=False, gpu_frac=0.049) is IdleStep.TELL


@pytest.mark.parametrize(("busy_cores", "steps_rise"), [(0.5, False), (0.0, True)])
def test_what_computes_is_told_of_and_never_stopped(busy_cores: float, *, steps_rise: bool) -> None:
    """A notebook that computes on a core, or a job that makes steps, wastes GPUs and goes on."""
    assert after(120, is_told=False, busy_cores=busy_cores, steps_rise=steps_rise) is IdleStep.TELL
    assert after(120, is_told=True, busy_cores=busy_cores, steps_rise=steps_rise) is IdleStep.NOTHING


def test_a_step_that_stays_is_no_work() -> None:
    """The same step reported again and again is not progress, nor is one that falls."""
    assert after(20, is_told=True, step=7) is IdleStep.ACT


def test_after_silence_the_time_begins_anew() -> None:
    """What was not heard is not held against a job."""
    before = seen_after(None, now_s=0.0, gpu_frac=0.0, busy_cores=0.0, step=None)
    heard_again = seen_after(before, now_s=before.heard_s + SILENT_S + 1, gpu_frac=0.0, busy_cores=0.0, step=None)

    assert heard_again.used_s == heard_again.heard_s


def test_grace_is_as_long_again_but_at_most_a_quarter_of_an_hour() -> None:
    """An hour allowed gives fifteen minutes more."""
    assert IdleRule(after_s=60.0, action=IdleAction.CANCEL).grace_s == 60.0
    assert IdleRule(after_s=3600.0, action=IdleAction.CANCEL).grace_s == 900.0
