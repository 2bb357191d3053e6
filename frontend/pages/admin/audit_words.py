"""What an entry of the audit list says: one sentence that begins with the user, its names as links.

Each kind of action has words; what an older or newer release recorded is told as the code that it kept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Formatter

from frontend.components.formats import counted, data_size, day
from frontend.components.states import look
from scheduler.selectors.accounts.audit import KINDS
from scheduler.selectors.accounts.rows import AuditRow

# By kind and action. ``{job}``, ``{queue}``, ``{server}`` and ``{user}`` are links.
SENTENCES: Mapping[tuple[str, str], str] = {
    ("budget", "change"): "changed the budget of {queue} from {month} on",
    ("code", "sent"): "sent a folder of {files}, {size}",
    ("directory_kept", "keep"): "keeps the files of {job} until {until}",
    ("directory_kept", "keep_no_longer"): "keeps the files of {job} only as long as its queue does",
    ("directory_removal", "discard"): "deleted the files of {job}",
    ("experiment", "cancel"): "cancelled the experiment {name} of {queue}",
    ("files_removal", "discard"): "deleted files of {job}",
    ("idle_rule", "change"): "changed what becomes of idle jobs of {queue}",
    ("isolation", "change"): "changed on which servers jobs of {queue} start",
    ("job_changed", "change"): "changed what {job} asks for",
    ("job_changed", "reprioritise"): "changed the priority of {job}",
    ("job_state", "cancel"): "cancelled {job}",
    ("job_state", "cancelled"): "cancelled {job}",
    ("job_state", "restore"): "took the cancel of {job} back",
    ("job_state", "resume"): "resumed {job}",
    ("job_state", "submit"): "submitted {job}",
    ("job_state", "suspend"): "suspended {job}",
    ("job_wanted", "cancel"): "asked to cancel {job}",
    ("job_wanted", "restore"): "took the cancel of {job} back",
    ("job_wanted", "resume"): "asked to resume {job}",
    ("job_wanted", "suspend"): "asked to suspend {job}",
    ("kept_files", "change"): "changed how long {queue} keeps the files of ended jobs",
    ("mail_choice", "change"): "chose which notices come by mail",
    ("membership", "by_group"): "signed in with a group that changed the role of {user} in {queue}",
    ("membership", "remove"): "took the role of {user} in {queue} away",
    ("membership", "set"): "made {user} {role} of {queue}",
    ("prices", "change"): "changed the prices of GPU-hours",
    ("profile", "measure_again"): "had the profile {profile} measured again",
    ("queue", "create"): "made the queue {queue}",
    ("quota", "change"): "changed the quota of {queue}",
    ("quota_answer", "grant"): "granted {user}'s request for quota of {queue}",
    ("quota_answer", "refuse"): "refused {user}'s request for quota of {queue}",
    ("quota_request", "ask"): "asked for quota for {queue}",
    ("quota_request", "change"): "changed a request for quota of {queue}",
    ("quota_withdrawal", "withdraw"): "withdrew a request for quota of {queue}",
    ("secret", "delete"): "deleted the secret {name} of {whose}",
    ("secret", "fetch"): "used the secret {name} of {whose} to fetch code from {host}",
    ("secret", "replace"): "replaced the secret {name} of {whose}",
    ("secret", "set"): "stored the secret {name} of {whose}",
    ("secret", "use"): "used the secret {name} of {whose} for a start of {used_by}",
    ("server_change", "change"): "changed the name or labels of {server}",
    ("server_mix", "change"): "changed whether jobs of several queues share {server}",
    ("server_removal", "remove"): "removed the server {server}",
    ("server_size", "confirmed"): "confirmed the size of {server}",
    ("server_state", "drain"): "drained {server}",
    ("server_state", "register"): "added the server {server}",
    ("server_state", "undrain"): "undrained {server}",
    ("settings", "change"): "changed the settings",
    ("shadow", "choose"): "let {policy} plan as a shadow",
    ("shadow", "end"): "ended the shadow policy",
    ("sign_in", "oidc"): "signed in through the identity provider",
    ("sign_in", "password"): "signed in by password",
    ("template", "create"): "made the template {name} of {queue}",
    ("template", "delete"): "deleted the template {name} of {queue}",
    ("token", "create"): "created the token {name}",
    ("token", "revoke"): "revoked the token {name} of {user}",
    ("trace_file", "delete"): "deleted the trace {name} ({size})",
    ("trace_file", "upload"): "uploaded the trace {name} ({size})",
    ("user", "activate"): "let {user} sign in again",
    ("user", "by_group"): "signed in with a group that changed whether {user} is an admin",
    ("user", "change"): "changed the address of {user}",
    ("user", "create"): "added the user {user}",
    ("user", "deactivate"): "kept {user} from signing in",
    ("user", "password"): "changed the password of {user}",
    ("user_limits", "change"): "changed what each user of {queue} may hold and queue",
    ("wall", "create"): "made the wall link {name}",
    ("wall", "revoke"): "revoked the wall link {name}",
    ("webhook", "create"): "made the webhook {name}",
    ("webhook", "new_secret"): "gave the webhook {name} a new secret",
    ("webhook", "revoke"): "revoked the webhook {name}",
    ("webhook", "test"): "tested the webhook {name}",
    ("whatif", "cancel"): "stopped the what-if {name}",
    ("whatif", "create"): "asked the what-if {name}",
    ("whatif", "delete"): "deleted the what-if {name}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a sentence; ``href`` is empty where it is no link."""

    text: str
    href: str = ""


