"""What stands in the form for a new job: its fields or its YAML, and what is wrong with it."""

import shlex
from dataclasses import dataclass, field

from django.http import QueryDict

from frontend.components.devices import DeviceWord
from frontend.pages.jobs.submit.forms import FileRow, SpecForm, YamlForm
from frontend.pages.jobs.submit.spec_yaml import line_of
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.command_hints import command_warnings, in_shell
from scheduler.core.spec.foreign.translation import Unmapped
from scheduler.models import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChoices:
    """What the form offers: queues that the reader may submit to, and what a device is called here."""

    queues: list[Queue]
    device: DeviceWord

    def form(self, *, data: QueryDict | None = None, initial: dict[str, str] | None = None) -> SpecForm:
        """Return the form, with what was posted or with first values."""
        return SpecForm(data, initial=initial, queues=self.queues, device=self.device)


@dataclass(slots=True, kw_only=True)
class FormState:
    """What stands in the form: as fields or as YAML, with what is wrong with it.

    Attributes:
        data: The spec asked for; None where the text of it cannot be read.
        note: One sentence above the form.
        unmapped: What of a pasted script or object is not in the form.
        foreign_error: Why what was pasted could not be read.
        template_error: Why it could not be kept as a template.
        from_folder: ``filled`` or ``wrong`` where the folder that was sent has a spec; else empty.
    """

    mode: str
    form: SpecForm | YamlForm
    rows: list[FileRow] = field(default_factory=list)
    data: object = None
    errors: list[FieldError] = field(default_factory=list)
    note: str = ""
    unmapped: list[Unmapped] = field(default_factory=list)
    foreign_error: str = ""
    template_error: str = ""
    from_folder: str = ""

    @property
    def is_wrong(self) -> bool:
        """Return whether anything of what was sent could not be taken."""
        return bool(self.form.errors or self.foreign_error or self.template_error)

    def hints(self) -> dict[str, object]:
        """Return what of the command is probably not meant, and for a field the line that would mean it."""
        words = self.data.get("command") if isinstance(self.data, dict) else None
        command = [str(word) for word in words] if isinstance(words, list) else []
        hints = command_warnings(command)
        line = shlex.join(in_shell(command)) if hints and isinstance(self.form, SpecForm) else ""
        return {"hints": hints, "hint_line": line}

    def show_errors(self, errors: list[FieldError]) -> None:
        """Put each error at its field; in a text, name its line, in the order of the lines."""
        if isinstance(self.form, SpecForm):
            self.form.add_spec_errors(errors, self.rows)
            return
        text = self.form.data.get("spec", "")
        placed = [(line_of(text, error.pointer) or 0, error.detail) for error in errors]
        for line, detail in sorted(placed, key=lambda one: one[0]):
            self.form.add_error("spec", f"Line {line}: {detail}" if line else detail)
