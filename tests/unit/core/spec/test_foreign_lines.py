"""Options of Slurm that cannot be as they stand: each is told with the true reason, none is changed in silence."""

import pytest

from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.foreign.translation import Translation


def made_of(*lines: str) -> Translation:
    """Return what a script with these option lines becomes."""
    return from_sbatch("".join(f"#SBATCH {line}\n" for line in lines) + "python train.py\n", queue="q")


@pytest.mark.parametrize(
    ("line", "name", "left", "quoted"),
    [
        ("--job-name=my job", "my", "'job' is left over.", "--job-name='my job'"),
        ("--job-name my big job --gres=gpu:2", "my", "'big job' is left over.", "--job-name='my big job'"),
        ("-J my job", "my", "'job' is left over.", "-J 'my job'"),
        ("-Jmy job", "my", "'job' is left over.", "-J 'my job'"),
    ],
)
def test_words_that_are_left_over_say_how_to_quote(line: str, name: str, left: str, quoted: str) -> None:
    """They are no option, so nothing is said of one; options after them count."""
    made = made_of("--gres=gpu:2", line)

    assert made.spec["name"] == name
    assert made.spec["resources"]["gpus"] == 2
    [entry] = made.unmapped
    assert entry.source == f"#SBATCH {line}"
    assert entry.why == f"{left} Put a value with blanks in quotes: {quoted}"


def test_a_word_before_all_options_and_an_open_quote_are_told() -> None:
    """What they are, not that something is not understood."""
    made = made_of("job --gres=gpu:2", "--job-name='my job")

    assert [entry.why for entry in made.unmapped] == [
        "'job' is no option: those begin with a dash.",
        "A quote is opened and not closed.",
    ]
    assert made.spec["resources"]["gpus"] == 2
