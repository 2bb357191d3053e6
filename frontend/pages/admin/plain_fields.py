"""Fields of the settings form that are one number each, and where each error of the form stands.

Sizes are shown and read with their unit: ``16 GiB``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from frontend.components.event_words.settings import SECONDS_LABELS, VOLUME_LABELS
from frontend.pages.admin.settings_form import MANY, SIZES
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec.units import format_size
from scheduler.models import Cluster
from scheduler.services.cluster.settings import VOLUME, cluster_row, settings_checked, settings_of
from scheduler.services.inputs import REASON_CHARS, Problems

ZERO_SECONDS = {
    "min_run_s": "Counted from its start or resume. 0: any round may stop it. Quotas still take back what they lent.",
    "smoke_run_s": "0: it does not.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainField:
    """One number, or the reason; ``note`` is its error or else its help."""

    name: str
    label: str
    value: str
    note: str
    is_wrong: bool
    inputmode: Literal["decimal", "numeric", "text"] = "text"

    @property
    def id(self) -> str:
        """Return the id of its element."""
        return f"id_{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One entry of the list above the form: ``to`` is the id of the field, empty where there is none."""

    to: str
    detail: str


def size_shown(size_bytes: int) -> str:
    """Return a size in the largest unit that divides it: ``16 GiB``."""
    text = format_size(size_bytes)
    digits = text.rstrip("BKMGTi")
    return f"{digits} {text[len(digits) :]}"


def settings_problems(changes: Mapping[str, object], reason: str) -> list[FieldError]:
    """Return all that is wrong with a sent form, the reason included."""
    problems = Problems()
    problems.reason(reason)
    found = problems.errors
    try:
        settings_checked(settings_of(cluster_row()), changes)
    except SpecInvalid as error:
        found = [*error.errors, *found]
    return found


def reason_said(errors: Iterable[FieldError]) -> list[FieldError]:
    """Return errors that call the reason what its field is called, and say sizes in their unit."""
    return [replace(error, detail=_said(error)) for error in errors]


def _said(error: FieldError) -> str:
    name = error.pointer.strip("/")
    if name == "reason":
        return f"Why needs {REASON_CHARS[0]} to {REASON_CHARS[1]} characters: it is kept in the audit list."
    if name in SIZES:
        least, most = VOLUME[name]
        between = f"from {size_shown(least)} to {size_shown(most)}"
        return f"{dict(VOLUME_LABELS)[name]} must be a size {between}, such as {size_shown(min(most, 16 * 2**30))}."
    return error.detail


def plain_fields(cluster: Cluster, post: Mapping[str, str] | None, errors: Sequence[FieldError]) -> list[PlainField]:
    """Return the limits of what one user may take."""
    wrong = {error.pointer.strip("/"): error.detail for error in errors}
    made = []
    for name, label in VOLUME_LABELS:
        stored, (least, most) = getattr(cluster, name), VOLUME[name]
        is_size = name in SIZES
        value = size_shown(stored) if is_size else str(stored)
        help_ = f"{size_shown(least)} to {size_shown(most)}." if is_size else f"{least} to {most:,}."
        made.append(
            PlainField(
                name=name,
                label=label,
                value=value if post is None else post.get(name, value),
                note=wrong.get(name, help_),
                is_wrong=name in wrong,
                inputmode="text" if is_size else "numeric",
            )
        )
    return made


def seconds_field(
    name: str, cluster: Cluster, post: Mapping[str, str] | None, errors: Sequence[FieldError]
) -> PlainField:
    """Return the field of a setting that is a number of seconds."""
    wrong = [error.detail for error in errors if error.pointer == f"/{name}"]
    value = f"{getattr(cluster, name):g}"
    return PlainField(
        name=name,
        label=dict(SECONDS_LABELS)[name],
        value=value if post is None else post.get(name, value),
        note=wrong[0] if wrong else ZERO_SECONDS[name],
        is_wrong=bool(wrong),
        inputmode="decimal",
    )


def reason_field(post: Mapping[str, str] | None, errors: Sequence[FieldError]) -> PlainField:
    """Return why; it is kept in the audit list."""
    wrong = [error.detail for error in errors if error.pointer == "/reason"]
    return PlainField(
        name="reason",
        label="Why",
        value=(post or {}).get("reason", ""),
        note=wrong[0] if wrong else "Kept in the audit list.",
        is_wrong=bool(wrong),
    )


def told(errors: Iterable[FieldError], post: Mapping[str, str] | None) -> list[Told]:
    """Return the errors with the fields that they lead to."""
    return [Told(to=_field_id(error.pointer, post or {}), detail=error.detail) for error in errors]


def _field_id(pointer: str, post: Mapping[str, str]) -> str:
    """Return the id of the field of ``/reason``, ``/policy_options/x`` or ``/introspection_options/slicing/x``."""
    kind, *rest = pointer.strip("/").split("/")
    if not kind.endswith("_options"):
        return "" if kind in ("policy", "locality", "mechanism", "introspection") else f"id_{kind}"
    kind = kind.removesuffix("_options")
    path = rest[:2] if kind in MANY else [post.get(kind, ""), *rest[:1]]
    return "_".join(["id", kind, *path]) if len(path) == 2 else ""
