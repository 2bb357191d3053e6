"""The submit form: the same spec as the REST API takes, as fields or as YAML. Works without scripts.

One POST does one thing, by the button: submit, preview (nothing is stored), turn fields into YAML and back, fill the
form from what was written for another scheduler, or keep it as a template.
"""

import hashlib
import json
import re
import secrets
from dataclasses import replace

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.components.devices import device_word
from frontend.components.formats import counted
from frontend.components.viewer import QUEUE_COOKIE
from frontend.pages.jobs.subject import found_job
from frontend.pages.jobs.submit.folder import folder_shown, posted_with_folder
from frontend.pages.jobs.submit.folder_spec import spec_in_folder, typed_names
from frontend.pages.jobs.submit.form_state import FormChoices, FormState
from frontend.pages.jobs.submit.forms import SpecForm, YamlForm, file_rows, files_of_rows, rows_of_files
from frontend.pages.jobs.submit.preview import Preview, curl_of_spec, preview_of
from frontend.pages.jobs.submit.spec_fields import (
    fields_of_spec,
    files_of_spec,
    fits_fields,
    spec_of_fields,
    unix_lines,
    without_hidden,
)
from frontend.pages.jobs.submit.spec_yaml import EXAMPLE, spec_as_yaml
from frontend.pages.jobs.submit.workloads import TEMPLATES
from scheduler.core.model.errors import FieldError, NotAllowed, NotFound, SpecInvalid
from scheduler.core.spec.command_hints import command_warnings
from scheduler.core.spec.spec import JobSpec
from scheduler.models import SpecTemplate
from scheduler.ports import live_ports
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.jobs.listing import spec_shown
from scheduler.selectors.queues.saved import template_visible, templates_offered
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import queues_submittable
from scheduler.services.code.git import git_fetch
from scheduler.services.idempotency import idempotent
from scheduler.services.jobs.check import job_check
from scheduler.services.jobs.spec_import import spec_import
from scheduler.services.jobs.spec_text import spec_from_text
from scheduler.services.jobs.submit import job_submit
from scheduler.services.queues.saved import template_create

ROUTE = "page /jobs/new"
# Forms whose jobs are stored: the browser forgets the drafts that it keeps of them (draft.js).
STORED_COOKIE = "job-forms-stored"
MOST_STORED = 8
NONCE = re.compile(r"[0-9a-f]{32}")
ORIGINS = {
    "sbatch": "batch script",
    "kubernetes": "Kubernetes Job",
    "skypilot": "SkyPilot task",
    "dstack": "dstack task",
}


@never_cache
@require_http_methods(["GET", "POST"])
def job_new(request: HttpRequest) -> HttpResponse:
    """Show the form, check what is in it, or submit it."""
    choices = FormChoices(
        queues=list(queues_submittable(request.user).order_by("name")),
        device=device_word(device_kinds(request.user)),
    )
    if request.method != "POST":
        return _page(request, choices, _first_draft(request, choices))
    draft = _posted_draft(request, choices)
    action = request.POST.get("action", "submit")
    if action == "yaml" and draft.mode == "form":
        return _page(request, choices, _as_yaml(draft))
    if action == "template":
        return _kept_as_template(request, choices, draft)
    if action == "import":
        return _page(request, choices, _imported(request, choices, draft))
    if action == "form" and draft.mode == "yaml":
        return _page(request, choices, _as_fields(request, choices, draft))
    if action == "live":
        return _live(request, draft)
    if action == "folder" or request.FILES.get("archive"):
        draft = _with_folder_spec(request, choices, draft)
        if action == "folder" or draft.from_folder:
            return _page(request, choices, draft)
    spec = _checked(request, draft)
    if spec is None:
        return _page(request, choices, draft)
    if action == "check":
        return _page(request, choices, draft, preview=preview_of(request, spec))
    return _submitted(request, spec)


def _first_draft(request: HttpRequest, choices: FormChoices) -> FormState:
    """Return the form filled from a template, from another job, or with a name to begin with."""
    spec: Json = {"resources": {"gpus": 1}}
    note = ""
    template = TEMPLATES.get(request.GET.get("template", ""))
    if template is not None:
        spec = template.spec()
    elif request.GET.get("from", "").isascii() and request.GET.get("from", "").isdigit():
        kept = found_template(request, int(request.GET["from"][:18]))
        spec = {"resources": {"gpus": 1}, **kept.spec, "queue": kept.queue.name}
        note = f"Filled from the template {kept.name} of {kept.queue.name}. Nothing is submitted yet."
    elif request.GET.get("clone"):
        source = found_job(request, request.GET["clone"])
        spec, hidden = without_hidden(spec_shown(request.user, source))
        note = f"Filled from {source.name} (J-{source.number}). Nothing is submitted yet."
        if hidden:
            note += f" Only its owner and leads see the values of {', '.join(hidden)}: they are left out."
    spec.setdefault("queue", _likely_queue(request, choices))
    if request.GET.get("mode") == "yaml":
        bare = template is None and not note
        text = EXAMPLE.format(queue=spec["queue"] or "my-queue") if bare else spec_as_yaml(spec)
        return FormState(mode="yaml", form=YamlForm(initial={"spec": text}), data=spec, note=note)
    draft = _fields_draft(request, choices, spec)
    draft.note = draft.note or note
    return draft


