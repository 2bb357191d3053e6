"""The token file: every pair of colours that is used together can be read, in both themes."""

import re
from pathlib import Path

import pytest

TOKENS = Path("frontend/components/static/components/tokens.css").read_text()
SURFACES = ("canvas", "surface", "sunken", "rail", "hover", "overlay")
TONES = ("ok", "info", "warn", "bad", "violet", "teal", "mute")
QUEUES = [f"q{slot}" for slot in range(1, 9)]
STEPS = [f"u{step}" for step in range(7)]
THEMES = ("light", "dark")


def block(start: str) -> dict[str, str]:
    """Return the custom properties of the first rule that begins with ``start``."""
    body = TOKENS[TOKENS.index(start) + len(start) :].split("}", 1)[0]
    return dict(re.findall(r"--([a-z0-9-]+):\s*([^;]+);", body))


def theme(name: str) -> dict[str, str]:
    return block(":root {") if name == "light" else {**block(":root {"), **block('[data-theme="dark"] {')}


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2.x."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


TEXT_PAIRS = [
    *[(text, surface) for text in ("text", "text-2", "text-3") for surface in SURFACES],
    *[("accent", surface) for surface in ("canvas", "surface", "accent-soft", "hover")],
    *[("text-inv", fill) for fill in ("ink", "info", "bad")],
    *[(tone, "surface") for tone in TONES],
    *[(tone, f"{tone}-soft") for tone in TONES],
    *[("on-u-low", step) for step in STEPS[:4]],
    *[("on-u-high", step) for step in STEPS[4:]],
]
GRAPHIC_PAIRS = [
    *[("border-ctl", surface) for surface in ("surface", "canvas")],
    *[(queue, "surface") for queue in QUEUES],
    *[("focus", surface) for surface in SURFACES],
]


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize(("front", "back"), TEXT_PAIRS)
def test_text_can_be_read_on_its_ground(name: str, front: str, back: str) -> None:
    """WCAG 2.2 AA: text has a contrast of at least 4.5."""
    colors = theme(name)

    assert contrast(colors[front], colors[back]) >= 4.5


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize(("front", "back"), GRAPHIC_PAIRS)
def test_graphics_stand_out_from_their_ground(name: str, front: str, back: str) -> None:
    """WCAG 2.2 AA: what carries meaning without being text has a contrast of at least 3."""
    colors = theme(name)

    assert contrast(colors[front], colors[back]) >= 3


def test_the_system_theme_is_the_dark_theme() -> None:
    """Dark by choice and dark by system show the same colours."""
    chosen, by_system = block('[data-theme="dark"] {'), block('[data-theme="system"] {')

    assert chosen == by_system
    assert set(chosen) <= set(block(":root {"))
