"""How uv is called on this server, and how what it says is read.

Index, proxies and certificates are the admin's: variables of the agent, handed to uv as they are. Nothing of a job's
environment gets here.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping

from agents.environments.pins import normal

# uv's own names, as its documentation has them, and those that every program goes by.
SETTINGS = (
    *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX"),
    *("UV_INDEX_STRATEGY", "UV_TORCH_BACKEND", "UV_HTTP_TIMEOUT", "UV_INSECURE_HOST", "UV_NATIVE_TLS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
# Of the settings, those that decide which packages there are.
_OF_CONTENT = SETTINGS[:8]
_MOST_SENTENCE = 300
_PORT = re.compile(r"://[^/\s]*:(\d{1,5})(?=[/\s,]|$)")
# By these words uv, or the package that it builds, blames what was asked for; nothing else ends a job.
_OF_FILE = re.compile(
    r"No solution found|(?:was|were|is) not found|not found in the|Couldn't parse|Failed to parse|Failed to build"
    r"|hash mismatch|hash-checking is required|require-hashes|lockfile|404 Not Found"
    r"|doesn't have a source distribution|Unsupported",
    re.IGNORECASE,
)
# Beside any of these they do not count: the same words follow when an index or a disk fails.
_PASSING = re.compile(
    r"could not be queried|error sending request|dns error|connection|timed? ?out|No space left|quota exceeded"
    r"|Permission denied|Too many open files|Cannot allocate memory|(?:40[137]|429|5\d\d) [A-Z][a-z]+|signal: 9",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\u2500-\u25ff\u00d7]+|\x1b\[[0-9;]*m")


def ports_of(settings: Mapping[str, str]) -> tuple[int, ...]:
    """Return the TCP ports that a build needs: of the web, of names, and those in the admin's addresses."""
    found = {53, 80, 443}
    for value in settings.values():
        found |= {int(port) for port in _PORT.findall(value) if 0 < int(port) < 65_536}
    return tuple(sorted(found))


def uv_path() -> str:
    """Return where uv is, beside our Python or on the path; empty where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    return beside if os.access(beside, os.X_OK) else shutil.which("uv") or ""


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the admin's settings for uv."""
    return {name: environ[name] for name in SETTINGS if environ.get(name)}


def base_packages() -> str:
    """Return the folder of the packages of our Python."""
    return sysconfig.get_path("purelib")


def base_pins(folder: str) -> dict[str, str]:
    """Return the packages in a folder: normal name to version."""
    found = importlib.metadata.distributions(path=[folder])
    return {normal(one.metadata["Name"]): one.version for one in found if one.metadata["Name"]}


def tag_of(settings: Mapping[str, str], base: Mapping[str, str]) -> str:
    """Return what makes environments of one digest differ between servers and times: Python, index, base packages."""
    index = {name: value for name, value in settings.items() if name in _OF_CONTENT}
    made_of = [platform.python_implementation(), platform.python_version(), sorted(index.items()), sorted(base.items())]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:12]


def blames_file(lines: Iterable[str]) -> bool:
    """Return whether uv says that what was asked for cannot be had, and not that something broke on the way."""
    said = "\n".join(lines)
    return bool(_OF_FILE.search(said)) and not _PASSING.search(said)


def sentence_of(lines: Iterable[str]) -> str:
    """Return what uv gives as the reason of its failure, on one line; its last line where it gives none."""
    said = [_MARKS.sub(" ", line).strip() for line in lines]
    said = [line for line in said if line]
    first = next((at for at, line in enumerate(said) if line.lower().startswith("error:")), None)
    if first is None:
        first = next((at for at, line in enumerate(said) if line.startswith(("No solution", "Failed to"))), None)
    found = said[-1:] if first is None else said[first:]
    text = ""
    for place, line in enumerate(found):
        is_reason = place == 1 or line.lower().startswith("cause:")
        text += (": " if is_reason and not text.endswith(":") else " ") if text else ""
        text += re.sub(r"^(error|cause):\s*", "", line, flags=re.IGNORECASE)
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= _MOST_SENTENCE else f"{text[: _MOST_SENTENCE - 1]}…"