def sentence(row: AuditRow) -> list[Part]:
    """Return what follows the user's name in the sentence of an entry."""
    links = dict(_links(row))
    parts = []
    for text, field, _, _ in Formatter().parse(_template(row)):
        if text:
            parts.append(Part(text=text))
        if field:
            parts.append(links.get(field) or Part(text=_fact(row, field)))
    return parts


def _template(row: AuditRow) -> str:
    kind, did, data = row["kind"], row["did"], row["data"]
    after = row["after"] if isinstance(row["after"], dict) else {}
    if kind == "settings" and "paused" in after and len(after) == 1:
        return "paused scheduling" if after["paused"] else "let scheduling go on"
    if kind == "settings" and data.get("scenario_name"):
        return "changed the settings after the what-if {scenario_name}"
    if kind == "settings" and data.get("restored"):
        return "restored earlier settings"
    if kind == "webhook" and row["queue"]:
        return SENTENCES.get((kind, did), "changed the webhook {name}") + " of {queue}"
    if kind == "server_removal" and row["server"] and data.get("name") not in (None, "", row["server"]):
        return "removed the server {name} (now {server})"
    if (kind, did) in SENTENCES:
        return SENTENCES[kind, did]
    if kind == "job_state":
        return f"made {{job}} {look(str(after.get('state', ''))).word.lower()}"
    about = KINDS.get(kind, kind.replace("_", " "))
    # An action of another release: its code, which holds no braces.
    code = "".join(letter for letter in did.replace("_", " ") if letter not in "{}")
    return f"acted on {about}" + (f" (recorded as “{code}”)" if code else "")


def _links(row: AuditRow) -> Iterator[tuple[str, Part]]:
    if row["job"]:
        name = f"{row['job_name']} ({row['job']})" if row["job_name"] else row["job"]
        yield "job", Part(text=name, href=f"/jobs/{row['job']}")
    if row["queue"]:
        yield "queue", Part(text=row["queue"], href=f"/queues/{row['queue']}")
    if row["server"]:
        yield "server", Part(text=row["server"], href=f"/cluster/{row['server']}")
    if user := row["data"].get("user"):
        yield "user", Part(text=str(user), href=f"/admin/users/{user}")
    if used_by := row["data"].get("used_by"):
        yield "used_by", Part(text=str(used_by), href=f"/jobs/{used_by}")


GONE = {"job": "a job", "queue": "a queue that is gone", "user": "a user", "used_by": "a job"}


def _fact(row: AuditRow, field: str) -> str:
    """Return a field of a sentence that is no link."""
    data = row["data"]
    after = row["after"] if isinstance(row["after"], dict) else {}
    if field == "size":
        return data_size(data.get("bytes"))
    if field == "files":
        return counted(int(data.get("files") or 0), "file")
    if field == "until":
        return day(str(data["day"])) if data.get("day") else "a day"
    if field == "whose":
        return row["queue"] or "their own"
    if field == "role":
        return str(row["after"] or "a member")
    if field == "policy":
        return str(after.get("policy", "a policy"))
    if field == "profile":
        return str(data.get("profile", ""))[:12]
    if field == "name":
        return str(data.get("name") or data.get("template") or "")
    if field == "server":
        return str(data.get("name") or "that is gone")
    return str(data.get(field) or GONE.get(field, ""))
