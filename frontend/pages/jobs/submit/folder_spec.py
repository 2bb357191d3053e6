"""The job.yaml in a folder that was sent: it fills the form, as ``clusterweb submit FOLDER`` submits it."""

import posixpath
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from django.contrib.auth.models import User
from django.http import QueryDict

from frontend.pages.jobs.submit.spec_fields import (
    POINTERS,
    fields_of_spec,
    files_of_spec,
    fits_fields,
)
from frontend.pages.jobs.submit.spec_yaml import line_of
from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.spec import JobSpec
from scheduler.selectors.rows import Json
from scheduler.services.code.folders import folder_spec
from scheduler.services.jobs.spec_text import spec_from_text

# What a form holds before anything is written into it.
_BARE = {"gpus": "1", "preemptible": "on"}
BOXES = frozenset({"preemptible"})
_NOT_OF_THE_FOLDER = frozenset({"code", "archive", "upload", *("git", "git_commit", "git_subdir", "git_key")})


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSpec:
    """What the spec in a folder makes of a form.

    Attributes:
        texts: Of the fields; empty where it is not taken.
        files: Content by name.
        note: Said above the form.
        problem: Why it is not taken; empty where it is.
    """

    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    note: str = ""
    problem: str = ""


def typed_names(posted: QueryDict, texts: dict[str, str]) -> set[str]:
    """Return the fields that were written by hand: as scripts say it, else those that are neither empty nor bare."""
    if "typed" in posted:
        # A box that is not ticked sends no text, and was set by hand all the same.
        typed = str(posted["typed"]).split(",")
        return {name for name in typed if name in BOXES or texts.get(name, "").strip()}
    return {name for name, text in texts.items() if (text.strip() or name in BOXES) and text.strip() != _BARE.get(name)}


def spec_in_folder(
    user: User, manifest: str, texts: dict[str, str], *, typed: Collection[str], label_of: Callable[[str], str]
) -> FolderSpec | None:
    """Return what the spec in a folder makes of the fields of a form; None for a folder without one.

    Args:
        texts: What stands in the fields.
        typed: Fields that keep what stands in them.
        label_of: Return the label of a field.
    """
    found = folder_spec(user, manifest)
    if found is None:
        return None
    name, text = found
    try:
        data = spec_from_text(text)
    except SpecInvalid as invalid:
        return FolderSpec(problem=f"{name} of the folder cannot be read. {invalid.errors[0].detail}")
    if not isinstance(data, dict):
        return FolderSpec(problem=f"{name} of the folder is no mapping of keys to values.")
    if problem := _problem(data, text):
        return FolderSpec(problem=f"{name} of the folder does not fill the form. {problem}")
    filled = fields_of_spec(data) | {field_name: texts.get(field_name, "") for field_name in _NOT_OF_THE_FOLDER}
    kept = [one for one in typed if one not in _NOT_OF_THE_FOLDER and texts[one] != filled.get(one)]
    filled |= {one: texts[one] for one in kept}
    filled["queue"] = filled["queue"] or texts.get("queue", "")
    listed = ", ".join(label_of(one) for one in sorted(kept, key=[*POINTERS.values()].index))
    note = f"Filled from {name} of the folder, as clusterweb submit does."
    note += f" Kept as you wrote it: {listed}." if kept else ""
    return FolderSpec(texts=filled, files=files_of_spec(data), note=f"{note} Nothing is submitted yet.")


def _problem(data: Json, text: str) -> str:
    """Return why a spec cannot fill the form; empty where it can. What it lacks is no reason."""
    code = data.get("code")
    named = code.get("dir") if isinstance(code, dict) else None
    if named is not None and posixpath.normpath(str(named)) != ".":
        return f"It sends {str(named)[:80]} alone, by its code: choose that folder, or run clusterweb submit . here."
    _, errors = JobSpec.read({"apiVersion": "v1", "name": "x", "queue": "x", "command": ["x"], **data, "code": None})
    if errors:
        line = line_of(text, errors[0].pointer)
        return f"Line {line}: {errors[0].detail}" if line else errors[0].detail
    if not fits_fields(data):
        return "It has a value of several lines, which no field holds. Run clusterweb submit . in the folder."
    return ""
