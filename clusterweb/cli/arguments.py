"""Reads arguments, and says of bad ones which is wrong, why, and what is right; a list of all is left to ``--help``."""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from clusterweb.client.errors import CommandError

_JOB = re.compile(r"(?:J-)?\d+", re.IGNORECASE)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are sentences of ours, in place of the usage; ``add_subparsers`` makes more of its kind."""

    def error(self, message: str) -> NoReturn:
        """Raise CommandError with what is wrong, and what the arguments that it names are for."""
        words = set(re.split(r"[ ,:]+", message))
        named = [("/".join(action.option_strings) or action.metavar or action.dest, action) for action in self._actions]
        told = [f"{name}: {action.help}" for name, action in named if name in words and action.help]
        self._refuse([message, *told])

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # as in the base class, where all vary
        """Refuse what this verb does not know; else the parser above it would, without the verb."""
        given, unknown = super().parse_known_args(args, namespace)
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if option is not None:
            has = " ".join(action.option_strings[-1] for action in self._actions if action.option_strings)
            self._refuse([f"there is no option {option}. It has {has}."])
        if unknown:
            self._refuse([f"{unknown[0]!r} is one argument too many."])
        return given, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # as in the base class
        """Refuse a word that is none of a list with what is right; a job that stands where a command has to."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        near = difflib.get_close_matches(str(value), known, n=1)
        lines = [f"{value!r} is none of {', '.join(known)}." + (f" Did you mean {near[0]}?" if near else "")]
        if isinstance(action, argparse._SubParsersAction) and _JOB.fullmatch(str(value)):
            lines.insert(0, f"What to do comes before the job: {self.prog} {known[0]} {value}")
        self._refuse(lines)

    def _refuse(self, lines: Sequence[str]) -> NoReturn:
        text = "\n  ".join(lines)
        raise CommandError(f"{self.prog}: {text}\nAll that it takes: {self.prog} --help")


def listing(word: str) -> str:
    """Return what to do: ``list`` is ``ls``, whatever is listed."""
    return "ls" if word == "list" else word


def queue_quota(text: str) -> tuple[str, int]:
    """Return the queue and the quota of an argument such as ``speech=2``. Raises ArgumentTypeError."""
    name, _, gpus = text.rpartition("=")
    if not (name and gpus.isascii() and gpus.isdigit() and len(gpus) < 10):
        raise argparse.ArgumentTypeError(f"must be a queue and its new quota, such as speech=2, not {text!r}.")
    return name, int(gpus)


def whole_number(text: str) -> int:
    """Return the number that an argument gives. Raises ArgumentTypeError."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, such as 4, not {text!r}.") from None
