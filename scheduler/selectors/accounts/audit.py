"""The audit list: what users did and the cluster accepted. For admins alone; nothing changes or deletes it."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler.core.model.errors import NotAllowed
from scheduler.models import Event
from scheduler.selectors.accounts.rows import AuditRow
from scheduler.selectors.events import event_row, events_joined
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import Actor, is_admin

# What people do, by kind of event; shown as the choices of the filter.
KINDS = {
    "job_state": "a job that was submitted or moved",
    "job_wanted": "a wish about a job",
    "job_changed": "what a job asks for",
    "quota": "a quota",
    "quota_request": "a request for quota",
    "quota_answer": "an answer to a request for quota",
    "quota_withdrawal": "a request for quota that was withdrawn",
    "prices": "the prices of GPU-hours",
    "budget": "a budget",
    "user_limits": "limits of users",
    "idle_rule": "what becomes of idle jobs",
    "isolation": "the demand on servers",
    "kept_files": "how long files are kept",
    "directory_kept": "how long a job's files are kept",
    "directory_removal": "the removal of a job's files",
    "files_removal": "the removal of files of a job",
    "queue": "a queue",
    "membership": "a member",
    "settings": "the settings",
    "shadow": "the shadow policy",
    "server_state": "a server",
    "server_change": "the name and labels of a server",
    "server_removal": "the removal of a server",
    "server_size": "the size of a server",
    "server_mix": "whether queues mix on a server",
    "template": "a template",
    "token": "a token",
    "secret": "a secret, or its use",
    "code": "a sent folder",
    "webhook": "a webhook",
    "user": "a user",
    "wall": "a link to the wall",
    "mail_choice": "a choice of mails",
    "profile": "a profile",
    "whatif": "a what-if scenario",
    "trace_file": "a trace file",
    "experiment": "an experiment",
    "sign_in": "a sign-in",
}
# What a removal took away, by kind: its event says what was there, and after it there is nothing.
REMOVED = {"directory_removal": ("size_bytes",), "files_removal": ("paths", "files", "size_bytes")}


def audit_list(
    user: Actor,
    *,
    who: str = "",
    kind: str = "",
    what: str = "",
    request_id: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    without: Collection[str] = (),
) -> QuerySet[Event]:
    """Return what people did, newest first; the caller slices it.

    Args:
        who: Name of a user; "operator" for commands on the machine itself.
        what: ``J-<number>``, or the name of a queue or a server.
        without: Kinds that are left out.

    Raises:
        NotAllowed: ``user`` is no admin.
    """
    if not is_admin(user):
        raise NotAllowed("Only an admin may read the audit list.")
    rows = events_joined(Event.objects.exclude(request_id="")).order_by("-id")
    exact = {"actor": who, "kind": kind, "request_id": request_id}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if without:
        rows = rows.exclude(kind__in=without)
    if since is not None:
        rows = rows.filter(at__gte=since)
    if until is not None:
        rows = rows.filter(at__lt=until)
    if what:
        digits = what.upper().removeprefix("J-")
        is_job = digits.isascii() and digits.isdigit() and len(digits) < 18
        rows = (
            rows.filter(job__number=int(digits)) if is_job else rows.filter(Q(queue__name=what) | Q(server__name=what))
        )
    return rows


def _is_change(value: object) -> bool:
    """Return whether this part of an event's data is one value before and after."""
    return isinstance(value, dict) and value.keys() == {"before", "after"}


def audit_row(event: Event) -> AuditRow:
    """Return one entry: who did what to which object, before, after, why, and in which request."""
    row = event_row(event)
    data: Json = event.data
    each = {name: value for name, value in row["data"].items() if _is_change(value)}
    # The reason of a drained server stands where the rounds put theirs.
    why = "detail" if row["kind"] == "server_state" else "reason"
    gone = {name: data[name] for name in REMOVED.get(event.kind, ()) if name in data}
    known = {"before", "after", why, *each, *gone}
    before, after = (
        data.get(side, {name: value[side] for name, value in each.items()} or ({"state": state} if state else more))
        for side, state, more in (("before", row["old_state"], gone or None), ("after", row["new_state"], None))
    )
    return {
        "id": row["id"],
        "at": row["at"],
        "who": row["actor"],
        "kind": row["kind"],
        "did": row["reason"],
        "job": f"J-{row['job_number']}" if row["job_number"] is not None else None,
        "job_name": row["job_name"],
        "queue": row["queue"],
        "server": row["server"],
        "before": before,
        "after": after,
        "why": str(data.get(why, "")),
        "data": {name: value for name, value in row["data"].items() if name not in known},
        "request_id": event.request_id,
    }
