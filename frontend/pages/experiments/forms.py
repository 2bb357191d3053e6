"""The form that begins an experiment: what it shows, and the document that a sent one makes."""

from collections.abc import Mapping

import yaml

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.selectors.rows import Json
from scheduler.services.jobs.spec_text import spec_from_text

NUMBERS = {
    "configurations": ("Configurations", "How many are tried at most. Empty: all of a grid."),
    "target_loss": (
        "Target loss",
        "A search ends when the loss of one is no more than this. Empty: all run to their end.",
    ),
    "total_steps": ("Steps of each", "Of a search: steps that one configuration trains in all."),
    "feedback_steps": (
        "First look after",
        "Of a search: steps before the first verdict; each later one after twice as many.",
    ),
    "seed": ("Seed", "The same seed draws the same configurations."),
}
MAY_BE_EMPTY = ("configurations", "total_steps", "feedback_steps", "target_loss")
TEXTS = {"job": "Job", "space": "Parameters"}


def first_fields(queue: str) -> dict[str, str]:
    """Return what an empty form begins with: a small grid that says how one is written."""
    command = ["python", "train.py", "--lr", "{lr}", "--seed", "{seed}"]
    job = {"apiVersion": "v1", "name": "lr-sweep", "queue": queue, "command": command, "resources": {"gpus": 1}}
    return {
        "job": yaml.safe_dump(job, sort_keys=False, default_flow_style=None),
        "space": "lr: 0.1,0.01,0.001\nseed: 1..2\n",
        "sampler": "grid",
        "seed": "0",
    }


def body_from(fields: Mapping[str, str]) -> Json:
    """Return the body of ``POST /api/v1/experiments`` that a sent form means.

    Raises:
        SpecInvalid: One entry per field that is no document or no number.
    """
    body: Json = {"sampler": fields.get("sampler", "random")}
    errors: list[FieldError] = []
    for name, label in TEXTS.items():
        try:
            found = spec_from_text(fields.get(name, ""))
            if not isinstance(found, dict):
                detail = f"{label} must be YAML with one name: value a line."
                raise SpecInvalid([FieldError(pointer="", code="type", detail=detail)])
            body[name] = found
        except SpecInvalid as error:
            errors += [
                FieldError(
                    pointer=f"/{name}",
                    code=entry.code,
                    detail=f"{label}: {entry.detail}".replace(f"{label}: {label}", label),
                )
                for entry in error.errors
            ]
    for name, (label, _) in NUMBERS.items():
        text = fields.get(name, "")
        if not text.strip() and name in MAY_BE_EMPTY:
            body[name] = None
            continue
        value = _number(text, whole=name != "target_loss")
        if value is None:
            wanted = "a number" if name == "target_loss" else "a whole number"
            errors.append(FieldError(pointer=f"/{name}", code="type", detail=f"{label} must be {wanted}."))
        body[name] = value
    if errors:
        raise SpecInvalid(errors)
    return body


def _number(text: str, *, whole: bool) -> float | int | None:
    text = text.strip()
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return None


def field_errors(errors: list[FieldError]) -> dict[str, str]:
    """Return what is wrong by the field of the form in which it was typed."""
    found: dict[str, str] = {}
    for error in errors:
        name, _, deeper = error.pointer.strip("/").partition("/")
        place = f"{deeper.replace('/', ' ')}: " if deeper and name in TEXTS else ""
        found[name] = f"{found[name]} {place}{error.detail}" if name in found else f"{place}{error.detail}"
    return found
