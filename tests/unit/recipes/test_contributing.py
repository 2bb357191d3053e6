"""The recipes of CONTRIBUTING.md name real files, and each example stands in the files of its recipe alone."""

import re

import pytest

from clusterweb.config.env import BASE_DIR

PRODUCT = ("clusterweb", "scheduler", "agents", "frontend")
TEXT = (BASE_DIR / "CONTRIBUTING.md").read_text()
RECIPES = {
    part.splitlines()[0]: part for part in TEXT.partition("## Recipes")[2].split("\n### ")[1:]
}  # by title, such as "A policy"
# What a line of the example looks like; None where the example is one of many users of a word.
EXAMPLES = {
    "A policy": r"\bsrsf\b",
    "A field of a job": r"\bstall(_s)?\b",
    "A page": None,
    "A trace format": r"\bhelios\b",
    "A check of a server": None,
    "A default": r"\bDEFAULT_GRACE_S\b",
    "A reason to wait": r"\bWaitReason\.ISOLATION\b",
    "A kind of event": r"\"server_mix\"|\bserver_mix_words\b",
    "A cause of an end": r"\bEndCause\.PROCESS_LIMIT\b|\"process_limit\"",
    "A route of REST": r"\bJobKeep\b",
    "A verb of the command": r"\bqueues\.costs\b",
}


def listed(recipe: str) -> set[str]:
    """Return the files that a recipe names."""
    return {path for path in re.findall(r"`([\w./-]+)`", recipe) if "/" in path and "." in path.rpartition("/")[2]}


def test_all_are_there() -> None:
    """A recipe that is added comes with its example."""
    assert list(RECIPES) == list(EXAMPLES)


@pytest.mark.parametrize("title", EXAMPLES)
def test_files_of_a_recipe_exist(title: str) -> None:
    """A file that moved is followed by its recipe."""
    assert [path for path in sorted(listed(RECIPES[title])) if not (BASE_DIR / path).is_file()] == []


@pytest.mark.parametrize("title", EXAMPLES)
def test_every_recipe_is_followed_by_a_test(title: str) -> None:
    """A recipe that nothing follows is a wish."""
    [by] = re.findall(r"^Example: .* (?:Followed in|Held by) (.*)$", RECIPES[title], re.MULTILINE)

    assert re.match(r"`tests/(unit|integration)/[\w/]+/test_\w+\.py`", by)


@pytest.mark.parametrize("title", EXAMPLES)
def test_example_is_the_one_of_the_recipe(title: str) -> None:
    """The word after "Example" is in the files that the recipe lists."""
    [word] = re.findall(r"^Example: `(\S+)`\.", RECIPES[title], re.MULTILINE)
    files = listed(RECIPES[title])

    assert any(word in path or word in (BASE_DIR / path).read_text() for path in files)


@pytest.mark.parametrize("title", [title for title, line in EXAMPLES.items() if line])
def test_example_stands_in_no_other_file_of_the_product(title: str) -> None:
    """The list of a recipe is complete: its example has lines in no file that the recipe leaves out."""
    line = re.compile(EXAMPLES[title] or "")
    found = {
        str(path.relative_to(BASE_DIR))
        for folder in PRODUCT
        for pattern in ("*.py", "*.html")
        for path in (BASE_DIR / folder).rglob(pattern)
        if line.search(path.read_text())
    }

    assert found
    assert sorted(found - listed(RECIPES[title])) == []


def test_a_policy_is_short() -> None:
    """The example takes at most 40 lines."""
    assert len((BASE_DIR / "scheduler/policies/srsf.py").read_text().splitlines()) <= 40
