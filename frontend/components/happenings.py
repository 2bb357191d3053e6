"""The feed: events as icon, colour and sentence with its subject in it. Takes rows of ``selectors.events.event_row``.

A sentence begins with its subject, or has ``SUBJECT`` where that stands: "admin added mia to " + SUBJECT + ".".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from frontend.components.devices import DeviceWord
from frontend.components.event_words import jobs, queues, servers, settings
from frontend.components.event_words.said import SUBJECT, Said, why_of
from frontend.components.event_words.trials import trial_words
from frontend.components.formats import duration, joined
from frontend.components.states import look
from frontend.components.times import as_time
from scheduler.core.model.lifecycle import RANK_ENDED, EndCause, JobState
from scheduler.core.model.plan import PreemptRule
from scheduler.selectors.rows import EventRow

CAUSES: dict[str, str] = {
    EndCause.EXIT_CODE: "its command ended with an error",
    EndCause.SIGNAL: "its command was killed",
    EndCause.OUT_OF_MEMORY: "it needed more memory than it was given",
    EndCause.OUT_OF_DISK: "its working directory grew too large",
    EndCause.COMMAND_NOT_FOUND: "its command could not be started",
    EndCause.SECRET_MISSING: "a secret that it names was not there",
    EndCause.DEPENDENCY: "what it waits for ended otherwise",
    EndCause.ENVIRONMENT: "its Python environment could not be made",
    EndCause.TIME_LIMIT: "it ran longer than it may",
    EndCause.STALLED: "it went on without progress",
    EndCause.PROCESS_LIMIT: "it had more processes than a job may have",
    EndCause.LAUNCH_FAILED: "the server could not start it",
    EndCause.SERVER_LOST: "its server was lost",
    EndCause.SUPERVISOR_LOST: "its supervisor was lost",
    EndCause.LAUNCH_UNCONFIRMED: "no server confirmed its start",
}
RULES: dict[str, str] = {
    PreemptRule.POLICY_ORDER: "a job before it needs the place",
    PreemptRule.QUOTA_RECLAIM: "no quota was left for it, and a job within its quota needs the place",
    PreemptRule.OVER_SHARE: "its queue is beyond its fair share of what is lent",
    PreemptRule.SERVER_GONE: "its server leaves the pool",
    PreemptRule.NO_SHARE: "the policy gives its GPUs to other jobs",
    PreemptRule.REPACKED: "all jobs were placed anew",
    PreemptRule.MOVED: "it goes on elsewhere",
    PreemptRule.UNPACKED: "it no longer shares the GPUs of another job",
    RANK_ENDED: "one of its processes ended",
    EndCause.LAUNCH_UNCONFIRMED: CAUSES[EndCause.LAUNCH_UNCONFIRMED],
    EndCause.SMOKE_PASSED: "its smoke run has passed, and its whole gang is next",
    EndCause.EARLY_STOPPED: "its loss has stopped falling",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of the feed: ``before``, subject and ``words``, with their spaces; ``href`` leads to the subject."""

    tone: str
    icon: str
    before: str
    subject: str
    words: str
    href: str
    at: datetime


def happenings(rows: Sequence[EventRow], device: DeviceWord) -> list[Happening]:
    """Return the lines of a feed, with the cluster's word for its devices."""
    return [_happening(row, device) for row in rows]


def _happening(row: EventRow, device: DeviceWord) -> Happening:
    tone, icon, told = _WORDS.get(row["kind"], _other)(row)
    # Names and reasons stay as they were typed.
    words = device.said(told, names=[value for value in row["data"].values() if isinstance(value, str)])
    if row["job_number"] is not None:
        subject, href = row["job_name"] or "", f"/jobs/J-{row['job_number']}"
    elif row["server"]:
        subject, href = row["server"], f"/cluster/{row['server']}"
    elif row["queue"]:
        subject, href = row["queue"], f"/queues/{row['queue']}"
    else:
        subject, href = "", ""
    before, mark, after = words.partition(SUBJECT)
    if not mark:
        before, after = "", f" {words}" if subject else words
    return Happening(
        tone=tone, icon=icon, before=before, subject=subject, words=after, href=href, at=as_time(row["at"])
    )


def _job_state(row: EventRow) -> Said:
    state = look(row["new_state"])
    move = _MOVES.get(row["new_state"])
    return state.tone, state.icon, move(row) if move else f"is {state.word.lower()}."


