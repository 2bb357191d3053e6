"""What pages call the options of policies, localities, mechanisms and introspections, and their values in words.

The unit is the option's own (``scheduler.options``). Nothing here rounds: a value that is read can be typed again.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from frontend.components.formats import NBSP, THIN, joined
from scheduler.choices import choices
from scheduler.options import Unit, unit_of

UNIT_WORDS: dict[Unit, str] = {"": "", "s": "seconds", "gpu_s": "GPU-seconds"}
UNITS = (("d", 86400), ("h", 3600), ("min", 60))


def option_label(name: str) -> str:
    """Return what an option is called on pages: its name without the unit, which stands with its value."""
    words = name.removesuffix("_s").removesuffix("_gpu").replace("_", " ")
    return words[0].upper() + words[1:]


def option_said(name: str, value: Any) -> str:  # any JSON value of an option
    """Return a value with its unit: ``10 GPU-hours``, ``20 min``, ``on``."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list) and all(isinstance(item, int | float) for item in value):
        return _numbers(unit_of(name), value) or "none"
    if isinstance(value, int | float):
        return _numbers(unit_of(name), [value])
    return value if isinstance(value, str) else "another value"


def default_said(kind: str, chosen: str, name: str) -> str:
    """Return the default of an option of a choice, such as the policy ``las``; only ``default`` where it is unknown."""
    plurals = {"policy": "policies", "locality": "localities", "mechanism": "mechanisms"}
    every: Mapping[str, Any] = choices()  # by plural: the key is chosen here
    for choice in every[plurals.get(kind, "introspections")]:
        if choice["name"] == chosen:
            for parameter in choice["parameters"]:
                if parameter["name"] == name:
                    return f"{option_said(name, parameter['default'])} (default)"
    return "default"


def _numbers(unit: Unit, values: Iterable[float]) -> str:
    numbers = list(values)
    if not all(map(math.isfinite, numbers)):
        return joined([str(value) for value in numbers])  # as a form sent it; its error stands beside it
    if unit == "s":
        return joined([exact_duration(value) for value in numbers])
    if unit == "gpu_s":
        in_hours = all(value >= 36 and value % 36 == 0 for value in numbers)
        said = joined([exact_number(value / 3600 if in_hours else value) for value in numbers])
        of = "GPU-hour" if in_hours else "GPU-second"
        is_one = len(numbers) == 1 and numbers[0] == (3600 if in_hours else 1)
        return f"{said}{NBSP}{of}{'' if is_one else 's'}" if said else ""
    return joined([exact_number(value) for value in numbers])


def exact_number(value: float) -> str:
    """Return a number with all its digits and thin spaces between thousands."""
    whole, point, rest = repr(value).partition(".")
    if "e" in repr(value):
        return repr(value)
    return f"{int(whole):,}".replace(",", THIN) + (f"{point}{rest}" if rest.strip("0") else "")


def exact_duration(seconds: float) -> str:
    """Return a length of time in all units that it takes: ``1 h 1 min``, ``10 min 10 s``, ``0.5 s``."""
    parts, rest = [], seconds
    for unit, size in UNITS:
        if rest >= size:
            parts.append(f"{int(rest // size)}{NBSP}{unit}")
            rest = rest % size
    if rest or not parts:
        parts.append(f"{rest:.6g}{NBSP}s")
    return " ".join(parts)