def _likely_queue(request: HttpRequest, choices: FormChoices) -> str:
    """Return the queue that the reader chose in the queue switcher, or the only one there is."""
    names = [queue.name for queue in choices.queues]
    chosen = request.COOKIES.get(QUEUE_COOKIE, "")
    return chosen if chosen in names else names[0] if len(names) == 1 else ""


def _fields_draft(request: HttpRequest, choices: FormChoices, spec: Json) -> FormState:
    if not fits_fields(spec):
        text = spec_as_yaml(spec)
        note = "This spec has a value that does not fit a field of the form, so it is shown as YAML."
        return FormState(mode="yaml", form=YamlForm(initial={"spec": text}), data=spec, note=note)
    form = choices.form(initial=fields_of_spec(spec))
    return FormState(mode="form", form=form, rows=rows_of_files(files_of_spec(spec)), data=spec)


def _posted_draft(request: HttpRequest, choices: FormChoices) -> FormState:
    if request.POST.get("mode") == "yaml":
        text = unix_lines(request.POST.get("spec", ""))
        draft = FormState(mode="yaml", form=YamlForm({"spec": text}))
        try:
            draft.data = spec_from_text(text)
        except SpecInvalid as invalid:
            draft.errors = invalid.errors
        return draft
    rows, errors = file_rows(request.POST, request.FILES)
    fields, refused = posted_with_folder(request)
    errors += refused
    form = choices.form(data=fields)
    files, more = files_of_rows(rows)
    spec, wrong = spec_of_fields(form.texts(), files)
    return FormState(mode="form", form=form, rows=rows, data=spec, errors=errors + more + wrong)


def _live(request: HttpRequest, draft: FormState) -> HttpResponse:
    """Return the card beside an unfinished form: where and when the job would start, or which values are wrong."""
    spec = _checked(request, draft, fetches=False)
    preview = None if spec is None else preview_of(request, spec)
    context = {"live": True, "preview": preview, "form": draft.form, "mode": draft.mode, **draft.hints()}
    return render(request, "jobs/_preview.html", context)


def _checked(request: HttpRequest, draft: FormState, *, fetches: bool = True) -> JobSpec | None:
    """Return the spec if it could be submitted now; otherwise every error stands at its field.

    Args:
        fetches: Whether a commit that it names is fetched.
    """
    errors = list(draft.errors)
    spec: JobSpec | None = None
    if draft.mode == "form" or not errors:
        try:
            if fetches:
                git_fetch(actor=request.user, specs=[("", draft.data)], at=live_ports().clock.now())
            spec = job_check(actor=request.user, data=draft.data)
        except SpecInvalid as invalid:
            seen = {error.pointer for error in errors}
            errors += [error for error in invalid.errors if error.pointer not in seen]
        except NotAllowed as refused:
            errors.append(FieldError(pointer="/queue", code="not_allowed", detail=str(refused)))
    if errors:
        draft.show_errors(errors)
        return None
    return spec


def _as_yaml(draft: FormState) -> FormState:
    text = spec_as_yaml(draft.data if isinstance(draft.data, dict) else {})
    if draft.errors:
        draft.show_errors(draft.errors)
        return draft
    return FormState(mode="yaml", form=YamlForm(initial={"spec": text}), data=draft.data)


def _as_fields(request: HttpRequest, choices: FormChoices, draft: FormState) -> FormState:
    """Return the fields for a YAML text; a text that the parser does not take as a spec stays as it is."""
    spec, errors = JobSpec.read(draft.data) if not draft.errors else (None, draft.errors)
    if spec is None or errors:
        draft.show_errors(errors)
        draft.note = "The text is not a spec yet. Mend it, then show it as a form."
        return draft
    return _fields_draft(request, choices, spec.to_json())


def _with_folder_spec(request: HttpRequest, choices: FormChoices, draft: FormState) -> FormState:
    """Return the form filled from the spec in the folder that was sent; as it is where the folder has none."""
    assert isinstance(request.user, User)
    form = draft.form
    code = draft.data.get("code") if isinstance(draft.data, dict) else None
    if not isinstance(form, SpecForm) or draft.errors or not isinstance(code, dict):
        return draft
    texts = form.texts()
    found = spec_in_folder(
        request.user,
        str(code.get("manifest", "")),
        texts,
        typed=typed_names(request.POST, texts),
        label_of=lambda name: str(form.fields[name].label),
    )
    if found is None:
        return draft
    if found.problem:
        draft.show_errors([FieldError(pointer="/code", code="folder_spec", detail=found.problem)])
        draft.from_folder = "wrong"
        return draft
    files = {row.name: row.text for row in draft.rows if row.name}
    spec, _ = spec_of_fields(found.texts, found.files | files)
    rows = rows_of_files(found.files | files)
    filled = choices.form(initial=found.texts)
    return FormState(mode="form", form=filled, rows=rows, data=spec, note=found.note, from_folder="filled")


