"""The settings form, made from the registries' own descriptions: one section for each kind, one block for each choice.

Nothing here knows the name of a policy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from frontend.components.devices import DeviceWord
from frontend.components.event_words.options import option_label
from frontend.components.event_words.settings import KIND_LABELS, SECONDS_LABELS, VOLUME_LABELS
from frontend.components.option_fields import OptionField, option_fields, options_sent
from scheduler.choices import Choice, ChoiceKind, choices
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.units import UnitMissing, parse_size_bytes
from scheduler.models import Cluster
from scheduler.services.cluster.settings import SECONDS, VOLUME

Plural = Literal["policies", "localities", "mechanisms", "introspections"]
PLURALS: dict[ChoiceKind, Plural] = {
    "policy": "policies",
    "locality": "localities",
    "mechanism": "mechanisms",
    "introspection": "introspections",
}
SECTIONS = tuple((kind, label, PLURALS[kind]) for kind, label in KIND_LABELS.items())
SIZES = frozenset(name for name in VOLUME if name.endswith("_bytes"))
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
# Kinds of which any number may be chosen; their options are kept by name.
MANY = frozenset({"introspection"})
QUESTIONS = {
    "policy": "Which jobs run, and with how many devices.",
    "locality": "On which set of servers.",
    "mechanism": "How jobs are packed, and with which cores and memory.",
    "introspection": "What is tried on running jobs, measured, and taken back when it does not pay.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChoice:
    """One policy, locality or mechanism with its options."""

    name: str
    help: str
    chosen: bool
    fields: list[OptionField]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSection:
    """All choices of one kind, of which one or many may be chosen."""

    kind: str
    many: bool
    label: str
    question: str
    error: str
    choices: list[SettingChoice]


def changes_from(post: Mapping[str, str]) -> dict[str, object]:
    """Return what a sent form asks for, as ``settings_change`` takes it."""
    changes: dict[str, object] = {}
    changes |= {name: _number(post[name]) for name in SECONDS if name in post}
    changes |= {name: _size(post[name]) if name in SIZES else _whole(post[name]) for name in VOLUME if name in post}
    every = choices()
    for kind, _, plural in SECTIONS:
        names = _chosen(kind, post)
        found = [choice for choice in every[plural] if choice["name"] in names]
        options = {choice["name"]: options_sent(choice, post, kind) for choice in found}
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


def _whole(text: str) -> int | str:
    return int(text) if text.strip().isdecimal() else text


def _size(text: str) -> int | str:
    """Return the bytes of ``16 GiB``; a bare number is bytes, other text stays as it is."""
    try:
        return parse_size_bytes("".join(text.split()))
    except UnitMissing:
        return _whole(text)
    except ValueError:
        return text


def _chosen(kind: str, post: Mapping[str, str]) -> list[str]:
    """Return the names that a sent form chooses, in the order of the registry where there may be many."""
    if kind not in MANY:
        return [post.get(kind, "")]
    return [choice["name"] for choice in choices()["introspections"] if f"{kind}.{choice['name']}" in post]


def labelled(errors: list[FieldError]) -> list[FieldError]:
    """Return errors that call each setting what the form calls it, not what REST does."""
    every = choices()
    options = {
        parameter["name"] for _, _, plural in SECTIONS for choice in every[plural] for parameter in choice["parameters"]
    }
    labels = {name: option_label(name) for name in options} | dict(VOLUME_LABELS) | dict(SECONDS_LABELS)
    return [
        replace(error, detail=_NAME.sub(lambda found: labels.get(found[0], found[0]), error.detail)) for error in errors
    ]


def sections(
    cluster: Cluster,
    device: DeviceWord,
    *,
    post: Mapping[str, str] | None = None,
    errors: list[FieldError] | None = None,
) -> list[SettingSection]:
    """Return the form with the present settings, or with what was sent and what is wrong with it."""
    details = {error.pointer: error.detail for error in errors or []}
    every = choices()
    made = []
    for kind, label, plural in SECTIONS:
        stored = getattr(cluster, kind)
        chosen = _chosen(kind, post) if post is not None else stored if kind in MANY else [stored]
        made.append(
            SettingSection(
                kind=kind,
                many=kind in MANY,
                label=label,
                question=QUESTIONS[kind],
                error=_error_of(f"/{kind}", details),
                choices=[
                    _choice_view(kind, choice, chosen, cluster, device, post, details) for choice in every[plural]
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
) -> SettingChoice:
    is_chosen = choice["name"] in chosen
    stored = getattr(cluster, f"{kind}_options")
    if post is not None and is_chosen:
        stored = options_sent(choice, post, kind)
    elif kind in MANY:
        stored = stored.get(choice["name"], {})
    elif choice["name"] != getattr(cluster, kind):
        stored = {}
    pointer = f"/{kind}_options/{choice['name']}" if kind in MANY else f"/{kind}_options"
    names = [parameter["name"] for parameter in choice["parameters"]]
    errors = {name: _error_of(f"{pointer}/{name}", details) for name in names} if is_chosen else {}
    fields = option_fields(choice, kind, stored=stored, errors=errors)
    return SettingChoice(
        name=choice["name"],
        help=device.said(choice["help"]),
        chosen=is_chosen,
        fields=[
            replace(
                field,
                help=device.said(field.help),
                unit=device.said(field.unit),
                said=device.said(field.said),
                range=device.said(field.range),
            )
            for field in fields
        ],
    )


def _error_of(pointer: str, details: Mapping[str, str]) -> str:
    """Return the problem of an option or of a part of it; empty for none."""
    return next((text for at, text in details.items() if at == pointer or at.startswith(f"{pointer}/")), "")
