"""Translates jobs written for Slurm, Kubernetes, SkyPilot or dstack into specs. Nothing is stored."""

from dataclasses import dataclass
from typing import Any, Literal

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec.foreign.commands import from_dstack, from_skypilot, is_dstack, is_skypilot
from scheduler.core.spec.foreign.kubernetes import from_kubernetes
from scheduler.core.spec.foreign.sbatch import from_sbatch
from scheduler.core.spec.foreign.translation import Translation, Unmapped
from scheduler.core.spec.spec import JobSpec
from scheduler.services.jobs.spec_text import spec_from_text

MAX_CHARS = 200_000
EXAMPLES = "a batch script with lines that begin with #SBATCH, a Job of Kubernetes, or a task of SkyPilot or dstack"
ForeignFormat = Literal["sbatch", "kubernetes", "skypilot", "dstack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A translated job.

    Attributes:
        spec: Plain data for the form, ``POST /jobs`` or an editor.
        unmapped: Parts of the original that the spec lacks.
        problems: Errors of the spec, such as a missing queue.
    """

    kind: ForeignFormat
    spec: dict[str, Any]  # JSON
    unmapped: list[Unmapped]
    problems: list[FieldError]


def spec_import(text: str, *, queue: str) -> Imported:
    """Return the spec of a foreign job.

    Args:
        text: The script or the object, whole.
        queue: Queue to submit to; empty for the one that the object names, if any.

    Raises:
        SpecInvalid: It cannot be read, or is no job.
    """
    if not text.strip() or len(text) > MAX_CHARS:
        raise _refused("length", f"Paste {EXAMPLES}, of at most {MAX_CHARS:,} characters.")
    is_script = text.lstrip().startswith("#!") or any(line.strip().startswith("#SBATCH") for line in text.splitlines())
    kind, made = _from_script(text, queue) if is_script else _from_object(text, queue)
    if not made.spec.get("queue"):
        made.spec.pop("queue", None)
    _, problems = JobSpec.read(made.spec)
    return Imported(kind=kind, spec=made.spec, unmapped=made.unmapped, problems=problems)


def _from_script(text: str, queue: str) -> tuple[ForeignFormat, Translation]:
    return "sbatch", from_sbatch(text, queue=queue)


def _from_object(text: str, queue: str) -> tuple[ForeignFormat, Translation]:
    try:
        data = spec_from_text(text)
        if is_skypilot(data):
            return "skypilot", from_skypilot(data, queue=queue)
        if is_dstack(data):
            return "dstack", from_dstack(data, queue=queue)
        return "kubernetes", from_kubernetes(data, queue=queue)
    except SpecInvalid as invalid:
        raise _refused("syntax", f"It cannot be read: {invalid.errors[0].detail} Paste {EXAMPLES}.") from None
    except (ValueError, TypeError) as error:
        raise _refused("kind", f"{error} Paste {EXAMPLES}.") from None


def _refused(code: str, detail: str) -> SpecInvalid:
    return SpecInvalid([FieldError(pointer="/text", code=code, detail=detail)])
