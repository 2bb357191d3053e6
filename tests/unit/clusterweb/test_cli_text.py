"""Tables and times of the command."""

from clusterweb.cli.output.text import duration, table


def test_text_of_tables_and_times() -> None:
    """Numbers stand to the right; times are said in two units at most."""
    assert table(("A", "N"), [("x", 5), ("long", 10)]) == "A      N\nx      5\nlong  10"
    assert [duration(s) for s in (59, 61, 3_600, 3_660, 180_000)] == [
        "59 s",
        "1 min 1 s",
        "1 h",
        "1 h 1 min",
        "2 d 2 h",
    ]