def _kept_as_template(request: HttpRequest, choices: FormChoices, draft: FormState) -> HttpResponse:
    """Keep what stands in the form for the members of its queue; what is wrong stands at its field."""
    data = draft.data if isinstance(draft.data, dict) else {}
    name = request.POST.get("template_name", "")
    try:
        if draft.errors:
            raise SpecInvalid(draft.errors)
        at = live_ports().clock.now()
        kept = template_create(actor=request.user, queue=str(data.get("queue", "")), name=name, spec=data, at=at)
    except SpecInvalid as invalid:
        draft.template_error = " ".join(e.detail for e in invalid.errors if e.pointer == "/name")
        draft.show_errors([of_spec(error) for error in invalid.errors if error.pointer != "/name"])
        return _page(request, choices, draft)
    except (NotAllowed, NotFound):
        draft.show_errors([FieldError(pointer="/queue", code="required", detail="Choose whose template it is.")])
        return _page(request, choices, draft)
    messages.success(request, f"{kept.name} is a template of {kept.queue.name} now.")
    return HttpResponseRedirect(f"{resolve_url('job-new')}?from={kept.pk}")


def of_spec(error: FieldError) -> FieldError:
    """Return an error of a template as one of its spec."""
    return replace(error, pointer=error.pointer.removeprefix("/spec"))


def found_template(request: HttpRequest, template_id: int) -> SpecTemplate:
    """Return a template that the reader may see; 404 otherwise."""
    try:
        return template_visible(request.user, template_id)
    except NotFound as error:
        raise Http404(str(error)) from None


def _imported(request: HttpRequest, choices: FormChoices, draft: FormState) -> FormState:
    """Return the form filled from a pasted script or object; what stood in the form stays when it cannot be read."""
    text = unix_lines(request.POST.get("foreign", ""))
    try:
        found = spec_import(text, queue="")
    except SpecInvalid as invalid:
        draft.foreign_error = " ".join(error.detail for error in invalid.errors)
        return draft
    found.spec.setdefault("queue", _likely_queue(request, choices))
    filled = _fields_draft(request, choices, found.spec)
    filled.note = f"Filled from your {ORIGINS[found.kind]}. Nothing is submitted yet."
    filled.unmapped = found.unmapped
    return filled


def _submitted(request: HttpRequest, spec: JobSpec) -> HttpResponse:
    """Store the job, once however often the button was pressed, and go to its page."""
    assert isinstance(request.user, User)
    ports = live_ports()
    at = ports.clock.now()
    digest = hashlib.sha256(json.dumps(spec.to_json(), sort_keys=True).encode()).hexdigest()
    nonce = request.POST.get("once", "")[:64] or secrets.token_hex(16)

    def make() -> tuple[int, Json, str]:
        job = job_submit(actor=request.user, spec=spec, at=at, ids=ports.ids)
        if spec.array is not None:
            key = f"A-{job.number}"
            return 201, {"name": f"{spec.name}, {counted(spec.num_jobs, 'job')}", "key": key}, resolve_url("array", key)
        return 201, {"name": job.name, "key": f"J-{job.number}"}, resolve_url("job", f"J-{job.number}")

    # The key holds the content: another spec from the same page is another job.
    key = f"{nonce}-{digest}"
    answer = idempotent(user=request.user, route=ROUTE, key=key, body_hash=digest, at=at, make=make)
    words = "was submitted before" if answer.replayed else "is queued"
    messages.success(request, f"{answer.body['name']} ({answer.body['key']}) {words}.")
    for warning in command_warnings(spec.command):
        messages.warning(request, warning)
    response = HttpResponseRedirect(answer.location)
    if NONCE.fullmatch(nonce):
        stored = [*request.COOKIES.get(STORED_COOKIE, "").split("."), nonce][-MOST_STORED:]
        response.set_cookie(STORED_COOKIE, ".".join(stored), path=resolve_url("job-new"), samesite="Lax")
    return response


def _page(
    request: HttpRequest, choices: FormChoices, draft: FormState, *, preview: Preview | None = None
) -> HttpResponse:
    context = {
        "draft": draft,
        "form": draft.form,
        "mode": draft.mode,
        "more_open": isinstance(draft.form, SpecForm) and draft.form.opens_more(),
        "rows": draft.rows,
        "new_row": len(draft.rows),
        "folder": folder_shown(request, draft.form),
        "queues": choices.queues,
        "device": choices.device,
        "templates": TEMPLATES.values(),
        "kept": templates_offered(request.user),
        "kept_chosen": request.GET.get("from", ""),
        "template": request.GET.get("template", ""),
        "preview": preview,
        **draft.hints(),
        "foreign": request.POST.get("foreign", "") if draft.foreign_error else "",
        "curl": curl_of_spec(request, draft.data) if isinstance(draft.data, dict) and draft.data.get("command") else "",
        "once": request.POST.get("once", "")[:64] or secrets.token_hex(16),
    }
    return render(request, "jobs/new.html", context, status=422 if draft.is_wrong else 200)