def _queued(row: EventRow) -> str:
    reason, lost_s = row["reason"], row["data"].get("lost_s")
    lost = f", {duration(lost_s)} of work lost" if lost_s else ""
    if not row["old_state"]:
        return f"was submitted by {row['actor']}."
    if row["old_state"] == JobState.CANCELLED:
        return f"waits again: {row['actor']} took its cancel back."
    if reason == EndCause.PREEMPTED:
        return f"was preempted{lost}."
    if reason in CAUSES:
        off = row["data"].get("stays_off", ())
        elsewhere = f" It stays off {', '.join(off)} for an hour if others have room." if off else ""
        return f"waits again: {CAUSES[reason]}{lost}.{elsewhere}"
    return f"was resumed by {row['actor']}." if row["old_state"] == JobState.SUSPENDED else f"waits again{lost}."


def _completed(row: EventRow) -> str:
    run_s = row["data"].get("run_s")
    return f"completed after {duration(run_s)}." if run_s else "completed."


def _failed(row: EventRow) -> str:
    code = row["data"].get("exit_code")
    cause = f"exit code {code}" if row["reason"] == EndCause.EXIT_CODE and code is not None else ""
    return f"failed: {cause or CAUSES.get(row['reason'], row['reason'])}."


_MOVES: dict[str, Callable[[EventRow], str]] = {
    JobState.QUEUED: _queued,
    JobState.LAUNCHING: lambda row: "launches.",
    JobState.RUNNING: lambda row: "has its turn." if row["reason"] == "turn" else "runs.",
    JobState.PARKED: lambda row: f"is parked: {RULES.get(row['reason'], row['reason'])}.",
    JobState.PREEMPTING: lambda row: f"is preempted: {RULES.get(row['reason'], row['reason'])}.",
    JobState.SUSPENDING: lambda row: "saves a checkpoint to be suspended.",
    JobState.SUSPENDED: lambda row: "is suspended.",
    JobState.COMPLETED: _completed,
    JobState.FAILED: _failed,
    JobState.CANCELLED: lambda row: "is cancelled.",
}


def _job_wanted(row: EventRow) -> Said:
    icons = {"cancel": "ban", "suspend": "pause", "resume": "play"}
    reason = row["reason"]
    return "mute", icons.get(reason, "user"), f"{row['actor']} asked to {reason} {SUBJECT}."


def _job_idle(row: EventRow) -> Said:
    gpus, idle_s = row["data"].get("num_gpus", 0), row["data"].get("idle_s")
    verb = {"suspend": "suspended", "cancel": "cancelled"}.get(row["reason"])
    then = f" It is {verb} in {duration(row['data'].get('grace_s'))} unless it goes on." if verb else ""
    held = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    return (
        "warn",
        "hourglass",
        f"holds {held} and has not used {'it' if gpus == 1 else 'them'} for {duration(idle_s)}.{then}",
    )


def _shadow(row: EventRow) -> Said:
    policy = row["data"].get("after", {}).get("policy")
    words = f"let {policy} plan as a shadow" if policy else "ended the shadow policy"
    return "info", "eye", f"{row['actor']} {words}{why_of(row)}."


def _webhook(row: EventRow) -> Said:
    verbs = {"create": "made", "revoke": "revoked", "test": "tested", "new_secret": "gave another secret to"}
    name = row["data"].get("name", "")
    return "mute", "bell", f"{row['actor']} {verbs.get(row['reason'], row['reason'])} the webhook {name}."


def _wall(row: EventRow) -> Said:
    verb = "made" if row["reason"] == "create" else "revoked"
    return "mute", "monitor", f"{row['actor']} {verb} the wall link {row['data'].get('name', '')}."


def _user(row: EventRow) -> Said:
    verbs = {"create": "made", "change": "changed", "deactivate": "keeps out", "activate": "lets in again"}
    return "mute", "user", f"{row['actor']} {verbs.get(row['reason'], row['reason'])} {row['data'].get('user', '')}."


def _token(row: EventRow) -> Said:
    verb = "created" if row["reason"] == "create" else "revoked"
    return "mute", "key-round", f"{row['actor']} {verb} the token {row['data'].get('name', '')}."


def _other(row: EventRow) -> Said:
    return "mute", "info", f"{row['kind'].replace('_', ' ')}: {row['reason'].replace('_', ' ')}, {row['actor']}."


def _sign_in(row: EventRow) -> Said:
    user = row["data"].get("user") or row["actor"]
    return "mute", "user", f"{user} signed in."


def _search(row: EventRow) -> Said:
    verdicts = {"promising": "is promising: it gets a GPU of its own.", "poor": "is given up: it heads too high."}
    return "mute", "gauge", verdicts.get(row["reason"], "takes turns on what is left of its search.")


def _whatif(row: EventRow) -> Said:
    verbs = {"create": "asked", "cancel": "stopped asking", "delete": "deleted"}
    name = row["data"].get("name", "")
    return "mute", "flask-conical", f"{row['actor']} {verbs.get(row['reason'], row['reason'])} what-if {name}."


