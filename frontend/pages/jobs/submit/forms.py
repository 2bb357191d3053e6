"""The submit form: fields with their labels and help. What is right is decided by the spec's parser and the service."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from frontend.components.devices import DeviceWord
from frontend.pages.jobs.submit.spec_fields import GIT, POINTERS, field_of, unix_lines
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.launch import LaunchPer
from scheduler.core.spec.limits import DEFAULT_GRACE_S
from scheduler.core.spec.units import format_duration
from scheduler.models import Queue

# Fields that most jobs leave alone.
FOLDED = (
    "min_gpus",
    "max_gpus",
    "max_servers",
    "total_steps",
    "max_duration",
    "warn_before",
    "stall",
    "early_stop",
    "grace",
    "signal",
    "priority",
    "retry",
    "profile",
    "array",
    "depends_on",
    "env",
    "labels",
)
LAUNCHES = (
    ("", "Automatic"),
    (LaunchPer.JOB.value, "Once, on one server"),
    (LaunchPer.SERVER.value, "Once on each server"),
    (LaunchPer.GPU.value, "Once for every GPU"),
)
# Labels that are no nouns: a sentence that begins with one has it in quotes.
NO_NOUNS = frozenset({"git_subdir", "min_gpus", "max_gpus", "launch", "warn_before", "depends_on"})
UPLOADS = frozenset({"upload", "archive"})
_KEY = re.compile(r"(?<![\w'\"./-])[a-z]+_[a-z]+\b(?!['\"./-])")
MOST_FILES = 80  # rows that are read; the spec allows fewer and says so


@dataclass(slots=True, kw_only=True)
class FileRow:
    """One file of the form.

    Attributes:
        index: Place in the names of its inputs.
        kept: Content as JSON for a file with other line ends than a text area can hold; the text is then read-only.
        errors: Sentences about this file.
    """

    index: int
    name: str
    text: str
    kept: str = ""
    errors: list[str] = field(default_factory=list)


class _Files(forms.ClearableFileInput):
    """A file input that takes several files."""

    allow_multiple_selected = True


def _line(label: str, help_text: str = "", **attrs: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", **attrs})
    return forms.CharField(label=label, help_text=help_text, required=False, strip=False, widget=widget)


def _area(label: str, help_text: str, rows: int, **attrs: str) -> forms.CharField:
    shape = {"rows": str(rows), "class": "mono", "spellcheck": "false", "autocomplete": "off", **attrs}
    return forms.CharField(
        label=label, help_text=help_text, required=False, strip=False, widget=forms.Textarea(attrs=shape)
    )


class SpecForm(forms.Form):
    """The fields of a spec. Every field is optional here; ``add_spec_errors`` brings what the parser found."""

    name = _line("Name", "Letters, digits, dots, dashes and underscores.", maxlength="200")
    queue = forms.CharField(label="Queue", required=False, widget=forms.Select())
    command = _area("Command", "Program and arguments. No shell: quotes group words, nothing is expanded.", 3)
    code = forms.CharField(label="Folder", required=False, widget=forms.HiddenInput())
    archive = forms.Field(
        label="Folder as a zip or tar",
        required=False,
        help_text="It is unpacked on the server; the job starts in it.",
        widget=forms.FileInput(attrs={"accept": ".zip,.tar,.tgz,.gz,.bz2,.xz"}),
    )
    git = _line(
        "Repository", "https, of a host that your admin allows.", placeholder="https://github.com/team/vision.git"
    )
    git_commit = _line("Commit", "All 40 digits: git rev-parse HEAD.", maxlength="64")
    git_subdir = _line("Folder in it", "Empty: all of it.", placeholder="src/train")
    git_key = _line("Key", "Name of a secret with a token. Empty: the repository is public.", placeholder="none")
    upload = forms.Field(
        label="Upload files", required=False, help_text="UTF-8 text, up to 1 MiB in all.", widget=_Files()
    )
    python = _line(
        "Python packages",
        "requirements.txt or uv.lock of the folder or files, or a virtual environment on the servers: /opt/venv.",
        placeholder="those of the server",
    )
    gpus = _line("GPUs", "", inputmode="numeric")
    cpus = _line("CPU cores", "Empty: as many as the job can use.", inputmode="decimal", placeholder="auto")
    memory = _line("Memory", "Such as 4GiB. Empty: as much as the job can use.", placeholder="auto")
    disk = _line("Disk", "Such as 2GiB.", placeholder="2GiB")
    min_gpus = _line(
        "At least", "It may begin on so many, and give others back.", inputmode="numeric", placeholder="as asked"
    )
    max_gpus = _line(
        "At most", "It may grow to so many while they are free.", inputmode="numeric", placeholder="as asked"
    )
    max_servers = _line("Servers", "Its GPUs may be on so many.", inputmode="numeric", placeholder="1")
    launch = forms.CharField(
        label="Start its command",
        required=False,
        help_text="torchrun and the like: once on each server.",
        widget=forms.Select(),
    )
    total_steps = _line("Steps in all", "For progress and the time it ends.", inputmode="numeric")
    env = _area("Environment", "One variable a line, as NAME=value, or NAME={secret: wandb}.", 3, placeholder="SEED=1")
    priority = _line(
        "Priority", "0 to 100, larger first under the policy priority.", inputmode="numeric", placeholder="50"
    )
    preemptible = forms.BooleanField(label="May be preempted", required=False)
    max_duration = _line("Longest run", "Such as 48h. Empty: no limit.", placeholder="no limit")
    grace = _line(
        "Time to checkpoint", "When asked to stop, such as 30s.", placeholder=format_duration(DEFAULT_GRACE_S)
    )
    warn_before = _line("Warned before it", "Asked to end so long before, such as 120s.", placeholder="not")
    signal = _line("Signal", "When asked to stop: TERM, INT, HUP, USR1 or USR2.", placeholder="TERM")
    retry = _line("Retries", "After failures of its own.", inputmode="numeric", placeholder="4")
    stall = _line("Longest silence", "Ended when no progress follows for so long, such as 10m.", placeholder="no limit")
    early_stop = forms.BooleanField(label="Complete when the loss stops falling", required=False)
    profile = _line("Profile", "Name of a measured profile, such as resnet18.")
    array = _line(
        "Array", "Many jobs of this form: 0-99, and %10 for ten at once. CLUSTERWEB_ARRAY_INDEX tells each its own."
    )
    depends_on = _line("Starts after", "A number or id, such as J-12: completed, A-100: ended. Or failed.")
    labels = _area("Labels", "One label a line, as NAME=value.", 2, placeholder="model=resnet")

    def __init__(self, *args: object, queues: Iterable[Queue], device: DeviceWord, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # Django's own arguments, passed on
        choices = [(queue.name, queue.name) for queue in queues]
        select = self.fields["queue"].widget
        assert isinstance(select, forms.Select)
        select.choices = [("", "Choose a queue"), *choices] if len(choices) != 1 else choices
        launch = self.fields["launch"].widget
        assert isinstance(launch, forms.Select)
        launch.choices = [(value, device.said(label)) for value, label in LAUNCHES]

    def opens_more(self) -> bool:
        """Return whether a field that is folded away holds something or is wrong."""
        # Every stored spec says how it starts; that it starts once is nothing to look at.
        filled = any(self[name].value() for name in FOLDED) or self["launch"].value() not in (None, "", LaunchPer.JOB)
        folded = (*FOLDED, "launch", "preemptible")
        return filled or not self["preemptible"].value() or any(name in self.errors for name in folded)

    def opens_git(self) -> bool:
        """Return whether a field of the repository holds something or is wrong."""
        return any(self[name].value() or name in self.errors for name in GIT.values())

    def texts(self) -> dict[str, str]:
        """Return what was typed, by field name."""
        values = {name: self.data.get(name, "") for name in self.fields if name not in UPLOADS}
        return {name: unix_lines(str(value)) for name, value in values.items()}

    def add_spec_errors(self, errors: Iterable[FieldError], rows: list[FileRow]) -> None:
        """Put each error at its field or file; what has no field stands above the form."""
        by_name = {f"/files/{row.name}": row for row in rows if row.name}
        for error in errors:
            row = by_name.get(error.pointer)
            if row is not None:
                row.errors.append(error.detail)
                self.add_error(None, error.detail)
                continue
            name = field_of(error.pointer)
            detail = _of_line(error)
            self.add_error(name, detail if name is None else self._of_field(detail, error.pointer, name))
            if name is not None:
                self[name].help_text = ""  # the error stands in its place

    def _of_field(self, detail: str, pointer: str, name: str) -> str:
        """Return the sentence with labels of fields in place of keys of the spec; its own is the subject."""
        label = str(self[name].label)
        subject = f'"{label}"' if name in NO_NOUNS else label
        for key in (label, *_keys_of(pointer, name)):
            if detail.lower().startswith(f"{key.lower()} "):
                return f"{subject}{self._labelled(detail[len(key) :])}"
        return self._labelled(detail)

    def _labelled(self, text: str) -> str:
        return _KEY.sub(lambda key: f'"{self[key[0]].label}"' if key[0] in self.fields else key[0], text)


def _keys_of(pointer: str, name: str) -> list[str]:
    """Return what a sentence about a place in a spec may call it, the longest first."""
    above = [place for place in POINTERS if POINTERS[place] == name and f"{pointer}/".startswith(f"{place}/")]
    places = [pointer, *above]
    return [key for place in places for key in (place.strip("/").replace("/", " "), place.rpartition("/")[2]) if key]


def _of_line(error: FieldError) -> str:
    """Return the sentence about a field; of the command, which is a list in a spec, as it is about a line."""
    if error.pointer == "/command" and error.code == "required":
        return "command is required: a program and its arguments, such as python train.py."
    if error.pointer == "/command/0" and error.code == "characters":
        return "The whole line is in quotes, which makes one word of it. Write it without them."
    return error.detail


class YamlForm(forms.Form):
    """The spec as one text."""

    spec = _area("Spec", "YAML or JSON, the same that the REST API takes.", 24)


def file_rows(
    data: QueryDict, uploads: "MultiValueDict[str, UploadedFile[bytes]]"
) -> tuple[list[FileRow], list[FieldError]]:
    """Return the files of a posted form, typed or uploaded, and what of the uploads is no text."""
    rows: list[FileRow] = []
    for index in range(MOST_FILES):
        name = data.get(f"file-{index}-name", "").strip()
        kept = data.get(f"file-{index}-kept", "")
        text = _kept_text(kept) if kept else unix_lines(data.get(f"file-{index}-text", ""))
        if name or text:
            rows.append(_row(rows, name, text))
    errors: list[FieldError] = []
    for upload in uploads.getlist("upload"):
        name = upload.name or ""
        try:
            rows.append(_row(rows, name, upload.read().decode("utf-8")))
        except UnicodeDecodeError:
            detail = f"{name} is not UTF-8 text. Upload scripts and small text files only."
            errors.append(FieldError(pointer="/files", code="encoding", detail=detail))
    return rows, errors


def rows_of_files(files: Mapping[str, str]) -> list[FileRow]:
    """Return the rows for the files of a spec."""
    rows: list[FileRow] = []
    for name, text in files.items():
        rows.append(_row(rows, name, text))
    return rows


def files_of_rows(rows: Iterable[FileRow]) -> tuple[dict[str, str], list[FieldError]]:
    """Return content by name, and what of the names is missing or there twice."""
    files: dict[str, str] = {}
    errors: list[FieldError] = []
    for row in rows:
        if not row.name:
            detail = "A file has no name. Name it, such as train.py, or empty its text."
            errors.append(FieldError(pointer="/files", code="required", detail=detail))
        elif row.name in files:
            detail = f"{row.name} is there twice."
            errors.append(FieldError(pointer=f"/files/{row.name}", code="repeated", detail=detail))
        else:
            files[row.name] = row.text
    return files, errors


def _row(rows: list[FileRow], name: str, text: str) -> FileRow:
    return FileRow(index=len(rows), name=name, text=text, kept=json.dumps(text) if "\r" in text else "")


def _kept_text(kept: str) -> str:
    try:
        text = json.loads(kept)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""
