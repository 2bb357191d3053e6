"""What the command says of bad arguments: which one, why, and what would be right; never the usage of all verbs."""

import pytest

from clusterweb.cli.main import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("quota --limit 3", "clusterweb quota: there is no option --limit. It has --help --output --gpus --isolation"),
        ("quota --limit=3", "there is no option --limit."),
        ("quota vision --gpus", "argument --gpus: expected one argument\n  --gpus: the new quota"),
        ("quota vision --gpus banana", "argument --gpus: must be a whole number, such as 4, not 'banana'."),
        ("quota vision --ask banana", "argument --ask: must be a whole number, such as 4, not 'banana'."),
        ("quota-requests grant 1 --gpus 1.5", "must be a whole number, such as 4, not '1.5'."),
        ("quota vision --gpus 4 --leave speech", "must be a queue and its new quota, such as speech=2, not 'speech'."),
        ("quota-requests grant 1 --leave speech=-1", "such as speech=2, not 'speech=-1'."),
        ("quota vision speech", "clusterweb quota: 'speech' is one argument too many."),
        ("ls --limit x", "clusterweb ls: argument --limit: must be a whole number, such as 4, not 'x'."),
        ("ls --limit 0", "--limit is 1 to 10000, not 0."),
        ("get", "clusterweb get: the following arguments are required: job\n  job: id, number, or J- and the number"),
        ("server rnme a b", "'rnme' is none of rename, label, drain, undrain, remove. Did you mean rename?"),
        ("files kep J-1", "clusterweb files: 'kep' is none of ls, list, get, keep, rm. Did you mean keep?"),
        ("files J-9", "What to do comes before the job: clusterweb files ls J-9\n"),
        ("ls -o yaml", "clusterweb ls: 'yaml' is none of text, json."),
        ("--verbose ls", "clusterweb: there is no option --verbose."),
    ],
)
def test_bad_argument_is_named_with_what_is_right(capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    """Status 2, the way to the whole list, and no usage."""
    assert main(words.split()) == 2
    said = capsys.readouterr().err

    assert says in said
    assert "usage:" not in said


def test_the_way_to_the_whole_list_is_one_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` of the verb that was given."""
    main(["files", "get", "J-1", "--too", "here"])
    way = capsys.readouterr().err.splitlines()[-1]
    assert way == "All that it takes: clusterweb files get --help"
    with pytest.raises(SystemExit) as ended:
        main(way.partition(": ")[2].split()[1:])

    assert ended.value.code == 0
    assert "--to FILE" in capsys.readouterr().out
