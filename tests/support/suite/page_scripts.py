"""The scripts of the practitioner's page, as they stand there: blocks of code whose first line is ``# file``."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "practitioners.md"


def page_files(title: str) -> dict[str, str]:
    """Return the files of one script of "Move your script here", by name; the spec among them."""
    part = PAGE.read_text().partition("## Move your script here")[2].partition("\n## ")[0]
    text = part.partition(f"### {title}\n")[2].partition("\n### ")[0]
    assert text, f"{title} is no script of {PAGE.name}"
    return dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL))
