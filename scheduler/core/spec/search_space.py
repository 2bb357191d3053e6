"""Search spaces of experiments: read the parameters that vary, and fill their values into a job's spec.

Pure. Which values are tried next is chosen in ``services/jobs/suggestions.py``.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec.value_list import MOST_VALUES, Value, read_values

MOST_PARAMETERS = 32
_KEYS = frozenset({"low", "high", "log", "integer", "choices"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One thing that varies.

    Attributes:
        name: Stands in the spec as ``{name}``.
        choices: The values to choose from; empty for a range.
        low, high: Ends of a range, both included.
        log: Whether the range is searched on a logarithmic scale.
        integer: Whether only whole numbers are tried.
    """

    name: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False

    @property
    def values(self) -> tuple[Value, ...] | None:
        """Return all its values; None where there are too many to count."""
        if self.choices:
            return self.choices
        if not self.integer or self.high - self.low >= MOST_VALUES:
            return None
        return tuple(range(int(self.low), int(self.high) + 1))


def read_space(data: Any) -> tuple[Parameter, ...]:  # JSON
    """Return the parameters of a space: ``{"lr": {"low": 1e-4, "high": 1, "log": true}, "opt": {"choices": [...]}}``.

    A list alone is its choices, a text is read as ``value_list`` does: ``{"lr": "0.1,0.01", "seed": "1..5"}``.

    Raises:
        SpecInvalid: With an entry for every parameter that makes no sense; pointers begin with ``/space``.
    """
    if not (isinstance(data, Mapping) and 1 <= len(data) <= MOST_PARAMETERS):
        detail = f"space must name 1 to {MOST_PARAMETERS} parameters."
        raise SpecInvalid([FieldError(pointer="/space", code="type", detail=detail)])
    found: list[Parameter] = []
    errors: list[FieldError] = []
    for name, one in data.items():
        try:
            found.append(_read(str(name), one))
        except ValueError as error:
            errors.append(FieldError(pointer=f"/space/{name}", code="value", detail=f"{name} {error}"))
    if errors:
        raise SpecInvalid(errors)
    return tuple(found)


def _read(name: str, data: Any) -> Parameter:  # JSON
    if not (name.isidentifier() and len(name) <= 40):
        raise ValueError("is no name: take letters, digits and underscores, at most 40.")
    if isinstance(data, str):
        return Parameter(name=name, choices=read_values(data))
    if isinstance(data, list):
        data = {"choices": data}
    if not isinstance(data, Mapping) or not set(data) <= _KEYS:
        raise ValueError(f"must be a mapping with some of {', '.join(sorted(_KEYS))}.")
    choices = data.get("choices")
    if choices is not None:
        is_list = isinstance(choices, list) and 1 <= len(choices) <= MOST_VALUES and len(data) == 1
        if not is_list or not all(isinstance(value, str | int | float) for value in choices):
            raise ValueError(f"takes choices alone: 1 to {MOST_VALUES} numbers or texts.")
        if len(set(map(str, choices))) < len(choices):
            raise ValueError("has a choice twice.")
        return Parameter(name=name, choices=tuple(choices))
    low, high = data.get("low"), data.get("high")
    log, integer = data.get("log", False), data.get("integer", False)
    if not (isinstance(log, bool) and isinstance(integer, bool)):
        raise ValueError("takes true or false as log and integer.")
    if not all(
        isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in (low, high)
    ):
        raise ValueError("needs low and high, both numbers, or choices.")
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if low >= high or (log and low <= 0) or (integer and (low % 1 or high % 1)):
        raise ValueError("needs low below high; above 0 on a logarithmic scale, whole for whole numbers.")
    return Parameter(name=name, low=float(low), high=float(high), log=log, integer=integer)


def unused(space: Sequence[Parameter], spec: Mapping[str, Any]) -> list[str]:  # JSON of a spec
    """Return the parameters that reach no job: ``{name}`` stands neither in its command nor in its environment."""
    text = repr([spec.get("command"), spec.get("env")])
    return [one.name for one in space if f"{{{one.name}}}" not in text]


_MARK = re.compile(r"(?:--?[\w-]+=)?\{([A-Za-z_]\w*)\}")


def unfilled(space: Sequence[Parameter], spec: Mapping[str, Any]) -> dict[str, str]:  # JSON of a spec
    """Return by pointer the name in each ``{name}`` that no parameter fills.

    In the command and the environment that is a whole word or value, ``--seed={seed}`` as well: inside others braces
    are the script's own.
    """
    command, env = spec.get("command"), spec.get("env")
    parts = {f"/command/{at}": part for at, part in enumerate(command)} if isinstance(command, list) else {}
    if isinstance(env, Mapping):
        parts |= {f"/env/{key}": value for key, value in env.items()}
    found = {pointer: _MARK.fullmatch(part) for pointer, part in parts.items() if isinstance(part, str)}
    found["/name"] = _MARK.search(str(spec.get("name", "")))
    known = {one.name for one in space}
    return {pointer: match[1] for pointer, match in found.items() if match and match[1] not in known}


_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def filled(spec: Mapping[str, Any], values: Mapping[str, Value], *, number: int) -> dict[str, Any]:  # JSON of a spec
    """Return the spec of one configuration: ``{name}`` in command, environment and name replaced, its number behind.

    In a name, what of a value no name may have is a hyphen.
    """
    text = {f"{{{name}}}": str(value) for name, value in values.items()}

    def put(part: Any) -> Any:  # JSON
        if isinstance(part, str):
            for mark, value in text.items():
                part = part.replace(mark, value)
        if isinstance(part, Mapping):  # a variable that is said to be plain
            return {key: put(value) for key, value in part.items()}
        return part

    command, env = spec.get("command"), spec.get("env")
    name = str(spec.get("name", "search"))
    for mark, value in text.items():
        name = name.replace(mark, _NOT_OF_A_NAME.sub("-", value))
    changes: dict[str, Any] = {"name": f"{name[:70]}-{number}"}
    if isinstance(command, list):
        changes["command"] = [put(part) for part in command]
    elif command is not None:
        changes["command"] = put(command)
    if isinstance(env, Mapping):
        changes["env"] = {key: put(value) for key, value in env.items()}
    return {**spec, **changes}
