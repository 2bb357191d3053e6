"""The policies, localities and mechanisms an admin can choose from, and how a choice becomes a SchedulerConfig."""

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from itertools import pairwise
from typing import Any, TypedDict, TypeVar, get_origin, get_type_hints

from scheduler.core.config import Locality, Mechanism, Policy, SchedulerConfig
from scheduler.core.errors import FieldError, SpecInvalid
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES

# Option values come from JSON and from forms: any JSON value until it is checked here.
Options = Mapping[str, Any]
Made = TypeVar("Made")


class Parameter(TypedDict):
    """One option of a choice. ``minimum`` and ``maximum`` are None where there is no bound."""

    name: str
    type: str  # boolean, integer, number, or numbers (a rising list)
    default: bool | int | float | list[float] | None  # None stands for "never" (infinity)
    minimum: float | None
    maximum: float | None
    help: str


class Choice(TypedDict):
    """One policy, locality or mechanism."""

    name: str
    help: str
    parameters: list[Parameter]


class Choices(TypedDict):
    """All there is to choose from, each list in the order of its registry."""

    policies: list[Choice]
    localities: list[Choice]
    mechanisms: list[Choice]


def choices() -> Choices:
    """Return every policy, locality and mechanism with its options, ready for JSON and forms."""
    return {
        "policies": [_choice(kind) for kind in POLICIES.values()],
        "localities": [_choice(kind) for kind in LOCALITIES.values()],
        "mechanisms": [_choice(kind) for kind in MECHANISMS.values()],
    }


def build_config(
    *,
    policy: str,
    policy_options: Options | None = None,
    locality: str = "consolidate",
    locality_options: Options | None = None,
    mechanism: str = "tune",
    mechanism_options: Options | None = None,
    preempt: bool = True,
    reclaim_after_s: float = 0.0,
    min_run_s: float = 0.0,
) -> SchedulerConfig:
    """Return the configuration with these names and options; options that are left out keep their defaults.

    Raises:
        SpecInvalid: With one entry per unknown name, unknown option or bad value; pointers are ``/policy``,
            ``/policy_options/<name>``, and the same for locality and mechanism.
    """
    errors: list[FieldError] = []
    made_policy: Policy | None = _make("policy", POLICIES, policy, policy_options or {}, errors)
    made_locality: Locality | None = _make("locality", LOCALITIES, locality, locality_options or {}, errors)
    made_mechanism: Mechanism | None = _make("mechanism", MECHANISMS, mechanism, mechanism_options or {}, errors)
    if errors or made_policy is None or made_locality is None or made_mechanism is None:
        raise SpecInvalid(errors)
    return SchedulerConfig(
        policy=made_policy,
        locality=made_locality,
        mechanism=made_mechanism,
        preempt=preempt,
        reclaim_after_s=reclaim_after_s,
        min_run_s=min_run_s,
    )


def _make(
    kind: str, registry: Mapping[str, type[Made]], name: str, options: Options, errors: list[FieldError]
) -> Made | None:
    if name not in registry:
        detail = f"There is no {kind} {name}. There is {', '.join(registry)}."
        errors.append(FieldError(pointer=f"/{kind}", code="unknown", detail=detail))
        return None
    known = {parameter["name"]: parameter for parameter in _parameters(registry[name])}
    values = {}
    found = len(errors)
    for option, value in options.items():
        pointer = f"/{kind}_options/{option}"
        if option not in known:
            there_is = f"There is {', '.join(known)}." if known else "It has none."
            errors.append(
                FieldError(pointer=pointer, code="unknown", detail=f"{name} has no option {option}. {there_is}")
            )
            continue
        try:
            values[option] = _checked(known[option], value)
        except ValueError as error:
            code, detail = error.args
            errors.append(FieldError(pointer=pointer, code=code, detail=detail))
    return registry[name](**values) if len(errors) == found else None


def _choice(kind: type[Policy] | type[Locality] | type[Mechanism]) -> Choice:
    text = (kind.__doc__ or "").strip().splitlines()[0]
    return {"name": kind.name, "help": text, "parameters": _parameters(kind)}


def _parameters(kind: type[Any]) -> list[Parameter]:
    hints = get_type_hints(kind)
    return [_parameter(field, hints[field.name]) for field in fields(kind)]


def _parameter(field: "Field[Any]", hint: object) -> Parameter:
    kinds: dict[object, str] = {bool: "boolean", int: "integer", float: "number"}
    default: Any = field.default
    if isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, float) and math.isinf(default):
        default = None
    return {
        "name": field.name,
        "type": "numbers" if get_origin(hint) is tuple else kinds[hint],
        "default": default,
        "minimum": field.metadata.get("minimum"),
        "maximum": field.metadata.get("maximum"),
        "help": field.metadata["help"],
    }


def _checked(parameter: Parameter, value: object) -> object:
    """Return the value as the option's field holds it; raise ValueError(code, sentence) otherwise."""
    name, kind = parameter["name"], parameter["type"]
    if kind == "boolean":
        if not isinstance(value, bool):
            raise ValueError("type", f"{name} is true or false.")
        return value
    if kind == "numbers":
        if not isinstance(value, list | tuple):
            raise ValueError("type", f"{name} is a list of numbers.")
        numbers = tuple(_number(parameter, item) for item in value)
        if any(before >= after for before, after in pairwise(numbers)):
            raise ValueError("order", f"{name} rises from number to number.")
        return numbers
    if value is None and parameter["default"] is None:
        return math.inf
    number = _number(parameter, value)
    if kind == "integer":
        if not number.is_integer():
            raise ValueError("type", f"{name} is a whole number.")
        return int(number)
    return number


def _number(parameter: Parameter, value: object) -> float:
    name, least, most = parameter["name"], parameter["minimum"], parameter["maximum"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("type", f"{name} is a number.")
    if least is not None and value < least:
        raise ValueError("range", f"{name} is at least {least:g}. It was {value:g}.")
    if most is not None and value > most:
        raise ValueError("range", f"{name} is at most {most:g}. It was {value:g}.")
    return float(value)
