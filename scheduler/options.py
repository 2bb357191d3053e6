"""Options of a choice: the fields of its dataclass as descriptions for forms, and checks of given values.

Type and metadata of a field define its option: ``help`` always; ``minimum`` and ``maximum`` for numbers;
``ordered`` False for a list of numbers in which neither order nor repetition matters. The end of its name is its unit.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict, get_args, get_origin, get_type_hints

# Option values come from JSON and from forms: any JSON value until it is checked here.
Options = Mapping[str, Any]

ParameterType = Literal["boolean", "integer", "number", "numbers", "choice"]  # "numbers": a list of them
Unit = Literal["", "s", "gpu_s"]  # none, seconds, GPU-seconds
_SIMPLE: dict[object, ParameterType] = {bool: "boolean", int: "integer", float: "number"}


class Parameter(TypedDict):
    """One option of a policy, locality or mechanism."""

    name: str
    type: ParameterType
    default: Annotated[bool | int | float | str | list[float] | None, "null stands for never (infinity)."]
    choices: Annotated[list[str], "Empty unless the type is choice."]
    minimum: float | None
    maximum: float | None
    ordered: Annotated[bool, "Whether a list of numbers has to rise."]
    unit: Annotated[Unit, "Of its numbers: `s` for seconds, `gpu_s` for GPU-seconds, empty for none."]
    help: str


def parameters(kind: type[Any]) -> list[Parameter]:
    """Return the options of a dataclass in the order of its fields."""
    hints = get_type_hints(kind)
    return [_parameter(field, hints[field.name]) for field in fields(kind)]


def _parameter(field: "Field[Any]", hint: object) -> Parameter:
    kinds: dict[object, ParameterType] = {tuple: "numbers", Literal: "choice"}
    default: Any = field.default
    if isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, float) and math.isinf(default):
        default = None
    return {
        "name": field.name,
        "type": _SIMPLE[hint] if hint in _SIMPLE else kinds[get_origin(hint)],
        "default": default,
        "choices": [*get_args(hint)] if get_origin(hint) is Literal else [],
        "minimum": field.metadata.get("minimum"),
        "maximum": field.metadata.get("maximum"),
        "ordered": field.metadata.get("ordered", True),
        "unit": unit_of(field.name),
        "help": field.metadata["help"],
    }


def unit_of(name: str) -> Unit:
    """Return the unit of an option, which its name ends with."""
    return "gpu_s" if name.endswith("_gpu_s") else "s" if name.endswith("_s") else ""


def checked(parameter: Parameter, value: object) -> object:
    """Return the value as the option's field holds it; raise ValueError(code, sentence) otherwise."""
    name, kind = parameter["name"], parameter["type"]
    if kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("type", f"{name} is true or false.")
        return value
    if kind == "choice":
        if value not in parameter["choices"]:
            raise ValueError("unknown", f"{name} is one of {', '.join(parameter['choices'])}.")
        return value
    if kind == "numbers":
        return _numbers(parameter, value)
    if value is None and parameter["default"] is None:
        return math.inf
    number = _number(parameter, value)
    if kind == "integer":
        if not number.is_integer():
            raise ValueError("type", f"{name} is a whole number.")
        return int(number)
    return number


def _numbers(parameter: Parameter, value: object) -> tuple[float, ...]:
    name = parameter["name"]
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("type", f"{name} is a list of numbers.")
    numbers = tuple(_number(parameter, item) for item in value)
    if parameter["ordered"] and any(before >= after for before, after in pairwise(numbers)):
        raise ValueError("order", f"{name} rises from number to number.")
    return numbers


def _number(parameter: Parameter, value: object) -> float:
    name, least, most = parameter["name"], parameter["minimum"], parameter["maximum"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("type", f"{name} is a number.")
    if least is not None and value < least:
        raise ValueError("range", f"{name} is at least {least:g}. It was {value:g}.")
    if most is not None and value > most:
        raise ValueError("range", f"{name} is at most {most:g}. It was {value:g}.")
    return float(value)
