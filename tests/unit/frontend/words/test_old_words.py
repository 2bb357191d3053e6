"""Sentences that users found hard to read do not come back: each old form, and the one that took its place."""

import re
from pathlib import Path

import pytest

from tests.support.e2e.stack import ROOT

FOLDERS = ("frontend", "scheduler", "clusterweb", "agents")
KINDS = {".py", ".html", ".js"}
OLD = {
    r"in the order hold": "11 jobs are ahead; no GPU is free.",
    r"of [^ ]+ in the cluster": "12th of 14 in line; the first is next in line.",
    r"comes first in the order of": "vis-1 has used less GPU time.",
    r"since the checkpoint is lost": "2 min of work lost: no newer checkpoint.",
    r"by the second time": "2 of 2 started by their p90.",
    r"fares? worse than it may": "vision's jobs take 2.2 times their fair time (limit 2).",
    r"may not borrow while": "Needs 4 GPUs; one of language's quota is left, and vision needs its own quota.",
    r"Servers more\b": "Extra servers",
    r"its even share": "Resources, compared with an equal split",
    r"than its share": "The job has 4.2 GiB less memory than an equal split gives",
    r"hours lost": "GPU-hours vision lost",
    r"Circles are": "a legend",
    r"Offer again|[Oo]ffers? (servers|\{.*\}) again|Return \{name\}|returned .* to the pool": "Undrain server-01",
    r", says \{|, set by \{": "admin added user-9 to speech.",
}
TEXTS = {
    path.relative_to(ROOT): path.read_text()
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in KINDS and "vendor" not in path.parts
}


def shown(path: Path, text: str) -> str:
    """Return what may reach a user: of Python no line that only says what the code does."""
    if path.suffix != ".py":
        return text
    return re.sub(r'"""(?s:.*?)"""|#.*', "", text)


@pytest.mark.parametrize(("old", "new"), OLD.items())
def test_an_old_form_stands_nowhere(old: str, new: str) -> None:
    """The new form says the finding first and names the one that acts."""
    found = [str(path) for path, text in TEXTS.items() if re.search(old, shown(path, text))]

    assert not found, f"say it as in {new!r}: {', '.join(found)}"
