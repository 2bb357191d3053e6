"""Uploading and deleting trace files on the page of scenarios."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from frontend.components.errors import page
from frontend.components.formats import data_size
from frontend.components.viewer import now_utc
from scheduler.core.model.errors import Conflict, NotFound, SpecInvalid
from scheduler.selectors.visibility import may_ask_what_if
from scheduler.selectors.whatif import trace_files_visible
from scheduler.services.whatif.files import trace_file_create, trace_file_delete


@page
@require_POST
def traces(request: HttpRequest) -> HttpResponseBase:
    """Keep an uploaded trace, or delete the one named by ``delete``."""
    if not may_ask_what_if(request.user):
        raise NotFound("what-if")
    try:
        if key := request.POST.get("delete", ""):
            _delete(request, key)
        else:
            _keep(request)
    except SpecInvalid as error:
        messages.error(request, " ".join(entry.detail for entry in error.errors))
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("what-if")


def _keep(request: HttpRequest) -> None:
    upload = request.FILES.get("upload")
    if upload is None:
        messages.error(request, "Choose a file first.")
        return
    assert upload.file is not None  # what arrived by a form has one
    file = trace_file_create(actor=request.user, name=upload.name or "trace", content=upload.file, at=now_utc())
    messages.success(request, f"{file.name} is kept, {data_size(file.num_bytes)}. Ask about it in a new scenario.")


def _delete(request: HttpRequest, key: str) -> None:
    file = trace_files_visible(request.user).filter(pk=key).first() if len(key) == 26 else None
    if file is None:
        raise NotFound("trace")
    trace_file_delete(actor=request.user, file=file, at=now_utc())
    messages.success(request, f"{file.name} is deleted.")
