"""Sentences of the reasons to wait."""

import pytest

from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.reasons import sentence

EXAMPLES: list[tuple[WaitReason, Evidence, str]] = [
    (
        WaitReason.FRAGMENTATION,
        {"needed_gpus": 8, "largest_free_gpus": 7, "free_gpus": 9, "max_servers": 1},
        "No server has 8 GPUs free. The largest free block is 7.",
    ),
    (
        WaitReason.FRAGMENTATION,
        {"needed_gpus": 16, "largest_free_gpus": 0, "max_servers": 2},
        "No 2 servers together have 16 GPUs free. No GPU is free.",
    ),
    (
        WaitReason.QUEUE_QUOTA,
        {"queue": "vision", "queue_held_gpus": 54, "queue_quota_gpus": 48, "may_borrow": 1, "other_queue": "nlp"},
        "The quota of vision is used up, and nlp needs its own.",
    ),
    (
        WaitReason.QUEUE_QUOTA,
        {
            "queue": "vision",
            "queue_held_gpus": 54,
            "queue_quota_gpus": 48,
            "may_borrow": 1,
            "other_queue": "nlp",
            "needed_gpus": 4,
        },
        "Needs 4 GPUs; vision holds 54 of its 48, and nlp needs its own quota.",
    ),
    (
        WaitReason.QUEUE_QUOTA,
        {
            "queue": "language",
            "queue_held_gpus": 7,
            "queue_quota_gpus": 8,
            "may_borrow": 1,
            "other_queue": "vision",
            "needed_gpus": 4,
        },
        "Needs 4 GPUs; one of language's quota is left, and vision needs its own quota.",
    ),
    (
        WaitReason.QUEUE_QUOTA,
        {"queue": "vision", "queue_held_gpus": 48, "queue_quota_gpus": 48, "may_borrow": 0},
        "vision holds 48 of 48 GPUs, and it borrows none.",
    ),
    (
        WaitReason.QUEUE_MAX,
        {"queue": "vision", "queue_held_gpus": 60, "queue_max_gpus": 64, "needed_gpus": 8},
        "vision holds 60 of 64 GPUs, the most it may ever hold. "
        "It needs 8 GPUs: running jobs there have to give back 4.",
    ),
    (
        WaitReason.QUEUE_MAX,
        {"queue": "vision", "queue_held_gpus": 0, "queue_max_gpus": 4, "needed_gpus": 8},
        "vision holds 0 of 4 GPUs, the most it may ever hold. It needs 8 GPUs. "
        "It cannot start until vision may hold 8 GPUs, or it asks for fewer.",
    ),
    (
        WaitReason.QUEUE_QUOTA,
        {"queue": "vision", "queue_held_gpus": 2, "queue_quota_gpus": 4, "may_borrow": 0, "needed_gpus": 8},
        "vision holds 2 of 4 GPUs, and it borrows none. It needs 8 GPUs. "
        "It cannot start until vision has a quota of 8 GPUs or may borrow, or it asks for fewer.",
    ),
    (
        WaitReason.USER_LIMIT,
        {"queue": "vision", "user_held_gpus": 0, "user_max_gpus": 1, "needed_gpus": 4},
        "One user may hold 1 GPU in vision; it needs 4 GPUs. "
        "It cannot start until one user may hold 4 GPUs in vision, or it asks for fewer.",
    ),
    (
        WaitReason.USER_LIMIT,
        {"queue": "vision", "user_held_gpus": 2, "user_max_gpus": 2, "needed_gpus": 4, "least_gpus": 2},
        "One user may hold 2 GPUs in vision. Its owner's jobs hold, or come first for, 2; it needs 4 GPUs.",
    ),
    (
        WaitReason.ARRAY_LIMIT,
        {"array_most": 1, "array_at_work": 1},
        "Its array may have 1 job at work at once, and 1 is or comes first.",
    ),
    (
        WaitReason.DEPENDENCY,
        {
            "job": "A-7",
            "until": "ended",
            "array_jobs": 9,
            "ended_jobs": 2,
            "stuck_job": "J-8",
            "stuck_state": "suspended",
        },
        "It waits until A-7 has ended; 2 of its 9 jobs have ended. It cannot start until J-8 is resumed.",
    ),
    (
        WaitReason.NO_CAPACITY,
        {"needed_gpus": 1, "free_gpus": 0},
        "It needs 1 GPU; none is free. It waits until running jobs give back 1.",
    ),
    (
        WaitReason.NO_CAPACITY,
        {"needed_gpus": 3, "free_gpus": 1},
        "It needs 3 GPUs; 1 is free. It waits until running jobs give back 2 more.",
    ),
    (
        WaitReason.BEHIND_POLICY_ORDER,
        {"needed_gpus": 4, "ahead_gpus": 62, "total_gpus": 64},
        "Other jobs are ahead; no GPU is free for it.",
    ),
    (
        WaitReason.BEHIND_POLICY_ORDER,
        {"needed_gpus": 1, "ahead_gpus": 24, "total_gpus": 24, "free_gpus": 0, "ahead_jobs": 11},
        "11 jobs are ahead; no GPU is free.",
    ),
    (
        WaitReason.BEHIND_POLICY_ORDER,
        {"needed_gpus": 4, "free_gpus": 2, "ahead_jobs": 1},
        "1 job is ahead; it needs 4 GPUs, 2 are free.",
    ),
    (
        WaitReason.BEHIND_POLICY_ORDER,
        {"needed_gpus": 1, "free_gpus": 0, "ahead_jobs": 0},
        "Next in line; no GPU is free.",
    ),
    (
        WaitReason.NEVER_FEASIBLE,
        {"needed_gpus": 16, "largest_possible_gpus": 8},
        "It needs 16 GPUs. The servers could give one job 8 at most. "
        "It cannot start until servers that can give it 16 GPUs are up, or it asks for fewer.",
    ),
    (
        WaitReason.ISOLATION,
        {"needed_gpus": 2, "queue": "vision", "barred_servers": 2, "servers": 2},
        "No server keeps jobs apart well enough for vision. "
        "It cannot start until servers that keep jobs apart well enough for vision can give it 2 GPUs.",
    ),
    (
        WaitReason.ISOLATION,
        {"needed_gpus": 8, "queue": "vision", "barred_servers": 2, "servers": 3, "largest_possible_gpus": 4},
        "It needs 8 GPUs. 2 of 3 servers do not keep jobs apart well enough for vision; the others are too small "
        "for it. It cannot start until servers that keep jobs apart well enough for vision can give it 8 GPUs, "
        "or it asks for fewer.",
    ),
    (
        WaitReason.ISOLATION,
        {"needed_gpus": 2, "queue": "vision", "barred_servers": 1, "servers": 3},
        "It needs 2 GPUs. 1 of 3 servers does not keep jobs apart well enough for vision; "
        "the others have no room for it.",
    ),
    (
        WaitReason.PREPARING_ENVIRONMENT,
        {"needed_gpus": 2, "ready_servers": 0, "servers": 3},
        "Its Python environment is being prepared. It holds no GPU meanwhile.",
    ),
    (
        WaitReason.PREPARING_ENVIRONMENT,
        {"needed_gpus": 2, "ready_servers": 1, "servers": 3},
        "It needs 2 GPUs. Its Python environment is ready on one server of 3, without room for it now, "
        "and is prepared on another one.",
    ),
    (
        WaitReason.CPU_OR_MEMORY,
        {"needed_gpus": 2, "needed_cpus": 20.0, "needed_memory_bytes": 64 * 2.0**30},
        "Servers with 2 GPUs free have too few cores or too little memory. "
        "It insists on 20 cores and 64.0 GiB of memory.",
    ),
    (
        WaitReason.RECONFIGURING,
        {"granted_gpus": 4, "missing_gpus": 3},
        "It was granted 4 GPUs; 3 of them are still held by jobs that are leaving.",
    ),
]


@pytest.mark.parametrize(("reason", "evidence", "text"), EXAMPLES)
def test_sentences_carry_the_numbers(reason: WaitReason, evidence: Evidence, text: str) -> None:
    """The sentence names what the queue holds, and how much is missing."""
    assert sentence(reason, evidence) == text


@pytest.mark.parametrize("reason", WaitReason)
def test_no_reason_is_ever_silent(reason: WaitReason) -> None:
    """Every member has a sentence, with evidence or without, by member or by its stored text."""
    assert sentence(reason, {}).endswith(".")
    assert sentence(reason.value, {}) == sentence(reason, {})
    assert "None" not in sentence(reason, {})
