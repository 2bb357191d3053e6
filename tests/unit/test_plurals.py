"""Sentences that a user reads say a number and its noun as one says it: never ``1 jobs``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterweb.config.env import BASE_DIR
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.reasons import sentence
from scheduler.core.operations.wait_checks import failing_check

ROOTS = ("frontend", "clusterweb/cli", "scheduler/core/operations", "scheduler/live", "scheduler/selectors")
NOUNS = (
    "attempts|checks|cores|days|entries|files|folders|futures|GPUs|jobs|links|others|queues|rounds|runs|secrets"
    "|servers|slots|steps|tokens|users|values|variants"
)
NOUN = re.compile(rf" (?:more )?(?:{NOUNS})\b(?!/)")
PART = re.compile(r"\bof (?:its |the |the last |last )?$")  # "1 of 3 jobs": the noun is that of the whole
IN_TEMPLATE = re.compile(rf"(?<!of )\{{\{{ [^{{}}]*\|number \}}\}} (?:more )?(?:{NOUNS})\b(?!/)")
# Where the number is more than one whenever the sentence is said, or the noun is another's.
SEVERAL = {
    " queues have spent their budgets of this month, or will have at its end",
    " servers, the first since ",
    " servers are ",  # more than are named
    " checks pass",
    " files at most",
    " GPUs come when that has passed.",
    " jobs take ",
    " jobs apart well enough",
    " steps",  # of the words of a chart's steps, which have no other form
    "{{ item.steps|number }} steps",
    "{{ job.total_steps|number }} steps",
    "{{ row.feedback_steps|number }} steps",
    "{{ servers|length|number }} servers",  # from the thirteenth on
}


def said_in_code(path: Path) -> Iterator[str]:
    """Yield what follows a number in the f-strings of a file; a conditional expression chooses the noun itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    chosen = {id(part) for node in ast.walk(tree) if isinstance(node, ast.IfExp) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr) or id(node) in chosen:
            continue
        before = ""
        for value, after in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.Constant):
                before = str(value.value)
            elif isinstance(after, ast.Constant) and NOUN.match(str(after.value)) and not PART.search(before):
                yield str(after.value)


def uncounted() -> Iterator[str]:
    """Yield what is said of a number, with the file, where the noun does not follow from it."""
    for root in ROOTS:
        for path in sorted((BASE_DIR / root).rglob("*.py")):
            yield from (f"{path.relative_to(BASE_DIR)}: {said}" for said in said_in_code(path) if said not in SEVERAL)
    for path in sorted((BASE_DIR / "frontend").rglob("*.html")):
        found = IN_TEMPLATE.findall(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(BASE_DIR)}: {said}" for said in found if said not in SEVERAL)


def test_a_noun_follows_from_its_number() -> None:
    """By ``counted`` or by a choice beside it, in pages, commands and the sentences of reasons."""
    assert list(uncounted()) == []


ONE: Evidence = {
    **dict.fromkeys(("needed_gpus", "free_gpus", "queue_held_gpus", "queue_quota_gpus", "queue_max_gpus"), 1),
    **dict.fromkeys(("user_held_gpus", "user_max_gpus", "array_most", "array_at_work", "array_jobs", "ended_jobs"), 1),
    **dict.fromkeys(("jobs", "ahead_jobs", "largest_free_gpus", "largest_possible_gpus", "granted_gpus"), 1),
    **dict.fromkeys(("missing_gpus", "ready_servers", "barred_servers", "drained_servers"), 1),
    "max_servers": 1,
    "servers": 3,
}


@pytest.mark.parametrize("reason", WaitReason)
def test_each_reason_to_wait_counts_one(reason: WaitReason) -> None:
    """One GPU, one job, one server: sentence and check."""
    said = f"{sentence(reason, ONE)} {': '.join(failing_check(reason, ONE))}"

    assert not re.search(rf"\b1 (?:more )?(?:{NOUNS})\b", said), said
    assert not re.search(r"\b1 (?:are|do|keep|have|go|wait)\b", said), said
    assert "1 of 3 servers do " not in said
