"""The folder of a new job on the form: taken as a zip or tar without scripts, else sent by ``folder.js`` before."""

from dataclasses import dataclass

from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest, QueryDict

from scheduler.core.model.errors import Conflict, FieldError, NoRoom, NotAllowed, SpecInvalid
from scheduler.core.spec.code import PREFIX
from scheduler.ports import live_ports
from scheduler.selectors.visibility import access_of
from scheduler.services.code.archives import code_from_archive
from scheduler.services.code.folders import code_found, code_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderShown:
    """What the form shows of the folder.

    Attributes:
        manifest: As the spec names it; empty for no folder yet.
        files, num_bytes: Of the folder; 0 where it is not on the server.
        most_files, most_bytes: What a folder may have.
    """

    manifest: str = ""
    files: int = 0
    num_bytes: int = 0
    most_files: int
    most_bytes: int


def posted_with_folder(request: HttpRequest) -> tuple[QueryDict, list[FieldError]]:
    """Return what was posted, with the manifest of an uploaded archive in ``code``, and why it was refused."""
    fields = request.POST.copy()
    archive = request.FILES.get("archive")
    if archive is None:
        return fields, []
    try:
        found = code_from_archive(actor=request.user, content=archive, at=live_ports().clock.now())
    except SpecInvalid as invalid:
        details = [error.detail for error in invalid.errors]
    except (Conflict, NoRoom, NotAllowed) as refused:
        details = [str(refused)]
    else:
        fields["code"] = found["manifest"]
        return fields, []
    return fields, [FieldError(pointer="/code", code="archive", detail=detail) for detail in details]


def folder_shown(request: HttpRequest, form: forms.Form) -> FolderShown:
    """Return what the form shows; of a folder that the reader may not use no more than what was typed."""
    assert isinstance(request.user, User)
    limits = code_limits()
    manifest = str(form["code"].value() or "") if "code" in form.fields else ""
    found = code_found(request.user, access_of(request.user), manifest.removeprefix(PREFIX)) if manifest else None
    return FolderShown(
        manifest=manifest,
        files=found.num_files if found is not None else 0,
        num_bytes=found.num_bytes if found is not None else 0,
        most_files=limits.files,
        most_bytes=limits.num_bytes,
    )
