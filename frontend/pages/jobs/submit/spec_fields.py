"""Convert a spec to the texts of the form's fields and back, without checks: the parser does those.

Empty fields are left out, so that the parser fills in its defaults and a form and a REST call store equal specs.
"""

import json
import re
import shlex
from collections.abc import Mapping

from scheduler.core.model.errors import FieldError
from scheduler.selectors.rows import Json

# Field of the form by the place in the spec; the longest that is a prefix of an error's pointer takes the error.
POINTERS: dict[str, str] = {
    "/name": "name",
    "/queue": "queue",
    "/command": "command",
    "/code": "archive",
    "/code/git": "git",
    "/code/commit": "git_commit",
    "/code/subdir": "git_subdir",
    "/code/key": "git_key",
    "/files": "upload",
    "/python": "python",
    "/env": "env",
    "/resources": "gpus",
    "/resources/gpus": "gpus",
    "/resources/min_gpus": "min_gpus",
    "/resources/max_gpus": "max_gpus",
    "/resources/max_servers": "max_servers",
    "/resources/cpus": "cpus",
    "/resources/memory": "memory",
    "/resources/disk": "disk",
    "/launch": "launch",
    "/schedule": "priority",
    "/schedule/priority": "priority",
    "/schedule/preemptible": "preemptible",
    "/schedule/max_duration": "max_duration",
    "/schedule/warn_before": "warn_before",
    "/checkpoint": "grace",
    "/checkpoint/signal": "signal",
    "/retry": "retry",
    "/progress": "total_steps",
    "/progress/stall": "stall",
    "/progress/early_stop": "early_stop",
    "/profile": "profile",
    "/labels": "labels",
    "/array": "array",
    "/depends_on": "depends_on",
}

# Fields of the form by what they are in ``code``.
GIT = {"git": "git", "commit": "git_commit", "subdir": "git_subdir", "key": "git_key"}

_SECRET = re.compile(r"\{\s*secret\s*:\s*(?P<secret>[^,{}\s]+)\s*(?:,\s*of\s*:\s*(?P<of>[^,{}\s]+)\s*)?\}")
_PLAIN = re.compile(r"\{\s*plain\s*:\s*(.*?)\s*\}")


def field_of(pointer: str) -> str | None:
    """Return the field of the form that a JSON pointer belongs to; None for the spec as a whole."""
    matching = [prefix for prefix in POINTERS if pointer == prefix or pointer.startswith(f"{prefix}/")]
    return POINTERS[max(matching, key=len)] if matching else None


