"""What jobs wrote is printed on a terminal without what a terminal would obey."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterweb.cli.output.harmless import harmless
from tests.unit.frontend.test_log_text import SEQUENCES


def shown(*pieces: str) -> str:
    """Return all pieces together."""
    return "".join(harmless(pieces))


@pytest.mark.parametrize("sequence", [one for one in SEQUENCES if len(one) > 1])
def test_sequences_are_dropped_also_where_pieces_part_them(sequence: str) -> None:
    """All that pages drop, but for colours; a followed log comes in pieces that end anywhere."""
    for at in range(len(sequence)):
        left = shown(f"a{sequence[:at]}", f"{sequence[at:]}b")
        assert re.sub(r"\x1b\[[0-9;]*m", "", left) == "ab"


@pytest.mark.parametrize("codes", ["31", "0", "01;31", "1;38;5;200", "38;2;255;0;0", "97", "39;22"])
def test_colours_stay_and_end(codes: str) -> None:
    """Foregrounds, bold and the end of both, as scripts write them; the prompt after the log has none."""
    assert shown(f"a\x1b[{codes}mb") == f"a\x1b[{codes}mb\x1b[0m"


def test_what_hides_text_is_taken_out_of_a_colour() -> None:
    """Concealed text, blinking and backgrounds; what else the sequence says holds."""
    assert shown("\x1b[8mx") == shown("\x1b[48;5;0mx") == shown("\x1b[41mx") == "x"
    assert shown("\x1b[0;8;31;44mx\x1b[38;5;8my") == "\x1b[0;31mx\x1b[38;5;8my\x1b[0m"


def test_control_characters_are_shown_and_bidirectional_marks_dropped() -> None:
    """Line ends, tabs and the return of progress bars stay."""
    assert shown("a\x00b\x07\x08c\x7f\n\td\r\x85é 漢 🙂") == "a^@b^G^Hc^?\n\td\r\ufffdé 漢 🙂"
    assert shown("a\u202eb\u2066c\u200e\ufeff") == "abc"
    assert shown("end \x1b") == "end ^["
    assert shown("\x1b]0;a title without an end") == "0;a title without an end"


@given(st.lists(st.text(alphabet="\x1b[]PX\\;m0138\x07\x9b\x9c\x9d\x00\u202ea\n")))
def test_no_text_gets_through_that_a_terminal_obeys(pieces: list[str]) -> None:
    """However it is cut."""
    left = shown(*pieces)
    for sequence in left.split("\x1b")[1:]:
        assert re.match(r"\[[0-9;]+m", sequence), left
    assert not set(left) & set("\x00\x07\x9b\x9c\x9d\u202e")


@pytest.mark.parametrize("unit", ["\x1b]", "\x9d", "\x1b[", "\x1b[0;", "\x1b(", "\x9b0"])
def test_a_log_made_to_be_slow_is_not(unit: str) -> None:
    """The time grows with the length alone."""
    begun_s = time.process_time()
    shown(unit * 500_000)

    assert time.process_time() - begun_s < 10.0
