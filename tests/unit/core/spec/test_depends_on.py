"""``depends_on: [J-1: completed]``: how it is written, what is refused, and when it is met."""

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.depends_on import (
    Dependency,
    Until,
    Verdict,
    dependencies_of,
    dependencies_text,
    read_depends_on,
)
from scheduler.core.spec.reading import FieldReader

S = JobState
FIRST = Dependency(1, is_array=False, until=Until.COMPLETED)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, ()),
        ([], ()),
        ([{"J-1": "completed"}], (FIRST,)),
        (["J-1"], (FIRST,)),
        ("j-1", (FIRST,)),
        ({"J-1": "completed"}, (FIRST,)),
        (["J-1: completed"], (FIRST,)),  # in quotes
        ([1, "1", {1: "completed"}, {"1": "completed"}, "1: completed"], (FIRST,)),  # the number of an answer
        ([{"J-1": "completed"}, "J-1"], (FIRST,)),
        (
            [{"A-20": "ended", "J-3": "failed"}],
            (Dependency(20, is_array=True, until=Until.ENDED), Dependency(3, is_array=False, until=Until.FAILED)),
        ),
    ],
)
def test_dependencies_are_read(value: object, found: tuple[Dependency, ...]) -> None:
    """A list of pairs as the issue writes it; a name alone means that it completed; each once."""
    reader = FieldReader()

    assert read_depends_on(reader, value) == found
    assert not reader.errors
    assert dependencies_of(dependencies_text(found)) == found


def test_an_id_is_read_as_it_is() -> None:
    """Its number stands in the database; letters of any case."""
    [one] = read_depends_on(FieldReader(), ["01kb5xzq8m3jv0w7r2t9y4n6pd: ended"])

    assert one == Dependency(0, is_array=False, until=Until.ENDED, job_id="01KB5XZQ8M3JV0W7R2T9Y4N6PD")
    assert one.subject == "01KB5XZQ8M3JV0W7R2T9Y4N6PD"


@pytest.mark.parametrize(
    ("value", "pointer", "code", "words"),
    [
        (7, "/depends_on", "type", "a list such as [J-12: completed], not 7"),
        (["X-1"], "/depends_on/0", "syntax", "not 'X-1'"),
        (["J-0"], "/depends_on/0", "syntax", "not 'J-0'"),
        ([True], "/depends_on/0", "syntax", "a job by its number or id as its submit answered it, such as J-12"),
        (["prepare"], "/depends_on/0", "syntax", "by its number or id"),
        ([{"12": "done"}], "/depends_on/0", "choice", "not 'done'"),
        (["J-1", {"J-2": "done"}], "/depends_on/1", "choice", "completed, failed, ended, not 'done'"),
        ([{"J-2": True}], "/depends_on/0", "choice", "not true"),
        (["J-2: done"], "/depends_on/0", "choice", "not 'done'"),
        ([f"J-{number}" for number in range(1, 18)], "/depends_on", "length", "at most 16. It names 17"),
    ],
)
def test_what_is_no_dependency_is_said(value: object, pointer: str, code: str, words: str) -> None:
    """One entry with its place and what would be right."""
    reader = FieldReader()

    read_depends_on(reader, value)

    [error] = reader.errors
    assert (error.pointer, error.code) == (pointer, code)
    assert words in error.detail


@pytest.mark.parametrize(
    ("until", "states", "verdict"),
    [
        (Until.COMPLETED, [S.RUNNING], Verdict.OPEN),
        (Until.COMPLETED, [S.COMPLETED], Verdict.MET),
        (Until.COMPLETED, [S.FAILED], Verdict.NEVER),
        (Until.COMPLETED, [S.CANCELLED], Verdict.NEVER),
        (Until.FAILED, [S.SUSPENDED], Verdict.OPEN),
        (Until.FAILED, [S.FAILED], Verdict.MET),
        (Until.FAILED, [S.CANCELLED], Verdict.MET),  # as afternotok of Slurm
        (Until.FAILED, [S.COMPLETED], Verdict.NEVER),
        (Until.ENDED, [S.PREEMPTING], Verdict.OPEN),
        (Until.ENDED, [S.COMPLETED], Verdict.MET),
        (Until.ENDED, [S.CANCELLED], Verdict.MET),
        # Arrays: all of them, and no longer than needed.
        (Until.COMPLETED, [S.COMPLETED, S.QUEUED], Verdict.OPEN),
        (Until.COMPLETED, [S.COMPLETED, S.COMPLETED], Verdict.MET),
        (Until.COMPLETED, [S.FAILED, S.QUEUED], Verdict.NEVER),
        (Until.FAILED, [S.FAILED, S.RUNNING], Verdict.OPEN),
        (Until.FAILED, [S.COMPLETED, S.FAILED], Verdict.MET),
        (Until.FAILED, [S.COMPLETED, S.COMPLETED], Verdict.NEVER),
        (Until.ENDED, [S.COMPLETED, S.RUNNING], Verdict.OPEN),
        (Until.ENDED, [S.COMPLETED, S.FAILED], Verdict.MET),
        # Gone, long after its end.
        (Until.ENDED, [], Verdict.MET),
        (Until.COMPLETED, [], Verdict.NEVER),
        (Until.FAILED, [], Verdict.NEVER),
    ],
)
def test_a_dependency_is_met_open_or_in_vain(until: Until, states: list[JobState], verdict: Verdict) -> None:
    """What has become of it by the states of the others."""
    assert Dependency(1, is_array=False, until=until).verdict(states) is verdict