def unix_lines(text: str) -> str:
    """Return text with the line ends of a file; a browser sends a text area with CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def spec_of_fields(values: Mapping[str, str], files: Mapping[str, str]) -> tuple[Json, list[FieldError]]:
    """Return the spec that the fields ask for, and what of them is no list of words or pairs.

    Args:
        values: Text by field name; absent or blank means the default. ``preemptible`` is "" for no.
        files: Content by file name.
    """
    errors: list[FieldError] = []
    spec: Json = {"apiVersion": "v1"}
    for name in ("name", "queue", "profile", "array"):
        if _given(values, name):
            spec[name] = values[name].strip()
    command = _words(values.get("command", ""), errors)
    if command:
        spec["command"] = command
    code = _code(values, errors)
    if code:
        spec["code"] = code
    if files:
        spec["files"] = dict(files)
    if _given(values, "python"):
        spec["python"] = _python(values["python"].strip())
    for name, noun in (("env", "variable"), ("labels", "label")):
        pairs = _pairs(values.get(name, ""), name, noun, errors)
        if pairs:
            spec[name] = {key: _env_value(value) for key, value in pairs.items()} if name == "env" else pairs
    if _given(values, "depends_on"):
        spec["depends_on"] = _dependencies(values["depends_on"])
    parts = {
        "resources": _part(
            values, numbers=("gpus", "min_gpus", "max_gpus", "max_servers", "cpus"), texts=("memory", "disk")
        ),
        "launch": {"per": values["launch"].strip()} if _given(values, "launch") else {},
        "schedule": _part(values, numbers=("priority",), texts=("max_duration", "warn_before"))
        | ({} if values.get("preemptible") else {"preemptible": False}),
        "checkpoint": _part(values, texts=("grace", "signal")),
        "retry": {"max": _number(values["retry"])} if _given(values, "retry") else {},
        "progress": _part(values, numbers=("total_steps",), texts=("stall",))
        | ({"early_stop": True} if values.get("early_stop") else {}),
    }
    return spec | {name: part for name, part in parts.items() if part}, errors


def _code(values: Mapping[str, str], errors: list[FieldError]) -> Json:
    """Return the folder that was sent, or where git finds it; nothing for none."""
    git = {name: values[field].strip() for name, field in GIT.items() if _given(values, field)}
    if not git:
        return {"manifest": values["code"].strip()} if _given(values, "code") else {}
    if _given(values, "code"):
        detail = "A folder was sent, and a repository is named. Take one of the two: empty these fields, or the folder."
        errors.append(FieldError(pointer="/code/git", code="both", detail=detail))
    if "key" not in git:
        return dict(git)
    key = _env_value(git["key"])
    return git | {"key": key if isinstance(key, dict) else {"secret": key}}


def _python(text: str) -> Json:
    """Return the environment that one path names: of a folder on the servers, a lock file, or a list of packages."""
    return {"venv" if text.startswith("/") else "lock" if text.endswith(".lock") else "requirements": text}


def _given(values: Mapping[str, str], name: str) -> bool:
    return bool(values.get(name, "").strip())


def _part(values: Mapping[str, str], *, numbers: tuple[str, ...] = (), texts: tuple[str, ...] = ()) -> Json:
    part: Json = {name: _number(values[name]) for name in numbers if _given(values, name)}
    return part | {name: values[name].strip() for name in texts if _given(values, name)}


def _number(text: str) -> int | float | str:
    """Return the number in a text, or the text as it is: the parser then says what is wrong with it."""
    text = text.strip()
    try:
        return int(text) if text.lstrip("+-").isdigit() and len(text) < 20 else float(text)
    except ValueError:
        return text


def _words(text: str, errors: list[FieldError]) -> list[str]:
    """Return the words of a command line as a shell would split it; nothing in it is run or expanded.

    A list as a spec has it, ``[python, train.py]``, is taken as such: a shell would make words with brackets of it.
    """
    line = unix_lines(text).replace("\\\n", " ")
    if listed := _listed(line.strip()):
        return listed
    try:
        return shlex.split(line)
    except ValueError:
        detail = "command has a quote that is not closed, or ends with a backslash."
        errors.append(FieldError(pointer="/command", code="syntax", detail=detail))
        return []


def _listed(line: str) -> list[str]:
    """Return the words of a list of two or more, or none."""
    if not (line.startswith("[") and line.endswith("]")):
        return []
    parts = shlex.shlex(line[1:-1], posix=True)
    parts.whitespace, parts.whitespace_split, parts.commenters = ",", True, ""
    try:
        words = [part.strip() for part in parts]
    except ValueError:  # a quote that is not closed
        return []
    return words if len(words) > 1 else []


def _pairs(text: str, name: str, noun: str, errors: list[FieldError]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in enumerate(unix_lines(text).split("\n"), start=1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            detail = f"Line {number} has no =. Write one {noun} a line, as NAME=value."
            errors.append(FieldError(pointer=f"/{name}", code="syntax", detail=detail))
        elif key in pairs:
            detail = f"Line {number} gives {key} a second time."
            errors.append(FieldError(pointer=f"/{name}", code="repeated", detail=detail))
        else:
            pairs[key] = value
    return pairs


def _dependencies(text: str) -> list[str | Json]:
    """Return what a job starts after; the parser says what is wrong with an entry."""
    found: list[str | Json] = []
    for part in text.replace("\n", ",").split(","):
        subject, colon, until = part.partition(":")
        if part.strip():
            found.append({subject.strip(): until.strip()} if colon else subject.strip())
    return found


def _dependencies_text(value: object) -> str:
    """Return dependencies as ``_dependencies`` reads them."""
    items = value if isinstance(value, list) else []
    pairs = [f"{subject}: {until}" for item in items if isinstance(item, dict) for subject, until in item.items()]
    return ", ".join([*pairs, *(item for item in items if isinstance(item, str))])


def _env_value(text: str) -> str | Json:
    """Return what a variable is given: text, or what stands in braces, as in YAML: {secret: wandb}, {plain: "..."}."""
    secret, plain = _SECRET.fullmatch(text.strip()), _PLAIN.fullmatch(text.strip())
    if secret is not None:
        return {key: word.strip("\"'") for key, word in secret.groupdict().items() if word}
    if plain is None:
        return text
    try:
        return {"plain": str(json.loads(plain[1]))}
    except ValueError:
        return {"plain": plain[1]}


def _env_text(value: object) -> object:
    """Return a variable as ``_env_value`` reads it."""
    if not isinstance(value, dict):
        return value
    if "plain" in value:
        return f"{{plain: {json.dumps(value['plain'], ensure_ascii=False)}}}"
    return "{" + ", ".join(f"{key}: {word}" for key, word in value.items()) + "}"


def _key_text(value: object) -> object:
    """Return a key as ``_code`` reads it: its name alone where that says all."""
    return value["secret"] if isinstance(value, dict) and set(value) == {"secret"} else _env_text(value)


def without_hidden(spec: Json) -> tuple[Json, list[str]]:
    """Return a spec without the variables whose values its reader may not see, and their names."""
    env = _mapping(spec, "env")
    hidden = [name for name, value in env.items() if isinstance(value, dict) and "hidden" in value]
    return {**spec, "env": {name: value for name, value in env.items() if name not in hidden}}, hidden


def fields_of_spec(spec: Json) -> dict[str, str]:
    """Return the texts of the fields for a spec; what is not of the right kind is left out."""
    resources, schedule = _mapping(spec, "resources"), _mapping(spec, "schedule")
    code, command = _mapping(spec, "code"), spec.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    texts = {
        "name": spec.get("name"),
        "queue": spec.get("queue"),
        "command": shlex.join(words),
        "code": "" if code.get("git") else code.get("manifest"),
        "git": code.get("git"),
        "git_commit": code.get("commit"),
        "git_subdir": code.get("subdir"),
        "git_key": _key_text(code.get("key")),
        "python": next(iter(_mapping(spec, "python").values()), None),
        "profile": spec.get("profile"),
        "env": _lines({name: _env_text(value) for name, value in _mapping(spec, "env").items()}),
        "labels": _lines(_mapping(spec, "labels")),
        "array": spec.get("array"),
        "depends_on": _dependencies_text(spec.get("depends_on")),
        "gpus": resources.get("gpus", 1),
        "min_gpus": _unlike(resources, "min_gpus", resources.get("gpus", 1)),
        "max_gpus": _unlike(resources, "max_gpus", resources.get("gpus", 1)),
        "max_servers": _unlike(resources, "max_servers", 1),
        "cpus": resources.get("cpus"),
        "memory": resources.get("memory"),
        "disk": resources.get("disk"),
        "launch": _mapping(spec, "launch").get("per"),
        "priority": schedule.get("priority"),
        "preemptible": "on" if schedule.get("preemptible", True) else "",
        "max_duration": schedule.get("max_duration"),
        "warn_before": schedule.get("warn_before"),
        "grace": _mapping(spec, "checkpoint").get("grace"),
        "signal": _unlike(_mapping(spec, "checkpoint"), "signal", "TERM"),
        "retry": _mapping(spec, "retry").get("max"),
        "total_steps": _mapping(spec, "progress").get("total_steps"),
        "stall": _mapping(spec, "progress").get("stall"),
        "early_stop": "on" if _mapping(spec, "progress").get("early_stop") is True else "",
    }
    return {name: "" if value is None or value == "auto" else str(value) for name, value in texts.items()}


def _unlike(part: Json, name: str, default: object) -> object:
    """Return a value, or None where it says no more than its default."""
    return None if part.get(name) == default else part.get(name)


def files_of_spec(spec: Json) -> dict[str, str]:
    """Return the files of a spec by name."""
    return {str(name): text for name, text in _mapping(spec, "files").items() if isinstance(text, str)}


def fits_fields(spec: Json) -> bool:
    """Return whether the form can hold a spec without loss: a value with a line break has no place in a line."""
    pairs = [*_mapping(spec, "env").items(), *_mapping(spec, "labels").items()]
    command = spec.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    texts = [value for value in _mapping(spec, "env").values() if isinstance(value, str)]
    return (
        not any("\n" in str(value) or "\r" in str(value) for _, value in pairs)
        and not any(isinstance(_env_value(text), dict) for text in texts)
        and not any("\r" in word or "\\\n" in word for word in words)
    )


def _mapping(spec: Json, name: str) -> Json:
    value = spec.get(name)
    return value if isinstance(value, dict) else {}


def _lines(pairs: Json) -> str:
    return "\n".join(f"{key}={value}" for key, value in pairs.items())
