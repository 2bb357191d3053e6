"""Documents name files that exist."""

import re
from pathlib import Path

import pytest

from clusterweb.config.env import BASE_DIR

ENDINGS = r"(?:py|md|html|js|css|json|toml|yml|csv|gz|trace)"
DOCUMENTS = sorted(
    str(path.relative_to(BASE_DIR))
    for path in (*BASE_DIR.glob("*.md"), *(BASE_DIR / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
# Documents may leave out the first folder, as in ``core/round/config.py``.
ROOTS = (Path(), Path("scheduler"), Path("docs"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_a_document_exist(document: str) -> None:
    """``folder/file.ending`` in code style, and every relative link."""
    text = (BASE_DIR / document).read_text()
    quoted = re.findall(rf"`((?:[\w.-]+/)+[\w.-]+\.{ENDINGS})(?::[^`]*)?`", text)
    ours = [
        path
        for path in quoted
        if not path.startswith("var/") and any((BASE_DIR / root / path.partition("/")[0]).is_dir() for root in ROOTS)
    ]
    links = [link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text) if "://" not in link]
    folder = (BASE_DIR / document).parent

    assert [path for path in ours if not any((BASE_DIR / root / path).exists() for root in ROOTS)] == []
    assert [link for link in links if not (folder / link).exists()] == []
