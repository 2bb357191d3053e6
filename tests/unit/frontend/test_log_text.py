"""Lines of a log: colours by allow-list, everything else of a terminal's language dropped, nothing hidden."""

import pytest

from frontend.pages.jobs.logs.log_text import MOST_CHARS, LogLine, log_lines

ESC, CSI8, BEL, ST = "\x1b", "\x9b", "\x07", "\x1b\\"
# Every one must vanish and leave "ab".
SEQUENCES = [
    f"{ESC}[2J",
    f"{ESC}[H",
    f"{ESC}[10;20H",
    f"{ESC}[1A",
    f"{ESC}[2K",
    f"{ESC}[?25l",
    f"{ESC}[?1049h",
    f"{ESC}[6n",
    f"{ESC}[c",
    f"{ESC}[>c",
    f"{ESC}[5i",
    f"{ESC}[4h",
    f"{ESC}[!p",
    f"{ESC}[1 q",
    f"{ESC}[8;24;80t",
    f"{ESC}[21t",
    f"{ESC}[?2004h",
    f"{ESC}[0m",
    f"{ESC}[m",
    f"{ESC}[;m",
    f"{ESC}[48;5;9m",
    f"{ESC}[48;2;1;2;3m",
    f"{ESC}[38;2;255;0;0m",
    f"{ESC}[38;5;200m",
    f"{ESC}[38;5m",
    f"{ESC}[38m",
    f"{ESC}[5m",
    f"{ESC}[7m",
    f"{ESC}[8m",
    f"{ESC}[99999m",
    f"{CSI8}2J",
    f"{CSI8}31;1H",
    f"{ESC}]0;title{BEL}",
    f"{ESC}]0;title{ST}",
    f"{ESC}]2;title{BEL}",
    f"{ESC}]8;;https://evil.example{ST}",
    f"{ESC}]52;c;ZXZpbA=={BEL}",
    f"{ESC}]4;1;rgb:00/00/00{BEL}",
    f"{ESC}]1337;File=name=x:AAAA{BEL}",
    f"{ESC}]9;4;1;50{BEL}",
    "\x9d0;title\x9c",
    f"{ESC}P1$r0m{ST}",
    f"{ESC}P+q544e{ST}",
    "\x90q\x9c",
    f"{ESC}_Gf=100{ST}",
    "\x9fG\x9c",
    f"{ESC}^secret{ST}",
    f"{ESC}Xsos{ST}",
    f"{ESC}c",
    f"{ESC}7",
    f"{ESC}8",
    f"{ESC}D",
    f"{ESC}M",
    f"{ESC}(0",
    f"{ESC})B",
    f"{ESC}#8",
    f"{ESC}%G",
    f"{ESC}=",
    f"{ESC}>",
    "\x00",
    "\x01",
    BEL,
    "\x08",
    "\x0b",
    "\x0c",
    "\x0e",
    "\x7f",
    "\x84",
]


def one(text: str) -> LogLine:
    """Return the only line of a text."""
    (line,) = log_lines(text, start_offset=0, first_number=1)
    return line


@pytest.mark.parametrize("sequence", SEQUENCES, ids=[repr(sequence) for sequence in SEQUENCES])
def test_control_sequences_leave_nothing_behind(sequence: str) -> None:
    """What steers a terminal is not shown and does not style what follows."""
    line = one(f"a{sequence}b")

    assert line.text == "ab"
    assert {span.css for span in line.spans} <= {""}


def test_an_escape_that_begins_nothing_is_dropped() -> None:
    """At the end of a line there is nothing for it to steer."""
    assert one(f"ab{ESC}").text == "ab"


def test_a_string_that_never_ends_hides_nothing() -> None:
    """A job cannot make the rest of its log disappear: only the opening is dropped."""
    assert one(f"{ESC}]0;never ends").text == "0;never ends"


@pytest.mark.parametrize("code", range(31, 37))
@pytest.mark.parametrize("bright", [0, 60])
def test_named_colours_are_classes_of_a_closed_list(code: int, bright: int) -> None:
    """A colour is a class name of ours, never a value of the job's."""
    line = one(f"a{ESC}[1;{code + bright}mb{ESC}[0mc")

    assert line.spans[0].css == line.spans[-1].css == ""
    color, weight = line.spans[1].css.split()
    assert color in {"c-bad", "c-ok", "c-warn", "c-info", "c-violet", "c-teal"}
    assert weight == "bold"


def test_a_palette_index_takes_its_parameters_with_it() -> None:
    """38;5;n and 38;2;r;g;b are one colour: their numbers are not read as codes of their own."""
    assert one(f"{ESC}[38;5;1mx").spans[0].css == "c-bad"
    assert one(f"{ESC}[38;2;1;31;4mx").spans[0].css == ""
    assert one(f"{ESC}[48;5;1;32mx").spans[0].css == "c-ok"


def test_a_colour_holds_over_line_ends() -> None:
    """A terminal keeps the colour until it is reset; so does the page."""
    first, second = log_lines(f"{ESC}[31mred\nstill\n", start_offset=0, first_number=1)

    assert first.spans[0].css == second.spans[0].css == "c-bad"


@pytest.mark.parametrize(
    "letter", ["\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\u200b", "\ufeff"]
)
def test_unseen_letters_are_spelled_out(letter: str) -> None:
    """Text that reads in another order than it stands is shown as what it is."""
    line = one(f"abc{letter}def")

    assert [(span.text, span.css) for span in line.spans] == [("abc", ""), (f"U+{ord(letter):04X}", "ctl"), ("def", "")]


def test_a_carriage_return_writes_over_the_line() -> None:
    """A progress bar is one line, as its author meant it."""
    assert one("10%\r50%\r100%\r\n").text == "100%"


def test_a_long_line_is_cut_and_says_so() -> None:
    """A line of a gigabyte does not make a page of a gigabyte."""
    line = one("x" * (MOST_CHARS + 7))

    assert line.text == "x" * MOST_CHARS + " … 7 more characters"


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("14:31:55 warn loader: 1 bad record", "warn"),
        ("2026-03-07T14:31:55Z WARNING slow", "warn"),
        ("[ERROR] disk", "bad"),
        ("error: no such file", "bad"),
        ("Traceback (most recent call last):", "bad"),
        ("ValueError: label 11 is out of range", "bad"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", "bad"),
        ("UserWarning: deprecated", "warn"),
        ("step 20 val error 0.31", ""),
        ("no warnings here", ""),
        ("step 61 160 loss 1.2149", ""),
    ],
)
def test_levels_are_words_in_their_place(text: str, level: str) -> None:
    """A metric called "error" is no error."""
    assert one(text).level == level


def test_numbers_and_offsets_count_lines_and_bytes() -> None:
    """A link to a line holds: offsets are bytes of the file, not letters."""
    lines = log_lines("ä\nb\n\nc", start_offset=100, first_number=41)

    assert [(line.number, line.offset, line.text) for line in lines] == [
        (41, 100, "ä"),
        (42, 103, "b"),
        (43, 105, ""),
        (44, 106, "c"),
    ]


def test_markup_stays_text() -> None:
    """The parser makes no markup and removes none: escaping is the template's."""
    assert one("<script>alert(1)</script>").text == "<script>alert(1)</script>"
