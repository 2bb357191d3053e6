"""Links to runs at W&B and MLflow, found in a log. A job may print anything: https alone, the host always shown."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from scheduler.models import Attempt
from scheduler.selectors.jobs.logs import Log, log_open

# Trackers say where at their begin and at their end.
LOOK_BYTES = 128 * 1024
MOST_LINKS = 3
_LINK = re.compile(rb"https://[!-~]{4,400}")
_ENDS = "'\")>],.;"
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


@dataclass(frozen=True, slots=True)
class RunLink:
    """A run elsewhere."""

    tool: str
    host: str
    url: str


def run_links(attempt: Attempt) -> list[RunLink]:
    """Return where an attempt says that its run is to be seen, in the order in which it says so."""
    try:
        with log_open(attempt) as log:
            data = _edges(log)
    except OSError:
        return []
    found: dict[str, RunLink] = {}
    for match in _LINK.finditer(data):
        link = _link(match[0].decode("ascii").rstrip(_ENDS))
        if link is not None and len(found) < MOST_LINKS:
            found.setdefault(link.url, link)
    return list(found.values())


def _edges(log: Log) -> bytes:
    begin = log.read(log.start, LOOK_BYTES)
    rest = log.end - log.start - len(begin)
    return begin + b"\n" + log.read(log.end - min(rest, LOOK_BYTES), LOOK_BYTES) if rest > 0 else begin


def _link(url: str) -> RunLink | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    if "@" in parts.netloc or not _HOST.fullmatch(host):
        return None
    if (host == "wandb.ai" or host.endswith(".wandb.ai")) and "/runs/" in parts.path:
        return RunLink("W&B", parts.netloc, url)
    if parts.fragment.startswith("/experiments/") and "/runs/" in parts.fragment:
        return RunLink("MLflow", parts.netloc, url)
    return None
