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
    ("introspection", "Introspection", "introspections"),
)
# Of these any number may be chosen; their options are kept by name.
MANY = frozenset({"introspection"})
QUESTIONS = {
    "policy": "Who runs, and with how many devices.",
    "locality": "On which set of servers.",
    "mechanism": "How jobs are packed, and with which cores and memory.",
    "introspection": "What is tried on running jobs, measured, and taken back when it does not pay.",
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
    range: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceView:
    """One policy, locality or mechanism with its options."""

    name: str
    help: str
    chosen: bool
    fields: list[FieldView]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionView:
    """All choices of one kind, of which one or many may be chosen."""

    kind: str
    many: bool
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
    if "smoke_run_s" in post:
        changes["smoke_run_s"] = _number(post["smoke_run_s"])
    every = choices()
    for kind, _, plural in SECTIONS:
        names = _chosen(kind, post)
        found = [choice for choice in every[plural] if choice["name"] in names]  # type: ignore[literal-required]
        options = {choice["name"]: _options(kind, choice, post) for choice in found}
        if kind in MANY:
            changes[kind] = names
            changes[f"{kind}_options"] = {name: sent for name, sent in options.items() if sent}
            continue
        changes[kind] = names[0]
        if found:
            changes[f"{kind}_options"] = options[names[0]]
    return changes


def _number(text: str) -> float | str:
    try:
        return float(text.strip() or 0)
    except ValueError:
        return text


def _chosen(kind: str, post: Mapping[str, str]) -> list[str]:
    """Return the names that a sent form chooses, in the order of the registry where there may be many."""
    if kind not in MANY:
        return [post.get(kind, "")]
    return [choice["name"] for choice in choices()["introspections"] if f"{kind}.{choice['name']}" in post]


def _options(kind: str, choice: Choice, post: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of one choice. A default is not written down: a later release may have a better one."""
    sent = {
        parameter["name"]: _value(parameter, post.get(_field_name(kind, choice["name"], parameter["name"])))
        for parameter in choice["parameters"]
    }
    defaults = {parameter["name"]: parameter["default"] for parameter in choice["parameters"]}
    return {key: value for key, value in sent.items() if value != defaults[key]}


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
        stored = getattr(cluster, kind)
        chosen = _chosen(kind, post) if post is not None else stored if kind in MANY else [stored]
        made.append(
            SectionView(
                kind=kind,
                many=kind in MANY,
                label=label,
                question=QUESTIONS[kind],
                error=_error_of(f"/{kind}", details),
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
    chosen: list[str],
    cluster: Cluster,
    device: DeviceWord,
    post: Mapping[str, str] | None,
    details: Mapping[str, str],
) -> ChoiceView:
    is_chosen = choice["name"] in chosen
    stored = getattr(cluster, f"{kind}_options")
    if kind in MANY:
        stored = stored.get(choice["name"], {})
    elif choice["name"] != getattr(cluster, kind):
        stored = {}
    pointer = f"/{kind}_options/{choice['name']}" if kind in MANY else f"/{kind}_options"
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
                error=_error_of(f"{pointer}/{parameter['name']}", details) if is_chosen else "",
                range=_range(parameter),
            )
        )
    return ChoiceView(name=choice["name"], help=device.said(choice["help"]), chosen=is_chosen, fields=fields)


def _range(parameter: Parameter) -> str:
    """Return in words what a number may be; empty where everything goes."""
    if parameter["type"] in ("boolean", "choice"):
        return ""
    least, most = parameter["minimum"], parameter["maximum"]
    if least is None and most is None:
        return ""
    words = f"At least {_text(least)}." if most is None else f"At most {_text(most)}." if least is None else ""
    return words or f"{_text(least)} to {_text(most)}."


def _error_of(pointer: str, details: Mapping[str, str]) -> str:
    """Return what is wrong with an option or with a part of it."""
    return next((text for at, text in details.items() if at == pointer or at.startswith(f"{pointer}/")), "")
