"""Form fields made from the registries' own descriptions: one field an option, read back by the type it declares.

Nothing here knows the name of a policy. Text that is no value of its option is passed on as it is, so that the service
refuses it with its own sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.components.event_words.options import UNIT_WORDS, option_label, option_said
from scheduler.choices import Choice
from scheduler.options import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """One option as a template shows it. ``value`` is text in ``unit``; ``checked`` counts for booleans alone."""

    id: str
    name: str
    label: str
    unit: str
    type: str
    value: str
    said: str
    checked: bool
    choices: list[str]
    help: str
    range: str
    error: str


def option_text(value: Any) -> str:  # any JSON value of an option
    """Return a value as a form shows it; empty stands for never."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(option_text(item) for item in value)
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e15 and value == round(value, 6) else str(value)


def option_value(parameter: Parameter, text: str | None) -> Any:  # any JSON value of an option
    """Return what a form sent as the type of its parameter; text that does not fit stays text."""
    if parameter["type"] == "boolean":
        return text is not None
    text = (text or "").strip()
    if not text:
        return parameter["default"]
    if parameter["type"] == "choice":
        return text
    try:
        if parameter["type"] == "integer":
            return int(text)
        if parameter["type"] == "numbers":
            return [float(item) for item in text.replace(";", ",").split(",") if item.strip()]
        return float(text)
    except ValueError:
        return text


def options_sent(choice: Choice, post: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Return what a form sent for a choice, without defaults: they may become better ones with a later release."""
    sent = {
        parameter["name"]: option_value(parameter, post.get(f"{prefix}.{choice['name']}.{parameter['name']}"))
        for parameter in choice["parameters"]
    }
    return {
        parameter["name"]: sent[parameter["name"]]
        for parameter in choice["parameters"]
        if sent[parameter["name"]] != parameter["default"]
    }


def option_fields(
    choice: Choice, prefix: str, *, stored: Mapping[str, Any], errors: Mapping[str, str]
) -> list[OptionField]:
    """Return the fields of a choice.

    Args:
        choice: The policy, locality, mechanism or introspection.
        prefix: Of the names of its fields.
        stored: Present values; the others are the defaults.
        errors: Sentences by name of the option.
    """
    fields = []
    for parameter in choice["parameters"]:
        name = f"{prefix}.{choice['name']}.{parameter['name']}"
        value = stored.get(parameter["name"], parameter["default"])
        fields.append(
            OptionField(
                id="id_" + name.replace(".", "_"),
                name=name,
                label=option_label(parameter["name"]),
                unit=UNIT_WORDS[parameter["unit"]],
                type=parameter["type"],
                value=option_text(value),
                said=_said(parameter, value),
                checked=bool(value),
                choices=parameter["choices"],
                help=parameter["help"],
                range=_range(parameter),
                error=errors.get(parameter["name"], ""),
            )
        )
    return fields


def _said(parameter: Parameter, value: Any) -> str:  # any JSON value of an option
    """Return a number as it is read in larger units; empty where that says nothing more, or it is no number."""
    items = value if isinstance(value, list) else [value]
    if not parameter["unit"] or any(isinstance(one, bool) or not isinstance(one, int | float) for one in items):
        return ""
    said = option_said(parameter["name"], value)
    return "" if said.endswith(UNIT_WORDS[parameter["unit"]]) or all(one < 60 for one in items) else said


def _range(parameter: Parameter) -> str:
    """Return in words what a number may be; empty where everything goes."""
    if parameter["type"] in ("boolean", "choice"):
        return ""
    least, most = parameter["minimum"], parameter["maximum"]
    if least is None and most is None:
        return ""
    if most is None:
        return f"At least {option_said(parameter['name'], least)}."
    if least is None:
        return f"At most {option_said(parameter['name'], most)}."
    return f"{option_text(least)} to {option_text(most)}."
