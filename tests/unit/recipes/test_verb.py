"""The recipe for a verb of the command: each verb has a function, a line of help, and stands in a document."""

import argparse
import re

from clusterweb.cli.main import command_parser
from clusterweb.config.env import BASE_DIR

DOCUMENTS = "".join(path.read_text() for path in [*(BASE_DIR / "docs").glob("*.md"), BASE_DIR / "README.md"])


def verbs() -> dict[str, str]:
    """Return the help of each verb, other names of the same verb left out."""
    [found] = [each for each in command_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return {str(choice.dest): choice.help or "" for choice in found._choices_actions}


def test_each_verb_says_what_it_does_and_is_in_a_document() -> None:
    """Else no reader of the documents finds the verb."""
    told = {re.sub(r" \(.*\)", "", name): text for name, text in verbs().items()}

    assert len(told) > 20
    assert [name for name, text in told.items() if not text] == []
    assert [name for name in told if not re.search(rf"\bclusterweb {name}\b", DOCUMENTS)] == []
