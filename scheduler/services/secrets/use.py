"""Finds the secrets that jobs name, says which are missing, records each use, and opens them for a start.

A name is looked up when the job is submitted and again at each start, so a replaced value is the one that is used next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q

from agents.protocol.fields import MOST_SEALED
from agents.protocol.job_secret import JobSecret, secrets_written
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.env import SecretUse, secrets_named
from scheduler.core.spec.reading import pointer_step
from scheduler.models import Attempt, Event, Job, Queue, Secret
from scheduler.services.events import event_record
from scheduler.services.secrets.crypt import SecretUnreadable, secret_decrypt

MOST_BYTES = MOST_SEALED // 2  # of all secrets of a job; sealed they take a third more
BY_START = "start"  # in place of a request id: an attempt of the job began


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSecrets:
    """What a job names.

    Attributes:
        rows: By variable.
        missing: A sentence for each variable whose secret is not there.
    """

    rows: dict[str, Secret] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def missing_errors(*, owner: User, queue: Queue, uses: Mapping[str, SecretUse]) -> list[FieldError]:
    """Return an error for each variable of a spec whose secret neither the owner nor the queue has."""
    if not uses:
        return []
    known = _rows(names={use.name for use in uses.values()}, users=[owner.pk], queues=[queue.pk])
    found = _found(uses, user=owner, queue=queue, known=known)
    return [
        FieldError(pointer="/env" + pointer_step(variable), code="no_secret", detail=sentence)
        for variable, sentence in found.missing.items()
    ]


def secret_for_git(*, owner: User, queue: Queue, use: SecretUse) -> Secret | str:
    """Return the secret that a spec names to fetch its code, or the sentence why there is none."""
    known = _rows(names=[use.name], users=[owner.pk], queues=[queue.pk])
    found = _found({"": use}, user=owner, queue=queue, known=known)
    return found.missing.get("") or found.rows[""]


def git_use_record(*, owner: User, secret: Secret, host: str, at: datetime) -> None:
    """Record that a secret is used to fetch code from a host."""
    data = {"name": secret.name, "of": "queue" if secret.queue_id else "user", "host": host}
    event_record(kind="secret", actor=owner, at=at, reason="fetch", data=data, queue=secret.queue)
    Secret.objects.filter(pk=secret.pk).update(last_used_at=at)


def secrets_of_jobs(jobs: Sequence[Job]) -> dict[str, FoundSecrets]:
    """Return what each job names, by job; owner, queue and spec are read with it."""
    uses = {job.pk: secrets_named(job.spec) for job in jobs if job.names_secrets}
    if not uses:
        return {}
    known = _rows(
        names={use.name for named in uses.values() for use in named.values()},
        users={job.owner_id for job in jobs},
        queues={job.queue_id for job in jobs},
    )
    return {
        job.pk: _found(uses[job.pk], user=job.owner, queue=job.queue, known=known) for job in jobs if job.pk in uses
    }


def secrets_open(found: FoundSecrets) -> tuple[JobSecret, ...]:
    """Return what the process is given.

    Raises:
        SecretUnreadable: One is missing, or opens with none of the keys, or they are too large for an order.
    """
    if found.missing:
        raise SecretUnreadable(" ".join(found.missing.values()))
    opened = tuple(
        JobSecret(variable=variable, name=secret.name, value=secret_decrypt(secret))
        for variable, secret in sorted(found.rows.items())
    )
    if len(secrets_written(opened)) > MOST_BYTES:
        raise SecretUnreadable(f"Its secrets take more than {MOST_BYTES // 1024} KiB in all. Name fewer.")
    return opened


def uses_record(attempts: Sequence[Attempt], *, at: datetime) -> dict[str, str]:
    """Record which secrets attempts that begin are given; return why not, by the attempts that cannot be.

    Call it in the transaction that opens the attempts.
    """
    naming = {attempt.job_id: attempt for attempt in attempts if attempt.job.names_secrets}
    if not naming:
        return {}
    jobs = Job.objects.select_related("owner", "queue").in_bulk(list(naming))
    refused: dict[str, str] = {}
    events = []
    for job_id, found in secrets_of_jobs(list(jobs.values())).items():
        attempt, job = naming[job_id], jobs[job_id]
        try:
            secrets_open(found)
        except SecretUnreadable as error:
            refused[attempt.pk] = str(error)
            continue
        events += [_used(job, attempt, variable, secret, at=at) for variable, secret in sorted(found.rows.items())]
        rows = [secret.pk for secret in found.rows.values()]
        Secret.objects.filter(pk__in=rows).update(last_used_at=at, last_used_by=job)
    Event.objects.bulk_create(events)
    return refused


def _used(job: Job, attempt: Attempt, variable: str, secret: Secret, *, at: datetime) -> Event:
    return Event(
        at=at,
        kind="secret",
        actor=job.owner.username,
        queue_id=secret.queue_id,
        reason="use",
        data={
            "name": secret.name,
            "of": "queue" if secret.queue_id else "user",
            "used_by": f"J-{job.number}",
            "attempt": attempt.number,
            "variable": variable,
        },
        request_id=BY_START,
    )


Known = Mapping[tuple[str, str, int], Secret]  # by name, and whose it is


def _rows(*, names: Iterable[str], users: Iterable[int], queues: Iterable[int]) -> Known:
    rows = Secret.objects.filter(Q(user__in=list(users)) | Q(queue__in=list(queues)), name__in=list(names))
    return {
        (row.name, "user", row.user_id) if row.user_id is not None else (row.name, "queue", row.queue_id or 0): row
        for row in rows
    }


def _found(uses: Mapping[str, SecretUse], *, user: User, queue: Queue, known: Known) -> FoundSecrets:
    found = FoundSecrets()
    for variable, use in sorted(uses.items()):
        own, shared = known.get((use.name, "user", user.pk)), known.get((use.name, "queue", queue.pk))
        row = {"user": own, "queue": shared}.get(use.of, own or shared)
        if row is not None:
            found.rows[variable] = row
        else:
            found.missing[variable] = _missing(use, user=user, queue=queue)
    return found


def _missing(use: SecretUse, *, user: User, queue: Queue) -> str:
    set_own, set_shared = f"clusterweb secret set {use.name}", f"clusterweb secret set {use.name} --queue {queue.name}"
    if use.of == "user":
        return f"{user.username} has no secret {use.name}. Set it with '{set_own}' or on the page Secrets."
    if use.of == "queue":
        return f"{queue.name} has no secret {use.name}. A lead of {queue.name} sets it with '{set_shared}'."
    return (
        f"Neither {user.username} nor {queue.name} has a secret {use.name}. "
        f"Set it with '{set_own}' or on the page Secrets."
    )
