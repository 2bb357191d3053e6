"""The settings form, made from the registries' own descriptions: one section a kind, one block a choice.

Nothing here knows the name of a policy. A value is read by the type its parameter declares; text that is no such value
is passed on as it is, so that the service refuses it with its own sentence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.components.devices import DeviceWord
from scheduler.choices import Choice, choices
from scheduler.core.errors import FieldError
from scheduler.models import Cluster
from scheduler.options import Parameter

SECTIONS = (
    ("policy", "Policy", "policies"),
    ("locality", "Locality", "localities"),
    ("mechanism", "Mechanism", "mechanisms"),
)
QUESTIONS = {
    "policy": "Who runs, and with how many devices.",
    "locality": "On which set of servers.",
    "mechanism": "How jobs are packed, and with which cores and memory.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldView:
    """One option as the template shows it. ``value`` is text; ``checked`` counts for booleans alone."""

    id: str
    name: str
    label: str
    type: str
    value: str
    checked: bool
    choices: list[str]
    help: str
    error: str
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceView:
    """One policy, locality or mechanism with its options."""

    name: str
    help: str
    chosen: bool
    fields: list[FieldView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionView:
    """All choices of one kind."""

    kind: str
    label: str
    question: str
    error: str
    choices: list[ChoiceView]


def _text(value: Any) -> str:  # any JSON value of an option
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e15 and value == round(value, 6) else str(value)


def _value(parameter: Parameter, text: str | None) -> Any:  # any JSON value of an option
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


def _field_name(kind: str, choice: str, parameter: str) -> str:
    return f"{kind}.{choice}.{parameter}"


def changes_from(post: Mapping[str, str]) -> dict[str, Any]:
    """Return what a sent form asks for, as ``settings_change`` takes it."""
    changes: dict[str, Any] = {}
    every = choices()
    for kind, _, plural in SECTIONS:
        name = post.get(kind, "")
        changes[kind] = name
        chosen = next((choice for choice in every[plural] if choice["name"] == name), None)  # type: ignore[literal-required]
        if chosen is not None:
            sent = {
                parameter["name"]: _value(parameter, post.get(_field_name(kind, name, parameter["name"])))
                for parameter in chosen["parameters"]
            }
            # A default is not written down: it may become a better one with a later release.
            defaults = {parameter["name"]: parameter["default"] for parameter in chosen["parameters"]}
            changes[f"{kind}_options"] = {key: value for key, value in sent.items() if value != defaults[key]}
    return changes


def sections(
    cluster: Cluster,
    device: DeviceWord,
    *,
    post: Mapping[str, str] | None = None,
    errors: list[FieldError] | None = None,
) -> list[SectionView]:
    """Return the form with the present settings, or with what was sent and what is wrong with it."""
    details = {error.pointer: error.detail for error in errors or []}
    every = choices()
    made = []
    for kind, label, plural in SECTIONS:
        chosen = post.get(kind, "") if post is not None else getattr(cluster, kind)
        made.append(
            SectionView(
                kind=kind,
                label=label,
                question=QUESTIONS[kind],
                error=details.get(f"/{kind}", ""),
                choices=[
                    _choice_view(kind, choice, chosen, cluster, device, post, details)
                    for choice in every[plural]  # type: ignore[literal-required]
                ],
            )
        )
    return made


def _choice_view(
    kind: str,
    choice: Choice,
    chosen: str,
    cluster: Cluster,
    device: DeviceWord,
    post: Mapping[str, str] | None,
    details: Mapping[str, str],
) -> ChoiceView:
    is_chosen = choice["name"] == chosen
    stored = getattr(cluster, f"{kind}_options") if choice["name"] == getattr(cluster, kind) else {}
    fields = []
    for parameter in choice["parameters"]:
        name = _field_name(kind, choice["name"], parameter["name"])
        value = stored.get(parameter["name"], parameter["default"])
        sent = post is not None and is_chosen
        fields.append(
            FieldView(
                id="id_" + name.replace(".", "_"),
                name=name,
                label=parameter["name"],
                type=parameter["type"],
                value=post.get(name, "") if sent and post is not None else _text(value),
                checked=name in post if sent and post is not None else bool(value),
                choices=parameter["choices"],
                help=device.said(parameter["help"]),
                error=_error_of(f"/{kind}_options/{parameter['name']}", details) if is_chosen else "",
                minimum=parameter["minimum"],
                maximum=parameter["maximum"],
            )
        )
    return ChoiceView(name=choice["name"], help=device.said(choice["help"]), chosen=is_chosen, fields=fields)


def _error_of(pointer: str, details: Mapping[str, str]) -> str:
    """Return what is wrong with an option or with a part of it."""
    return next((text for at, text in details.items() if at == pointer or at.startswith(f"{pointer}/")), "")
