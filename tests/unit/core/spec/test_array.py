"""``array: 0-99%10``: the indexes it means, what each job is told, and a sentence for what it cannot mean."""

import pytest

from scheduler.core.spec import limits as limit
from scheduler.core.spec.array import JobArray, read_array
from scheduler.core.spec.reading import FieldReader


def read(value: object) -> JobArray:
    """Return the array that a value means."""
    reader = FieldReader()
    array = read_array(reader, value)
    assert not reader.errors
    assert array is not None
    return array


def error(value: object) -> tuple[str, str, str]:
    """Return the one error of a value."""
    reader = FieldReader()
    assert read_array(reader, value) is None
    [found] = reader.errors
    return found.pointer, found.code, found.detail


@pytest.mark.parametrize(
    ("value", "indexes", "most", "text"),
    [
        ("0-3", (0, 1, 2, 3), 0, "0-3"),
        ("0-99%10", tuple(range(100)), 10, "0-99%10"),
        ("1,3,5-9:2%4", (1, 3, 5, 7, 9), 4, "1,3,5-9:2%4"),
        (" 2 , 1 % 1 ", (1, 2), 1, "2,1%1"),
        ("1-3,2", (1, 2, 3), 0, "1-3,2"),
        ("5-6:9", (5,), 0, "5-6:9"),
        (7, (7,), 0, "7"),
        (f"{limit.ARRAY_INDEX}", (limit.ARRAY_INDEX,), 0, f"{limit.ARRAY_INDEX}"),
    ],
)
def test_an_array_is_read(value: object, indexes: tuple[int, ...], most: int, text: str) -> None:
    """Ranges with steps, lists and the limit after the per cent sign; each index once, ascending."""
    assert read(value) == JobArray(text, indexes, most)


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (True, "type", "must be text such as 0-99%10"),
        ([1, 2], "type", "not a list"),
        ("", "syntax", "numbers and ranges"),
        ("a-b", "syntax", "not 'a-b'"),
        ("1-3%x", "syntax", "not '1-3%x'"),
        (-1, "range", "holds '-1', which is neither"),
        ("1-2-3", "range", "holds '1-2-3'"),
        ("1,,2", "range", "holds ''"),
        ("5-1", "range", "ends at its begin or later"),
        ("1-5:0", "range", "steps of 1 or more"),
        ("0-9%0", "range", "1 job or more"),
        ("0-1000", "range", "at most 1000 jobs. You asked for 1001"),
        ("1000000", "range", "between 0 and 999999. You asked for 1000000"),
        ("0-999999999", "range", "between 0 and 999999"),
        ("1," * 200 + "1", "syntax", "in 400 characters"),
    ],
)
def test_what_is_no_array_is_said(value: object, code: str, words: str) -> None:
    """One entry with its reason, and no list of a thousand million numbers is made on the way."""
    pointer, found, detail = error(value)

    assert (pointer, found) == ("/array", code)
    assert words in detail
    assert detail.endswith(".")


def test_each_job_is_told_which_one_it_is() -> None:
    """Five variables, named after those of Slurm."""
    assert read("3-9:3%2").env(6, 120) == {
        "CLUSTERWEB_ARRAY": "A-120",
        "CLUSTERWEB_ARRAY_INDEX": "6",
        "CLUSTERWEB_ARRAY_COUNT": "3",
        "CLUSTERWEB_ARRAY_MIN": "3",
        "CLUSTERWEB_ARRAY_MAX": "9",
    }
