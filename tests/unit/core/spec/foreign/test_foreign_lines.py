"""Options of Slurm that cannot be as they stand: each is told with the true reason, none is changed in silence."""

import pytest

from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.foreign.translation import Translation


def made_of(*lines: str) -> Translation:
    """Return what a script with these option lines becomes."""
    return from_sbatch("".join(f"#SBATCH {line}\n" for line in lines) + "python train.py\n", queue="q")


def told(made: Translation) -> str:
    """Return the reasons alone."""
    return "\n".join(entry.why for entry in made.unmapped)


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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--nodes=0", "--nodes must be a whole number from 1 on, not '0'. It is left out."),
        ("-N -2", "--nodes must be a whole number from 1 on, not '-2'. It is left out."),
        ("--ntasks=0", "--ntasks must be a whole number from 1 on, not '0'. It is left out."),
        ("--cpus-per-task=x", "--cpus-per-task must be a whole number from 1 on, not 'x'. It is left out."),
        ("--gpus=-3", "--gpus must be a whole number from 0 on, not '-3'. It is left out."),
        ("--gres=gpu:-3", "--gres=gpu must be a whole number from 0 on, not '-3'. It is left out."),
        ("--gres=gpu:a100:x", "--gres=gpu must be a whole number from 0 on, not 'a100:x'. It is left out."),
    ],
)
def test_numbers_that_cannot_be_are_told(line: str, why: str) -> None:
    """The option is left out, and the list says so."""
    made = made_of(line)

    assert (f"#SBATCH {line}", why) in [(entry.source, entry.why) for entry in made.unmapped]
    assert made.spec["resources"]["gpus"] == 1
    if "gpu" in line:
        assert "it gets one" in told(made)


@pytest.mark.parametrize(
    ("line", "gpus", "types"),
    [
        ("--gres=gpu:a100", 1, ["a100"]),
        ("--gres=gpu:a100:4", 4, ["a100"]),
        ("--gres=gpu:3g.20gb:2", 2, ["3g.20gb"]),
        ("--gres=gpu:a100:2,gpu:v100:1", 3, ["a100", "v100"]),
        ("--gpus=a100:2,v100:1", 3, ["a100", "v100"]),
        ("--gpus-per-node=h100", 1, ["h100"]),
        ("--gres=gpu:2", 2, []),
        ("--gres=gpu", 1, []),
    ],
)
def test_types_of_gpus_are_told_and_their_counts_add_up(line: str, gpus: int, types: list[str]) -> None:
    """A type alone is one GPU of it."""
    made = made_of(line)

    assert made.spec["resources"]["gpus"] == gpus
    assert [entry.why for entry in made.unmapped] == [
        f"Servers are not chosen by the type of their GPUs ({one})." for one in types
    ]


def test_a_range_of_nodes_is_told() -> None:
    """A job has one number of them."""
    made = made_of("--nodes=2-4 --gpus-per-node=1", "--gres=license:2")

    assert made.spec["resources"] == {"gpus": 2, "max_servers": 2, "cpus": "auto", "memory": "auto"}
    assert "A job has a fixed size, no range: 2 is taken." in told(made)
    assert "There is no resource license:2 here." in told(made)


def test_an_option_without_a_value_takes_no_word() -> None:
    """The word after it is told, and what is asked for counts."""
    made = made_of("--requeue foo --gres=gpu:2", "--no-requeue")

    assert (made.spec["resources"]["gpus"], made.spec["retry"]) == (2, {"max": 0})
    assert told(made) == "'foo' is left over: --requeue takes no value."


def test_all_memory_of_a_server_is_told() -> None:
    """A job asks for an amount, or for what it is found to need."""
    made = made_of("--gres=gpu:1", "--mem=0")

    assert made.spec["resources"]["memory"] == "auto"
    assert told(made).startswith("To Slurm this is all memory of a server. Here it is auto")
