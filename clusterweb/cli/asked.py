"""What is submitted: a spec, and the folder that goes with it, as the arguments of the command say."""

import difflib
import json
import os
import posixpath
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterweb.client.errors import CommandError
from clusterweb.client.folders.folder import code_dir, folder_paths, named_folder
from clusterweb.client.folders.script import script_of
from clusterweb.client.many import split_specs

SPEC_NAMES = ("job.yaml", "job.yml", "job.json")
NO_PACKAGES = "none"
NO_PLAIN_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is submitted: the text of a spec, and the folder that is sent with it.

    Attributes:
        many: The specs where the text holds several; else empty.
        beside: Where the text lies, whose files are not sent unless the spec or the arguments name them.
    """

    spec: bytes
    folder: Path | None = None
    many: tuple[bytes, ...] = ()
    beside: Path | None = None


def spec_bytes(name: str) -> bytes:
    """Return a file, or what standard input holds."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}.") from None


def asked_of(given: Namespace) -> Asked:
    """Return the spec that is named, or that stands for a folder. Raises CommandError."""
    flags = [name for name in ("name", "queue", "gpus", "python") if getattr(given, name) is not None]
    if given.spec == "-" or not os.path.isdir(given.spec):
        if flags or given.words:
            raise CommandError("The spec says what to run. Only a folder without job.yaml takes flags and a command.")
        spec = spec_bytes(given.spec)
        if given.spec.endswith(".py"):
            folder, script = os.path.split(given.spec)
            raise CommandError(
                f"{given.spec} is a script, not a spec. To send the folder it lies in, and start it there:\n"
                f"clusterweb submit {shlex.quote(folder or '.')} --queue QUEUE -- python {shlex.quote(script)}"
            )
        many = split_specs(spec)
        if len(many) > 1:
            return Asked(spec=spec, many=tuple(many))
        beside = Path.cwd() if given.spec == "-" else Path(given.spec).parent
        return Asked(spec=many[0], folder=named_folder(many[0], beside), beside=beside)
    folder = Path(given.spec)
    found = next((name for name in SPEC_NAMES if (folder / name).is_file()), None)
    if found is None:
        return Asked(spec=_spec_of_flags(given, folder), folder=folder)
    if flags or given.words:
        raise CommandError(f"{folder / found} says what to run. Change it there, or leave out the flags.")
    spec = spec_bytes(str(folder / found))
    if len(one := split_specs(spec)) == 1:
        spec = one[0]
    return Asked(spec=spec, folder=named_folder(spec, folder) or folder)


def left_behind(asked: Asked, spec: Mapping[str, Any]) -> str:
    """Return what the command of a stored spec starts, if that lies beside its text and is not sent; else empty."""
    if asked.beside is None or spec["code"] is not None:
        return ""
    named = (word for word in spec["command"] if not os.path.isabs(word) and word not in spec["files"])
    return next((word for word in named if (asked.beside / word).is_file()), "")


def require_no_folder(specs: Sequence[bytes]) -> None:
    """Raise CommandError where one of several specs names a folder, which only one job by itself takes along."""
    for place, spec in enumerate(specs, start=1):
        if code_dir(spec):
            raise CommandError(
                f"Spec {place} names a folder by code: {{dir: ...}}, and a folder is sent with one job by itself. "
                "Nothing is submitted."
            )


def _spec_of_flags(given: Namespace, folder: Path) -> bytes:
    if not given.words:
        raise CommandError(
            f"There is no job.yaml in the folder {folder.resolve()}\n"
            "Write one, or say what to run: "
            f"clusterweb submit {shlex.quote(given.spec)} --queue QUEUE -- python train.py"
        )
    _require_script(given, folder)
    name = given.name or NO_PLAIN_NAME.sub("-", folder.resolve().name).strip("-._")[:80] or "job"
    spec = {"apiVersion": "v1", "name": name, "queue": given.queue, "command": given.words}
    spec["resources"] = {"gpus": 1 if given.gpus is None else given.gpus}
    packages = given.python or _packages_of(folder)
    if packages != NO_PACKAGES:
        kind = "venv" if packages.startswith("/") else "lock" if packages.endswith(".lock") else "requirements"
        spec["python"] = {kind: packages}
    return json.dumps({key: value for key, value in spec.items() if value is not None}).encode()


def _require_script(given: Namespace, folder: Path) -> None:
    """Raise CommandError where the script that the command starts is not among the files that are sent."""
    script = script_of(given.words)
    if not script:
        return
    paths, ignored = folder_paths(folder)
    beside = {Path(name).name for name in given.file}
    if script in beside or any(path == script or path.startswith(f"{script}/") for path in paths):
        return
    where = shlex.quote(given.spec)
    by = next((name for name in ignored if script == name or (name.endswith("/") and script.startswith(name))), "")
    if by:
        told = f"{script} is not sent with the folder {folder.resolve()}: {by} is ignored.\n"
        raise CommandError(f"{told}Write !{by} into {folder / '.clusterwebignore'} to send it all the same.")
    same = [path for path in paths if path.rpartition("/")[2] == script.rpartition("/")[2]]
    near = next(iter(sorted(same) or difflib.get_close_matches(script, paths, n=1)), "")
    scripts = sorted((path for path in paths if path.endswith(".py")), key=lambda path: (path.count("/"), path))
    lines = [f"{script} is not in the folder that is sent, {folder.resolve()}. Nothing is sent."]
    if near:
        # As given, with the right path in its place: what is typed again is what runs.
        right = [near if posixpath.normpath(word) == script else word for word in given.words]
        lines += ["Did you mean:", f"clusterweb submit {where} --queue {given.queue or 'QUEUE'} -- {shlex.join(right)}"]
    elif scripts:
        lines.append(f"Scripts in it: {', '.join(scripts[:8])}{', ...' if len(scripts) > 8 else ''}")
    raise CommandError("\n".join(lines))


def _packages_of(folder: Path) -> str:
    """Return the file that names the packages of a folder: a lock is exact, so it comes first."""
    has = [name for name in ("uv.lock", "pyproject.toml", "requirements.txt") if (folder / name).is_file()]
    if has[:2] == ["uv.lock", "pyproject.toml"]:
        return "uv.lock"
    return "requirements.txt" if "requirements.txt" in has else NO_PACKAGES
