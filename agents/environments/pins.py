"""Lists of packages as uv writes them: one requirement each, with its hashes on lines of their own. Pure.

What the agent's own Python has at the very version that was resolved, such as torch, is not installed a second time.
"""

import re
from collections.abc import Iterable, Mapping

_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?")
_PIN = re.compile(r"\s*==\s*([^\s;\\,]+)")


def normal(name: str) -> str:
    """Return a package's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(resolved: str) -> list[str]:
    """Return the requirements of a list; lines that go on belong to the one above, comments and options to none."""
    whole = re.sub(r"\\\n", "\\\\\0", resolved)
    lines = [line.strip() for line in whole.splitlines()]
    return [line.replace("\\\0", "\\\n") for line in lines if line and not line.startswith(("#", "-"))]


def has_hashes(requirements: str) -> bool:
    """Return whether a list gives hashes: then nothing else may be installed."""
    return any("--hash" in entry for entry in entries(requirements))


def pin_of(entry: str) -> tuple[str, str] | None:
    """Return name and version of ``name==version``; None for any other requirement."""
    name = _NAME.match(entry)
    pin = _PIN.match(entry, name.end()) if name else None
    return (normal(name.group(1)), pin.group(1)) if name and pin else None


def preferences(base: Mapping[str, str]) -> str:
    """Return the base's packages as a list that uv takes for what was resolved before: it keeps to it where it may.

    Local parts are left out (``2.5.1+cpu``): indexes have the same version under another one.
    """
    return "".join(f"{name}=={_public(version)}\n" for name, version in sorted(base.items()))


def to_install(resolved: Iterable[str], base: Mapping[str, str]) -> list[str]:
    """Return the requirements that the base does not have at the same version."""
    found = []
    for entry in resolved:
        pin = pin_of(entry)
        if pin is None or pin[0] not in base or not _is_same(base[pin[0]], pin[1]):
            found.append(entry)
    return found


def _is_same(has: str, asked: str) -> bool:
    """Return whether a version is the one that was asked for; one that names a local part asks for that too."""
    return has == asked if "+" in asked else _public(has) == asked


def _public(version: str) -> str:
    return version.partition("+")[0]