def _job_changed(row: EventRow) -> Said:
    if row["reason"] == "reprioritise":
        return "mute", "pencil", f"{row['actor']} gave {SUBJECT} priority {row['data']['priority']['after']}."
    return "mute", "pencil", f"{row['actor']} changed what {SUBJECT} asks for."


def _template(row: EventRow) -> Said:
    verb = "made" if row["reason"] == "create" else "removed"
    return "mute", "pencil", f"{row['actor']} {verb} the template {row['data'].get('template', '')} of {SUBJECT}."


def _view(row: EventRow) -> Said:
    verb = "saved" if row["reason"] == "save" else "removed"
    return "mute", "eye", f"{row['actor']} {verb} the view {row['data'].get('name', '')} of the list of jobs."


def _trace_file(row: EventRow) -> Said:
    verb = "uploaded" if row["reason"] == "upload" else "deleted"
    return "mute", "flask-conical", f"{row['actor']} {verb} the trace {row['data'].get('name', '')}."


def _mail_choice(row: EventRow) -> Said:
    notices = row["data"].get("after", {}).get("notices", [])
    return "mute", "bell", f"{row['actor']} chose {joined(notices) if notices else 'no notices'} as mail."


_WORDS: dict[str, Callable[[EventRow], Said]] = {
    "job_state": _job_state,
    "trial": lambda row: trial_words(row["data"]),
    "job_wanted": _job_wanted,
    "job_changed": _job_changed,
    "quota": queues.quota_words,
    "quota_request": queues.quota_request_words,
    "quota_answer": queues.quota_answer_words,
    "quota_withdrawal": lambda row: ("mute", "ban", f"{row['actor']} withdrew a request for quota of {SUBJECT}."),
    "budget": queues.budget_words,
    "prices": lambda row: ("info", "settings", f"{row['actor']} set the prices of GPU-hours{why_of(row)}."),
    "user_limits": queues.user_limits_words,
    "idle_rule": queues.idle_rule_words,
    "isolation": queues.isolation_words,
    "kept_files": queues.kept_files_words,
    "job_idle": _job_idle,
    "job_resized": jobs.resized_words,
    "job_restored": jobs.restored_words,
    "fairness_over": queues.fairness_over_words,
    "fairness_again": lambda row: (
        "ok",
        "check",
        f"{SUBJECT}'s jobs are within the limit of fairness again.",
    ),
    "queue": lambda row: ("info", "layers", f"{row['actor']} made {SUBJECT}."),
    "membership": queues.membership_words,
    "settings": settings.settings_words,
    "server_state": servers.server_state_words,
    "server_change": servers.server_change_words,
    "server_removal": servers.server_removal_words,
    "server_mix": servers.server_mix_words,
    "template": _template,
    "view": _view,
    "trace_file": _trace_file,
    "mail_choice": _mail_choice,
    "profile": lambda row: (
        "mute",
        "gauge",
        f"{row['actor']} asked to measure the profile {row['data'].get('profile', '')} again.",
    ),
    "token": _token,
    "shadow": _shadow,
    "webhook": _webhook,
    "user": _user,
    "wall": _wall,
    "sign_in": _sign_in,
    "search": _search,
    "whatif": _whatif,
    "job_measured": lambda row: ("violet", "gauge", "was measured: how fast it is with which cores."),
    "experiment": lambda row: (
        "mute",
        "ban",
        f"{row['actor']} cancelled the experiment {row['data'].get('name', '')} of {SUBJECT}.",
    ),
    "directory_kept": jobs.directory_kept_words,
    "directory_removal": lambda row: (
        "mute",
        "trash-2",
        "has its files removed: they were kept as long as its queue says."
        if row["reason"] == "age"
        else f"{row['actor']} removed the files of {SUBJECT}.",
    ),
    "files_removal": lambda row: ("mute", "trash-2", f"{row['actor']} deleted files of {SUBJECT}."),
    "files_not_removed": lambda row: (
        "warn",
        "triangle-alert",
        "still has files that were to be deleted: no server could do it within a day.",
    ),
    "report_rejected": lambda row: ("warn", "triangle-alert", f"sent a report that was refused: {row['reason']}."),
    "server_size": servers.server_size_words,
    "report_unusable": lambda row: (
        "warn",
        "triangle-alert",
        f"reported numbers that cannot be used, which are left out: {row['data']['error']}."
        if row["reason"] == "numbers"
        else "could not be followed for a moment: an error in Clusterweb. It trains on.",
    ),
    "step": lambda row: (
        ("bad", "triangle-alert", f"A part of the scheduler fails: {row['data']['step']}. {row['data']['error']}")
        if row["reason"] == "failing"
        else ("ok", "check", f"A part of the scheduler works again: {row['data']['step']}.")
    ),
    "plan_refused": lambda row: (
        "bad",
        "triangle-alert",
        f"The plan of round {row['data'].get('round', '')} broke a rule. Nothing was changed.",
    ),
}
