"""What a job has kept of its work, as one sentence."""

import pytest

from scheduler.core.operations.kept import Kept, time_words


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        (Kept(keeps_work=None, at_stake_s=9.0), ""),
        (Kept(keeps_work="unknown", at_stake_s=240.0, is_complete=True, is_over=True), ""),
        (
            Kept(keeps_work="checkpoints", has_checkpoint=True, step=280, saved_s_ago=12.0, at_stake_s=12.0),
            "Step 280 is kept (checkpoint 12 s ago); 12 s of work since would be lost.",
        ),
        (
            Kept(keeps_work="checkpoints", has_checkpoint=True, step=280, saved_s_ago=3.0, is_over=True),
            "Step 280 is kept; no work is lost.",
        ),
        (
            Kept(keeps_work="checkpoints", has_checkpoint=True, saved_s_ago=700.0, at_stake_s=240.0, is_over=True),
            "It has a checkpoint (checkpoint 12 min ago); 4 min of work since is lost.",
        ),
        (
            Kept(keeps_work="checkpoints", at_stake_s=40.0),
            "It has written no checkpoint: 40 s of work would be lost.",
        ),
        (
            Kept(keeps_work="unknown", at_stake_s=240.0),
            "It has told of no checkpoint: 4 min of work counts as lost when it is stopped. "
            "What it saves itself is not known.",
        ),
        (
            Kept(keeps_work="unknown", at_stake_s=7500.0, is_over=True),
            "It has told of no checkpoint: 2 h 5 min of work is lost, but for what it saved itself.",
        ),
        (
            Kept(keeps_work="unknown", at_stake_s=0.2, is_over=True),
            "It has told of no checkpoint; no work is lost.",
        ),
    ],
)
def test_sentence_says_what_is_kept_and_what_is_lost(kept: Kept, sentence: str) -> None:
    """And claims no more than is known."""
    assert kept.sentence == sentence


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (3599, "1 h"), (3660, "1 h 1 min")]
)
def test_times_in_sentences(seconds: float, words: str) -> None:
    """In one or two units."""
    assert time_words(seconds) == words
