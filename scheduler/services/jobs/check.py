"""Checks whether a job could be submitted now: queue, role, profile, and whether any server is large enough.

``scheduler/core/spec/spec.py`` checks the spec alone; here the errors of both are reported at once.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef

from scheduler.core.model.errors import FieldError, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.spec.env import secret_errors
from scheduler.core.spec.launch import unsaid_errors, unsplit_errors
from scheduler.core.spec.limits import ERRORS
from scheduler.core.spec.reading import shown
from scheduler.core.spec.spec import JobSpec
from scheduler.core.spec.units import counted
from scheduler.models import Cluster, Job, Profile, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import Access, Actor, access_of
from scheduler.services.cluster.capacity import capacity_errors, with_cluster_size
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.code.folders import code_errors, script_errors
from scheduler.services.code.git import git_resolved
from scheduler.services.environments.files import environment_errors
from scheduler.services.jobs.dependencies import dependencies_numbered, dependency_errors
from scheduler.services.jobs.profiles import AUTO_PREFIX
from scheduler.services.secrets.use import missing_errors

NAMES_SHOWN = 10
# While one of these is wrong, nothing can be said of what the servers could hold.
WIDTH = frozenset({"/resources", *(f"/resources/{name}" for name in ("gpus", "min_gpus", "max_gpus", "max_servers"))})


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSpec:
    """A spec that may be submitted, with the rows it names.

    Attributes:
        access: The roles of the owner.
        cluster: Its settings when the spec was checked.
        may_queue: How many jobs more the owner may have queued in this queue.
        again: Number of the array whose failed jobs these are once more; None for new jobs.
    """

    spec: JobSpec
    owner: User
    access: Access
    cluster: Cluster
    queue: Queue
    profile: Profile | None
    may_queue: int
    again: int | None = None


def job_check(*, actor: Actor, data: object) -> JobSpec:
    """Return the spec in ``data`` if ``actor`` could submit it now. Raises as ``job_checked`` does."""
    return job_checked(actor=actor, data=data).spec


def job_checked(*, actor: Actor, data: object) -> CheckedSpec:
    """Return the spec in ``data`` with the rows that it names, if ``actor`` could submit it now.

    Raises:
        SpecInvalid: With every bad field, of the spec and of what depends on the cluster.
        NotAllowed: Not signed in, or only a viewer of the queue.
    """
    found, too_large = job_check_dry(actor=actor, data=data)
    if too_large:
        raise SpecInvalid(too_large)
    return found


def job_check_dry(*, actor: Actor, data: object) -> tuple[CheckedSpec, list[FieldError]]:
    """Return the rows that the spec in ``data`` names, and separately the errors of its size.

    Raises:
        SpecInvalid: With every other bad field.
        NotAllowed: As ``job_checked`` does.
    """
    owner = _signed_in(actor)
    access = access_of(owner)
    spec, errors = JobSpec.read(data)
    spec = dependencies_numbered(access, spec, {})
    errors += unsaid_errors(data, command=spec.command, per=spec.starts_per) + unsplit_errors(spec.command)
    cluster = cluster_row()
    found, more = _cluster_errors(owner, access, spec, cluster, bad=frozenset(error.pointer for error in errors))
    errors += _errors_of_secrets(owner, spec, found) + dependency_errors(access, spec.depends_on)
    errors += script_errors(found.spec) if found else []
    more += [] if errors else _errors_of_length(spec, most_bytes=cluster.spec_most_bytes)
    if errors or found is None:
        raise SpecInvalid(with_cluster_size(errors + more))
    return found, more


def jobs_checked(*, actor: Actor, data: Sequence[object]) -> list[CheckedSpec]:
    """Return what ``job_checked`` does for each spec in ``data``; what equal requests ask of the cluster is asked once.

    Raises:
        SpecInvalid: With the bad fields of all; pointers begin with the place in ``data``.
        NotAllowed: As ``job_checked`` does.
    """
    owner, cluster = _signed_in(actor), cluster_row()
    access = access_of(owner)
    checked: list[CheckedSpec] = []
    errors: list[FieldError] = []
    numbers: dict[str, int] = {}
    known: dict[tuple[object, ...], tuple[CheckedSpec | None, list[FieldError]]] = {}
    for place, one in enumerate(data):
        spec, wrong = JobSpec.read(one)
        spec = dependencies_numbered(access, spec, numbers)
        wrong += unsaid_errors(one, command=spec.command, per=spec.starts_per) + unsplit_errors(spec.command)
        if not wrong:
            built_from = (spec.python, _files_of_python(spec))
            asked = (spec.queue, spec.profile, spec.resources, spec.code, spec.num_jobs, *built_from)
            if asked not in known:
                known[asked] = _cluster_errors(owner, access, spec, cluster, bad=frozenset())
            found, more = known[asked]
            wrong = more + _errors_of_secrets(owner, spec, found) + dependency_errors(access, spec.depends_on)
            wrong += script_errors(replace(spec, code=found.spec.code)) if found else []
            wrong += _errors_of_length(spec, most_bytes=cluster.spec_most_bytes)
            checked += [replace(found, spec=replace(spec, code=found.spec.code))] if found else []
        errors += [replace(error, pointer=f"/{place}{error.pointer}") for error in wrong]
        if len(errors) >= ERRORS:
            break
    if not errors:
        _, errors = queued_errors(owner, jobs_by_queue(checked), cluster)
    if errors:
        raise SpecInvalid(errors)
    return checked


def jobs_by_queue(checked: Iterable[CheckedSpec]) -> Counter[Queue]:
    """Return how many jobs are made of specs, by their queue."""
    jobs: Counter[Queue] = Counter()
    for one in checked:
        jobs[one.queue] += one.spec.num_jobs
    return jobs


def _files_of_python(spec: JobSpec) -> tuple[str | None, ...]:
    """Return what an environment is built from, as far as the spec itself holds it."""
    return tuple(spec.files.get(path) for path in spec.python.paths.values()) if spec.python is not None else ()


def spec_check(*, actor: Actor, spec: JobSpec) -> CheckedSpec:
    """Return the rows that a parsed spec names. Raises as ``job_checked`` does."""
    return _spec_check(_signed_in(actor), spec)


def spec_check_of(job: Job, spec: JobSpec, *, actor: Actor) -> CheckedSpec:
    """Return the rows that a new spec of a stored job names. Only a queue that is new to it gets one job more.

    Args:
        job: Waiting, or about to wait again. What it may use is its owner's.
        spec: What it would ask for.
        actor: Who wants it so, and has to be allowed to submit to its queue.

    Raises:
        SpecInvalid, NotAllowed: As ``job_checked`` does.
    """
    return _spec_check(job.owner, spec, stored=job, chooser=_signed_in(actor))


def _spec_check(owner: User, spec: JobSpec, *, stored: Job | None = None, chooser: User | None = None) -> CheckedSpec:
    cluster = cluster_row()
    access = access_of(owner)
    found, errors = _cluster_errors(owner, access, spec, cluster, bad=frozenset(), stored=stored, chooser=chooser)
    errors += _errors_of_length(spec, most_bytes=cluster.spec_most_bytes)
    if errors or found is None:
        raise SpecInvalid(errors)
    return found


def _signed_in(actor: Actor) -> User:
    if not (isinstance(actor, User) and actor.is_active):
        raise NotAllowed("Sign in to submit jobs.")
    return actor


def _cluster_errors(
    owner: User,
    access: Access,
    spec: JobSpec,
    cluster: Cluster,
    *,
    bad: frozenset[str],
    stored: Job | None = None,
    chooser: User | None = None,
) -> tuple[CheckedSpec | None, list[FieldError]]:
    """Check what depends on the cluster, fields in ``bad`` aside; they are wrong already.

    The rows are there as soon as they are known, even if no server could hold the job. For ``stored`` and ``chooser``
    see ``spec_check_of``.
    """
    if "" in bad:
        return None, []
    errors: list[FieldError] = []
    queue = None if "/queue" in bad else _queue(access_of(chooser) if chooser else access, spec.queue, errors)
    profile = None if "/profile" in bad else _profile(spec.profile, errors)
    spec, unfetched = git_resolved(owner, spec)
    if spec.code is not None and not unfetched:
        errors += code_errors(owner, access, spec.code, disk_bytes=spec.resources.disk_bytes)
    if spec.python is not None and not errors and not unfetched:
        errors += environment_errors(spec)
    errors += [] if bad or errors else unfetched  # nothing is fetched for a spec that is wrong
    names_nothing = queue is None or bool(errors) or bool(unfetched)
    if bad.isdisjoint(WIDTH):
        errors += [error for error in capacity_errors(spec) if error.pointer not in bad]
    if queue is None:
        return None, errors
    errors += _errors_of_gpu_limit(queue, spec)
    may_queue, over = queued_errors(owner, {queue: _more_queued(spec, queue, stored)}, cluster, besides=stored)
    errors += over
    if names_nothing:
        return None, errors
    checked = CheckedSpec(
        spec=spec, owner=owner, access=access, cluster=cluster, queue=queue, profile=profile, may_queue=may_queue
    )
    return checked, errors


def _queue(access: Access, name: str, errors: list[FieldError]) -> Queue | None:
    """Return the queue, or None with an error; an invisible queue counts as missing."""
    has_children = Exists(Queue.objects.filter(parent=OuterRef("pk")))
    queue = Queue.objects.filter(name=name).annotate(has_children=has_children).first()
    if queue is None or not access.sees(queue.pk):
        detail = f"There is no queue {shown(name)} that you may submit to. {_yours(access)}"
        errors.append(FieldError(pointer="/queue", code="unknown", detail=detail))
        return None
    if not access.at_least(queue.pk, Role.MEMBER):
        raise NotAllowed(
            f"You see {queue.name} but may not submit to it. A lead of {queue.name} can make you a member."
        )
    children = queue.children.order_by("name") if queue.has_children else []
    below = [child for child in children if access.at_least(child.pk, Role.MEMBER)]
    if below:
        detail = f"{queue.name} has queues under it. Submit to {_either(child.name for child in below)}."
        errors.append(FieldError(pointer="/queue", code="not_leaf", detail=detail))
        return None
    return queue


def _errors_of_gpu_limit(queue: Queue, spec: JobSpec) -> list[FieldError]:
    least_gpus = spec.resources.min_gpus or spec.resources.gpus
    if queue.user_max_gpus is None or least_gpus <= queue.user_max_gpus:
        return []
    detail = (
        f"One user may hold at most {counted(queue.user_max_gpus, 'GPU')} in {queue.name}. You asked for {least_gpus}."
    )
    return [FieldError(pointer="/resources/gpus", code="user_limit", detail=detail)]


def _errors_of_secrets(owner: User, spec: JobSpec, found: CheckedSpec | None) -> list[FieldError]:
    """Return what is wrong with the environment: plain values that look like secrets, and secrets that are missing."""
    missing = missing_errors(owner=owner, queue=found.queue, uses=spec.secrets) if found is not None else []
    return secret_errors(spec.env, spec.said_plain) + missing


def _errors_of_length(spec: JobSpec, *, most_bytes: int) -> list[FieldError]:
    spec_bytes = len(json.dumps(spec.to_json()))
    if spec_bytes <= most_bytes:
        return []
    detail = (
        f"A spec may take at most {most_bytes:,} bytes with its files. This one takes {spec_bytes:,}. "
        "Leave large files in a directory that jobs can read, and name them in the command."
    )
    return [FieldError(pointer="/files", code="length", detail=detail)]


def _more_queued(spec: JobSpec, queue: Queue, stored: Job | None) -> int:
    """Return how many queued jobs a spec adds to the queue; a stored job that stays in its queue adds none."""
    if stored is None:
        return spec.num_jobs
    return int(stored.queue_id != queue.pk or stored.state in TERMINAL)


def queued_errors(
    owner: User, jobs: Mapping[Queue, int], cluster: Cluster, *, besides: Job | None = None
) -> tuple[int, list[FieldError]]:
    """Return an error for each limit that more queued jobs of a user would exceed.

    Args:
        owner: Whose they are.
        jobs: How many more, by queue.
        cluster: Its settings.
        besides: A job that is not counted: one of ``jobs``, or none of them where it stays as it is.

    Returns:
        How many more there could be, and the errors.
    """
    mine = Job.objects.filter(owner=owner, state=JobState.QUEUED).order_by()
    if besides is not None:
        mine = mine.exclude(pk=besides.pk)
    queued = dict(mine.values_list("queue").annotate(count=Count("pk")))
    limits = [("the cluster", sum(queued.values()), sum(jobs.values()), cluster.user_most_queued)]
    for queue, more in jobs.items():
        if queue.user_max_queued is not None:
            limits.append((queue.name, queued.get(queue.pk, 0), more, queue.user_max_queued))
    errors = []
    for place, count, more, most in limits:
        if more and count + more > most:
            right = "Submit again when one has started, or cancel one."
            if more > 1:
                right = f"Submit at most {max(0, most - count)} instead of {more}, and the rest when some have started."
            detail = f"You have {count} queued in {place}, and one user may have {most}. {right}"
            errors.append(FieldError(pointer="/queue", code="user_limit", detail=detail))
    return min(most - count for _, count, _, most in limits), errors


def _yours(access: Access) -> str:
    """Return the sentence about the queues to which the user may submit."""
    leaves = Queue.objects.filter(children__isnull=True).order_by("name")
    names = [queue.name for queue in leaves if access.at_least(queue.pk, Role.MEMBER)]
    return f"You may submit to {_either(names)}." if names else "You are not a member of any queue."


def _either(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:NAMES_SHOWN]) + (", ..." if len(listed) > NAMES_SHOWN else "")


def _profile(name: str, errors: list[FieldError]) -> Profile | None:
    if not name:
        return None
    profile = Profile.objects.filter(fingerprint=name).first()
    if profile is None:
        named = Profile.objects.exclude(fingerprint__startswith=AUTO_PREFIX)
        known = named.order_by("fingerprint").values_list("fingerprint", flat=True)[: NAMES_SHOWN + 1]
        ending = f"Known are {_either(known)}." if known else "None is known yet."
        detail = f"There is no profile {shown(name)}. {ending} Leave profile empty when it is not measured."
        errors.append(FieldError(pointer="/profile", code="unknown", detail=detail))
    return profile
