"""The script that a command starts: looked for in its folder before anything is sent.

As ``scheduler/core/spec/command_hints.py`` finds it, which a test holds: client and server share no code.
"""

import posixpath
import re
from collections.abc import Sequence

_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish"})
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_NO_SCRIPT = frozenset({"-m", "--module", "--no-python", "--no_python"})  # of launchers
# Letters of short options, alone or in a group as in ``-euo``: after which no script follows, and which take a word.
_ENDS = {"python": "cm", "shell": "cs"}
_TAKES_ONE = {"python": "WX", "shell": "oO"}
_LONG_TAKES_ONE = frozenset({"--check-hash-based-pycs", "--rcfile", "--init-file"})


def script_of(command: Sequence[str]) -> str:
    """Return the path of the script that a command starts, from its folder on; empty where none is certain."""
    if not command:
        return ""
    program, words = command[0].rpartition("/")[2], list(command[1:])
    if command[0].startswith("./"):
        found = command[0]
    elif program in _LAUNCHERS:
        found = "" if _NO_SCRIPT & set(words) else next((word for word in words if word.endswith(".py")), "")
    elif _PYTHON.fullmatch(program):
        found = _first_argument(words, "python")
    elif program in _SHELLS:
        found = _first_argument(words, "shell")
    else:
        return ""
    path = posixpath.normpath(found) if found else ""
    return "" if path.startswith(("/", "~", "..")) or re.search(r"[{}$*]", path) or path in (".", "-") else path


def _first_argument(words: Sequence[str], kind: str) -> str:
    skips = False
    for word in words:
        if skips:
            skips = False
        elif not word.startswith(("-", "+")):
            return word
        elif word.startswith("--"):
            skips = word in _LONG_TAKES_ONE
        elif at := next((at for at, letter in enumerate(word) if letter in _ENDS[kind] + _TAKES_ONE[kind]), 0):
            if word[at] in _ENDS[kind]:
                return ""
            skips = kind == "shell" or at == len(word) - 1  # of python the rest of the word may be the value
    return ""
