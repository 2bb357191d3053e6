"""The notices that webhooks and mails can send: a closed list, the event behind each, and the body that is sent."""

import json

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event
from scheduler.selectors.events import event_row

# Each name with a sentence. Notices of jobs and quotas belong to a queue, the others to the cluster.
NOTICES = {
    "job.started": "A job has begun to run, for the first time or again.",
    "job.finished": "A job has completed.",
    "job.failed": "A job has failed and is not tried again.",
    "job.cancelled": "Somebody has cancelled a job.",
    "job.preempted": "A job must make room for another one.",
    "job.idle": "A job holds GPUs for longer than its queue allows without using them.",
    "fairness.over": "The jobs of a queue take longer than the limit times what an equal share would give them.",
    "quota.changed": "The quota of a queue was changed.",
    "quota.requested": "A member asks for more quota.",
    "quota.answered": "A request for quota was granted or refused.",
    "server.drained": "A server is taken out of use.",
    "server.lost": "A server does not report any more.",
    "server.up": "A server is offered to rounds.",
    "settings.changed": "An admin has changed how rounds decide, or paused them.",
    "round.refused": "A plan broke a rule and was not applied.",
    "scheduler.step": "A part of the scheduler fails, or works again; the reason says which.",
}
OF_A_QUEUE = tuple(name for name in NOTICES if name.startswith(("job.", "quota.", "fairness.")))
# What a user may choose as mail: of the own jobs, and of the own requests.
OF_A_USER = (*(name for name in NOTICES if name.startswith("job.")), "quota.answered")
TEST = "test"
# Kinds of events that can be notices at all.
KINDS = (
    *("job_state", "job_idle", "fairness_over", "quota", "quota_request", "quota_answer"),
    *("server_state", "settings", "plan_refused", "step"),
)

_JOB_ENTERS = {
    JobState.PREEMPTING: "job.preempted",
    JobState.COMPLETED: "job.finished",
    JobState.FAILED: "job.failed",
    JobState.CANCELLED: "job.cancelled",
}
_SERVER_ENTERS = {"draining": "server.drained", "lost": "server.lost", "up": "server.up"}
_OTHERS = {
    "job_idle": "job.idle",
    "fairness_over": "fairness.over",
    "quota": "quota.changed",
    "quota_request": "quota.requested",
    "quota_answer": "quota.answered",
    "settings": "settings.changed",
    "plan_refused": "round.refused",
    "step": "scheduler.step",
}


def notice_of(*, kind: str, old_state: str, new_state: str) -> str:
    """Return the name of the notice that an event is; empty for none.

    A job that continues after its turn was taken (parked -> running) has not started again.
    """
    if kind == "job_state":
        if (old_state, new_state) == (JobState.LAUNCHING, JobState.RUNNING):
            return "job.started"
        return _JOB_ENTERS.get(JobState(new_state), "") if new_state in set(JobState) else ""
    if kind == "server_state":
        return _SERVER_ENTERS.get(new_state, "")
    return _OTHERS.get(kind, "")


def notice_body(notice: str, event: Event) -> str:
    """Return the JSON text that is sent: the event as every user of its queue may read it, and its job or server."""
    row = event_row(event)
    body: dict[str, object] = {"notice": notice, "at": row["at"], "event": row["id"], "by": row["actor"]}
    if row["queue"]:
        body["queue"] = row["queue"]
    if event.job is not None:
        body["job"] = {
            "id": row["job_id"],
            "number": row["job_number"],
            "name": row["job_name"],
            "owner": event.job.owner.username,
            "state": row["new_state"] or event.job.state,
            "path": f"/jobs/J-{row['job_number']}",
        }
    if row["server"]:
        body["server"] = {"name": row["server"], "state": row["new_state"]}
    body |= {"reason": row["reason"], "data": row["data"]}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
