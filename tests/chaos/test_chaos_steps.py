"""The witness of a chaos run sees what it should: a checker that finds nothing in a broken log proves nothing."""

from tests.chaos.steps import judge, read


def log(*lines: str) -> str:
    """Return a log; each line without its time, which is its number in seconds."""
    return "".join(f"{number}.0 {line}\n" for number, line in enumerate(lines))


def test_job_that_resumes_at_its_checkpoint_is_in_order() -> None:
    """It trained two steps again, which lay after the checkpoint."""
    first = [
        "a begin 0",
        *(f"a step {n}" for n in range(3)),
        "a saved 3",
        *(f"a step {n}" for n in range(3, 8)),
        "a saved 8",
        "a step 8",
    ]
    found = judge(read(log(*first, "b begin 6", *(f"b step {n}" for n in range(6, 10)))), total=10)

    assert (found.attempts, found.steps, found.again, found.beyond, found.missing) == (2, 13, 3, 0, 0)
    assert found.overlaps == ()


def test_steps_before_a_sure_checkpoint_are_counted() -> None:
    """The job lost more than it had to."""
    first = ["a begin 0", "a step 0", "a step 1", "a saved 2", *(f"a step {n}" for n in range(2, 8))]
    found = judge(read(log(*first, "b begin 0", *(f"b step {n}" for n in range(8)))), total=8)

    assert (found.again, found.beyond) == (8, 2)


def test_attempt_that_goes_on_beside_a_later_one_is_seen() -> None:
    """A job ran twice at once."""
    found = judge(read(log("a begin 0", "a step 0", "b begin 0", "b step 0", "a step 1", "b step 1")), total=2)

    assert len(found.overlaps) == 1


def test_missing_steps_and_torn_lines_are_seen() -> None:
    """A completed job has trained every step."""
    found = judge(read(log("a begin 0", "a step 0", "a step 2") + "3.5 a st"), total=3)

    assert found.missing == 1
