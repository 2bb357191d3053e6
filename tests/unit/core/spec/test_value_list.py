"""The values of a parameter as text: lists, ranges with steps, quotes, and what is none of these."""

import pytest

from scheduler.core.spec.search_space import read_space, unfilled, unused
from scheduler.core.spec.value_list import Value, read_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.01", (0.1, 0.01)),
        ("1..5", (1, 2, 3, 4, 5)),
        ("1..9:4", (1, 5, 9)),
        ("1..8:4", (1, 5)),
        ("0..1:0.25", (0, 0.25, 0.5, 0.75, 1)),
        ("0.1..0.3:0.1", (0.1, 0.2, 0.3)),  # not 0.30000000000000004
        ("-2..2:2", (-2, 0, 2)),
        ("1..3,10", (1, 2, 3, 10)),
        ("1e-4, .5 ,-3", (0.0001, 0.5, -3)),
        ('adam,"a, b","0.10","1..3"', ("adam", "a, b", "0.10", "1..3")),
        ("007,1.2.3,true,data/x", ("007", "1.2.3", "true", "data/x")),
    ],
)
def test_values_are_read(text: str, values: tuple[Value, ...]) -> None:
    """Numbers as numbers, everything else as text."""
    found = read_values(text)

    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty value"),
        ("1,,2", "empty value"),
        ("1,", "empty value"),
        ("5..1", "ends at its begin or later"),
        ("1..5:0", "steps above 0"),
        ("1..5:-1", "steps above 0"),
        ("1..x", "no range of numbers"),
        ("a..b", "no range of numbers"),
        ("1..inf", "by steps above 0"),
        ("1..1e9", "takes 1000 values at most"),
        ("1..600,1001..1600", "takes 1000 values at most"),
        ("1,2,1", "holds 1 twice"),
        ("1..5,3", "holds 3 twice"),
        ('"a', "quote that is not closed"),
        ('a"b"', "quoted in part"),
    ],
)
def test_what_is_no_list_of_values_is_said(text: str, words: str) -> None:
    """Before anything large is made of it."""
    with pytest.raises(ValueError, match=words):
        read_values(text)


def test_a_space_takes_all_ways_to_write_it() -> None:
    """Text, a list, a mapping; the values of a range of whole numbers are known too."""
    space = read_space({"lr": "0.1,0.01", "opt": ["sgd", "adam"], "width": {"low": 1, "high": 3, "integer": True}})

    assert [one.values for one in space] == [(0.1, 0.01), ("sgd", "adam"), (1, 2, 3)]
    assert read_space({"lr": {"low": 0.0, "high": 1.0}})[0].values is None
    job = {"command": ["python", "train.py", "--lr={lr}"], "env": {"WIDTH": "{width}"}}
    assert unused(space, job) == ["opt"]


def test_a_mark_that_nothing_fills_is_told() -> None:
    """A whole word or the value of an option; braces inside of other text are the script's own."""
    [lr] = read_space({"lr": "0.1,0.2"})
    command = ["python", "-c", "print(f'{x}')", "--lr", "{lr}", "--seed={seed}", "{width}", "{a,b}", "{}"]
    job = {"name": "run-{seed}", "command": command, "env": {"A": "{seed}", "B": "{lr}", "C": {"plain": "{x}"}}}

    assert unfilled([lr], job) == {"/command/5": "seed", "/command/6": "width", "/env/A": "seed", "/name": "seed"}
    assert unfilled([lr], {"command": "text", "env": None}) == {}
