"""The table of attacks in docs/security.md: forty or more, numbered, and each names a test that exists."""

import re

from clusterweb.config.env import BASE_DIR

SHORT = {"H": "tests/hostile", "I": "tests/integration", "U": "tests/unit", "tests": "tests"}
LINE = re.compile(r"^\| (\d+) \| .+ \| `(\w+)/([\w/]+\.py)::(\w+)` \|$", flags=re.MULTILINE)


def test_every_attack_names_a_test() -> None:
    """A line without a test is a promise; a test that is gone is one that was broken."""
    text = (BASE_DIR / "docs/security.md").read_text(encoding="utf-8")
    found = LINE.findall(text)
    missing = [
        f"{top}/{file}::{test}"
        for _, top, file, test in found
        if f"def {test}(" not in (BASE_DIR / SHORT[top] / file).read_text(encoding="utf-8")
    ]

    assert missing == []
    assert [int(number) for number, *_ in found] == list(range(1, len(found) + 1))
    assert len(found) == text.count("::test_") >= 40
