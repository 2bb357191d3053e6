"""A job sent as a form: a part ``spec`` (YAML or JSON, typed or a file), parts ``file`` for its directory, and a part
``code`` with the manifest of a folder that was sent, which takes the place of ``code: {dir: ...}`` in the spec."""

from collections.abc import Sequence

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.services.jobs.spec_text import spec_from_text

EXAMPLE = "curl -F spec=@job.yaml -F file=@train.py"


def _wrong(pointer: str, code: str, detail: str) -> FieldError:
    return FieldError(pointer=pointer, code=code, detail=detail)


def spec_of_form(form: QueryDict) -> object:
    """Return the spec of a form with its files laid in. Raises SpecInvalid."""
    unknown = sorted(set(form) - {"spec", "file", "code"})
    wrong = [_wrong(f"/{n}", "unknown", f"{n} is no part: send spec and file, as {EXAMPLE} does.") for n in unknown]
    manifests = form.getlist("code")
    if len(manifests) > 1:
        wrong.append(_wrong("/code", "repeated", "Send one part code: the manifest of one folder."))
    specs = form.getlist("spec")
    if len(specs) != 1:
        code = "repeated" if specs else "required"
        wrong.append(_wrong("/spec", code, f"Send one part spec, as {EXAMPLE} does."))
    if wrong:
        raise SpecInvalid(wrong)
    content = specs[0]
    data = spec_from_text(content.read() if isinstance(content, UploadedFile) else str(content))
    if manifests and isinstance(data, dict):
        data = {**data, "code": {"manifest": manifests[0]}}
    return _with_files(data, form.getlist("file"))


def _with_files(data: object, parts: Sequence[object]) -> object:
    given = data.get("files") or {} if isinstance(data, dict) else None
    if not parts or not isinstance(data, dict) or not isinstance(given, dict):
        return data  # what is no mapping is refused by the spec itself
    files: dict[object, object] = dict(given)
    wrong: list[FieldError] = []
    for part in parts:
        if not isinstance(part, UploadedFile):
            wrong.append(_wrong("/files", "invalid", "A part file must be a file, such as -F file=@train.py."))
            continue
        name = part.name or ""
        if name in files:
            wrong.append(_wrong(f"/files/{name}", "repeated", f"{name} is given twice."))
        try:
            files[name] = part.read().decode("utf-8")
        except UnicodeDecodeError:
            wrong.append(_wrong(f"/files/{name}", "invalid", f"{name} must be UTF-8 text."))
    if wrong:
        raise SpecInvalid(wrong)
    return {**data, "files": files}
