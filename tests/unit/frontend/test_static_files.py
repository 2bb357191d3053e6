"""Files of the pages: icons that are used exist, scripts are ours or pinned, nothing is inline."""

import hashlib
import re
from pathlib import Path

import pytest

FRONTEND = Path("frontend")
COMPONENTS = FRONTEND / "components/static/components"
VENDOR = FRONTEND / "components/static/vendor"
TEMPLATES = sorted(FRONTEND.rglob("*.html"))
# One file for a mail or a folder: no page serves it, so it brings its scripts along. Nothing else is forgiven.
STANDS_ALONE = FRONTEND / "pages/simulation/templates/simulation/report.html"
SCRIPTS = [path for path in sorted(FRONTEND.rglob("*.js")) if "vendor" not in path.parts]
ICONS = set(re.findall(r'<symbol id="([^"]+)"', (COMPONENTS / "icons.svg").read_text()))


def test_the_sprite_holds_the_icons_of_the_visual_language() -> None:
    """62 Lucide icons with their licence beside them."""
    licence = (COMPONENTS / "icons.LICENSE.txt").read_text()

    assert len(ICONS) == 62
    assert "ISC License" in licence


@pytest.mark.parametrize("path", [*TEMPLATES, *SCRIPTS, *sorted(FRONTEND.rglob("*.py"))], ids=str)
def test_every_icon_named_in_a_file_is_in_the_sprite(path: Path) -> None:
    """A misspelt icon would be an empty space."""
    text = path.read_text()
    named = re.findall(r'\{% icon "([^"]+)"', text) + re.findall(r'icon="([^"]+)"', text)
    named += re.findall(r'\bicon\("([^"]+)"\)', text)

    assert set(named) <= ICONS


@pytest.mark.parametrize("path", TEMPLATES, ids=str)
def test_templates_hold_no_inline_script(path: Path) -> None:
    """The content security policy forbids scripts in the page: every script element names a file."""
    text = path.read_text()

    assert path == STANDS_ALONE or all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"<[^>]+\son[a-z]+\s*=", text)
    assert "javascript:" not in text


@pytest.mark.parametrize("path", SCRIPTS, ids=str)
def test_scripts_never_turn_text_into_markup(path: Path) -> None:
    """Text from outside is set as text: no innerHTML, no eval."""
    text = path.read_text()

    assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|new Function)\b", text)


def test_vendored_scripts_are_the_pinned_ones() -> None:
    """The hash in the README is the hash of the file."""
    readme = (VENDOR / "README.md").read_text()
    rows = re.findall(r"\| `([^`]+\.js)` \|.*`([0-9a-f]{64})` \|", readme)

    assert {name for name, _ in rows} == {path.name for path in VENDOR.glob("*.js")}
    assert all(hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest for name, digest in rows)


def test_sentences_are_never_cut_where_nothing_opens_them() -> None:
    """What a policy does, why a job waits: whole, since a title on hover is not for all readers."""
    admin = (FRONTEND / "pages/admin/static/admin/admin.css").read_text()
    [sentence] = re.findall(
        r"^\.table td\.grow \.cut \{(.*)\}$", (COMPONENTS / "components.css").read_text(), re.MULTILINE
    )

    assert "line-clamp" not in admin + sentence
    assert "white-space: normal" in sentence
