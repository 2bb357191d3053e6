"""The Python environment of a job: built on its servers from a file that comes with it, or one that is there."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.spec.limits import VENV_BYTES
from scheduler.core.spec.reading import FieldReader, quoted

KEYS = ("requirements", "lock", "venv")
PROJECT = "pyproject.toml"  # beside a lock file
_OPTION = re.compile(r"-{1,2}[A-Za-z][A-Za-z-]*")
_HASH = re.compile(r"--hash[= ]\s*(?:sha256|sha384|sha512):")  # of the package on the line above
_FOLDER = re.compile(r"(?:[^@]*@\s*)?(?:[./~]|(?:\w+\+)?file:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """One of three: ``requirements`` and ``lock`` are paths in the job's folder or files, ``venv`` is on servers."""

    requirements: str = ""
    lock: str = ""
    venv: str = ""

    @property
    def paths(self) -> dict[str, str]:
        """Return the files that it is built from: by the name that uv wants, the path; nothing for a ``venv``."""
        if self.requirements:
            return {"requirements.txt": self.requirements}
        if self.lock:
            return {"uv.lock": self.lock, PROJECT: posixpath.join(posixpath.dirname(self.lock), PROJECT)}
        return {}

    @property
    def source(self) -> str:
        """Return its path, as people call it."""
        return self.requirements or self.lock or self.venv

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {name: value for name in KEYS if (value := getattr(self, name))}


def read_python(reader: FieldReader, value: object) -> Python | None:
    """Return the environment; None for the Python of the server as it is."""
    if value is None:
        return None
    data = reader.mapping(value, "/python", label="python", keys=KEYS)
    given = [name for name in KEYS if data.get(name) is not None]
    if len(given) != 1:
        if isinstance(value, Mapping) and len(data) == len(value):
            right = "exactly one of requirements, lock and venv"
            reader.bad("/python", "required", f"python has {right}, such as {{requirements: requirements.txt}}.")
        return None
    (name,) = given
    pointer = f"/python/{name}"
    before = len(reader.errors)
    text = reader.text(data[name], pointer, label=f"python {name}", longest_bytes=VENV_BYTES)
    if len(reader.errors) > before:
        return None
    problem = _problem(name, text)
    if problem:
        reader.bad(pointer, "path", problem)
        return None
    return Python(**{name: text})


def _problem(name: str, path: str) -> str:
    """Return what is wrong with a path; empty where nothing is."""
    if not path.isprintable() or path != path.strip():
        return f"python {name} holds a character that no path has, or blanks around it."
    if name == "venv":
        if not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
            return f"python venv is a path from the root of the servers, such as /opt/venv, not {quoted(path)}."
        return ""
    if not path or path.startswith(("/", "~")) or posixpath.normpath(path) != path or path.split("/")[0] == "..":
        usual = "uv.lock" if name == "lock" else "requirements.txt"
        return f"python {name} is a path in the folder or files of the job, such as {usual}, not {quoted(path)}."
    if (name == "lock") != path.endswith(".lock"):
        return f"python {name} cannot be {quoted(path)}: lock is for uv.lock, requirements for lists of packages."
    return ""


def requirements_problem(text: str, *, path: str) -> str:
    """Return why packages cannot be taken from the text of a requirements file; empty where they can.

    Options are refused: which index is used is the admin's to say, and no other file comes along. So are packages that
    are folders: what is in them is not part of what names the environment. Hashes are taken: with one of them
    every package needs one, as uv says.
    """
    goes_on = False
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):  # uv skips this mark as well
        words = line.split("#", 1)[0].strip() if not line.strip().startswith("#") else ""
        belongs, goes_on = goes_on, words.endswith("\\")
        if belongs and _HASH.match(words):
            continue
        where = f"Line {number} of {path}"
        if option := _OPTION.match(words):
            which = "Which index is used is set by the admin of the servers. " if "index" in option[0] else ""
            return f"{where} is an option ({option[0]}). {which}Write one package a line and nothing else."
        if _FOLDER.match(words):
            return f"{where} is a folder or file ({words[:60]}). Name packages of the index, or of an https address."
    return ""


def python_schema() -> dict[str, Any]:
    """Return the part of the JSON Schema."""

    def one(name: str, description: str, pattern: str, example: str) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [name],
            "properties": {
                name: {
                    "description": description,
                    "type": "string",
                    "minLength": 1,
                    "maxLength": VENV_BYTES,
                    "pattern": pattern,
                    "examples": [example],
                }
            },
        }

    inside = "by its path in the folder of the job, or its name among its files"
    return {
        "description": (
            "Python environment of the command, built once for each content on the server that runs it; no GPU is held "
            "meanwhile. Null for the Python of the server as it is."
        ),
        "anyOf": [
            one("requirements", f"A file with one package a line, {inside}.", r"^[^/~]", "requirements.txt"),
            one("lock", f"A lock file of uv, {inside}; pyproject.toml is beside it.", r"^[^/~].*\.lock$", "uv.lock"),
            one("venv", "A virtual environment that is on the servers.", r"^/.", "/opt/venvs/vision"),
            {"type": "null"},
        ],
        "default": None,
    }
