"""What an entry of the audit list says was done: a verb and what it was done to."""

from scheduler.selectors.accounts.audit import KINDS

# How an action is told of each kind; ``of`` is the kind in words, such as "the settings".
DONE = {
    "add": "added {of}",
    "cancel": "cancelled {of}",
    "change": "changed {of}",
    "choose": "chose {of}",
    "confirmed": "confirmed {of}",
    "create": "made {of}",
    "delete": "deleted {of}",
    "end": "ended {of}",
    "remove": "removed {of}",
    "restore": "restored {of}",
    "revoke": "revoked {of}",
    "save": "saved {of}",
    "sent": "sent {of}",
    "upload": "uploaded {of}",
}
# Where the action needs words of its own.
SAID = {
    ("directory_removal", "discard"): "deleted the files of a job",
    ("files_removal", "discard"): "deleted files of a job",
    ("directory_kept", "keep"): "kept the files of a job longer",
    ("job_changed", "change"): "changed what a job asks for",
    ("job_changed", "reprioritise"): "changed the priority of a job",
    ("job_state", "cancelled"): "cancelled a job",
    ("job_state", "submit"): "submitted a job",
    ("job_wanted", "cancel"): "asked to cancel a job",
    ("job_wanted", "resume"): "asked to resume a job",
    ("job_wanted", "suspend"): "asked to suspend a job",
    ("membership", "by_group"): "got a role by a group of the sign-in",
    ("membership", "remove"): "took a role away",
    ("membership", "set"): "gave a role",
    ("profile", "measure_again"): "had a profile measured again",
    ("quota_answer", "grant"): "granted a request for quota",
    ("quota_answer", "refuse"): "refused a request for quota",
    ("quota_request", "ask"): "asked for quota",
    ("quota_request", "change"): "changed a request for quota",
    ("quota_withdrawal", "withdraw"): "withdrew a request for quota",
    ("secret", "fetch"): "used a secret",
    ("secret", "set"): "stored a secret",
    ("secret", "use"): "used a secret",
    ("server_mix", "change"): "changed whether queues mix on a server",
    ("server_removal", "remove"): "removed a server",
    ("server_state", "drain"): "drained a server",
    ("server_state", "register"): "added a server",
    ("server_state", "undrain"): "undrained a server",
    ("user", "by_group"): "became an admin, or none, by a group of the sign-in",
    ("user", "password"): "changed a password",
    ("user_limits", "change"): "changed limits of users",
    ("webhook", "new_secret"): "gave a webhook a new secret",
    ("webhook", "test"): "tested a webhook",
}


def done_words(kind: str, did: str) -> str:
    """Return ``changed the settings``; what has no verb is told as the action and what it was about."""
    if (kind, did) in SAID:
        return SAID[kind, did]
    of = "a job" if kind in ("job_state", "job_wanted") else KINDS.get(kind, kind.replace("_", " "))
    if kind == "sign_in":
        return f"signed in by {did.replace('_', ' ')}" if did else "signed in"
    if did in DONE:
        return DONE[did].format(of=of)
    return f"{did.replace('_', ' ')}: {of}" if did else of
