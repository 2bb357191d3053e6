"""What the cluster pages say of how a server keeps jobs apart."""

import pytest

from frontend.pages.cluster.words import isolation_in_short, isolation_line


@pytest.mark.parametrize(
    ("level", "line", "in_short"),
    [
        ("none", "No isolation: jobs on it run as one user and can see each other's processes and files.", "none"),
        (
            "user+cgroup",
            "the jobs of each queue run as a user of their own; the kernel keeps the limits",
            "a user for each",
        ),
        ("none+landlock", "a job opens its own files alone, and neither looks into", "own files alone"),
        (
            "user+landlock",
            "a user of their own; a job opens its own files alone",
            "a user for each queue, own files alone",
        ),
        ("none+cgroup", "No isolation: ", "none"),
    ],
)
def test_words_of_a_level(level: str, line: str, in_short: str) -> None:
    """Every part that holds is told, and that nothing does."""
    assert line in isolation_line(level)
    assert in_short in isolation_in_short(level)
