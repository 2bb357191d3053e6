"""Types of command-line arguments: each refuses what cannot be used in a sentence that says what would be right."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from scheduler.simulator.speeds.profiles import CLASSES

# Thirty years.
MOST_ROUND_S = 1e9


def number(*, above: float | None = None, least: float | None = None) -> Callable[[str], float]:
    """Return a parser of numbers in a range; its error says what would be right."""

    def parse(text: str) -> float:
        right = f"a number {f'above {above:g}' if above is not None else f'of at least {least:g}'}"
        try:
            value = float(text)
        except ValueError:
            raise ArgumentTypeError(f"must be {right}, not {text!r}") from None
        if not value < float("inf") or (above is not None and value <= above) or (least is not None and value < least):
            raise ArgumentTypeError(f"must be {right}, not {text}")
        return value

    return parse


def whole(*, least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range."""

    def parse(text: str) -> int:
        right = f"a whole number {f'from {least} to {most:,}' if most else f'of at least {least}'}"
        if not text.isascii() or not text.isdigit() or int(text) < least or (most is not None and int(text) > most):
            raise ArgumentTypeError(f"must be {right}, not {text!r}")
        return int(text)

    return parse


def seed_list(text: str) -> tuple[int, ...]:
    """Return the seeds of ``7`` or ``1,2,3``."""
    parse = whole(least=0)
    seeds = tuple(parse(part.strip()) for part in text.split(","))
    if len(set(seeds)) != len(seeds):
        raise ArgumentTypeError(f"names a seed twice: {text}")
    return seeds


def model_mix(text: str) -> dict[str, float]:
    """Return the shares of ``image=20,language=70,speech=10``, or none of ``none``."""
    if text == "none":
        return {}
    mix: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.partition("=")
        if name not in CLASSES or not equals:
            raise ArgumentTypeError(f"must be none, or shares of {', '.join(CLASSES)} such as image=20,language=70")
        mix[name] = number(least=0)(share)
    if sum(mix.values()) <= 0:
        raise ArgumentTypeError("must hold a share above 0")
    return mix


def round_length(text: str) -> float | None:
    """Return seconds, or None for ``none``: a round whenever something changes."""
    if text == "none":
        return None
    round_s = number(above=0)(text)
    if round_s > MOST_ROUND_S:
        raise ArgumentTypeError(f"must be at most {MOST_ROUND_S:g} seconds, not {text}")
    return round_s
