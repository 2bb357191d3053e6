"""What the words of a command tell before it runs: the script that it starts, and signs that only a shell would read.

A command is a list of words, no shell line. What is certain is an error elsewhere; here are the findings.
``clusterweb/client/folders/script.py`` finds the script for the command line, which knows nothing of the server.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Sequence

from scheduler.core.spec.reading import nearest

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish"})
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed"})
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_NO_SCRIPT = frozenset({"-m", "--module", "--no-python", "--no_python"})  # of launchers
# Letters of short options, alone or in a group as in ``-euo``: after which no script follows, and which take a word.
_ENDS = {"python": "cm", "shell": "cs"}
_TAKES_ONE = {"python": "WX", "shell": "oO"}
_LONG_TAKES_ONE = frozenset({"--check-hash-based-pycs", "--rcfile", "--init-file"})
# Words, or their begin, that a shell would act on.
_OPERATOR = re.compile(r"&&|\|\|?|;|&|\d?>>?(?:&\d)?|&>>?|<<?<?|\d?>>?\S.*|&>\S.*")
_READS_LINE = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_ENDS_LINE = re.compile(r"[^;\\]+;")
_VARIABLE = re.compile(r"\$(?:\{?[A-Za-z_]\w*\}?|\(.*)")
SCRIPTS_SHOWN = 4


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
    elif program in SHELLS:
        found = _first_argument(words, "shell")
    else:
        return ""
    path = posixpath.normpath(found) if found else ""
    return "" if path.startswith(("/", "~", "..")) or re.search(r"[{}$*]", path) or path in (".", "-") else path


def _first_argument(words: Sequence[str], kind: str) -> str:
    """Return the first word that is no option of the interpreter; empty where an option takes its place."""
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


def missing_script(command: Sequence[str], paths: Collection[str]) -> str:
    """Return the sentence about a script that is not among the files of the job; empty where it is, or is not known."""
    script = script_of(command)
    if not script or script in paths or any(path.startswith(f"{script}/") for path in paths):
        return ""
    name = posixpath.basename(script)
    elsewhere = sorted(path for path in paths if posixpath.basename(path) == name)
    near = elsewhere[0] if elsewhere else nearest(script, sorted(paths)[:2_000])
    ending = posixpath.splitext(script)[1]
    alike = sorted((path for path in paths if path.endswith(ending)), key=lambda path: (path.count("/"), path))
    if near:
        right = f"Did you mean {near}?"
    elif ending and alike:
        right = f"It has {', '.join(alike[:SCRIPTS_SHOWN])}{', …' if len(alike) > SCRIPTS_SHOWN else ''}."
    else:
        right = f"It has no file that ends in {ending}." if ending else "Write its path from the folder on."
    return f"{script} is not in the folder of the job. {right}"


def command_warnings(command: Sequence[str]) -> list[str]:
    """Return what of a command is passed on as it is, though it looks as if a shell was to read it."""
    found = _signs(command)
    if not found:
        return []
    listed = ", ".join(f"`{sign}`" for sign in found)
    one = "is an argument" if len(found) == 1 else "are arguments"
    return [
        f"No shell reads the command: {listed} {one} of {command[0]} as written. Use {shlex.join(in_shell(command))}"
    ]


def in_shell(command: Sequence[str]) -> list[str]:
    """Return the command that has a shell read these words; the signs of a shell stay bare."""
    signs = set(_signs(command))
    return ["bash", "-c", " ".join(word if word in signs else shlex.quote(word) for word in command)]


def _signs(command: Sequence[str]) -> list[str]:
    """Return the words that a shell would act on, each once; of a shell's own line none."""
    if not command or command[0] == "find":
        return []
    if command[0].rpartition("/")[2] in SHELLS and any(_READS_LINE.fullmatch(word) for word in command):
        return []
    signs = (word for word in command if _OPERATOR.fullmatch(word) or _ENDS_LINE.fullmatch(word) or _has_variable(word))
    return list(dict.fromkeys(signs))


def _has_variable(word: str) -> bool:
    return _VARIABLE.search(word) is not None and " " not in word
