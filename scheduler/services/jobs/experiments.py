"""Starts and ends experiments and adds configurations; ``live.observed.searches`` rates them while they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from agents.protocol.ports import Ids
from scheduler.core.model.errors import Conflict, FieldError, NotAllowed, SchedulerError, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.spec.search_space import Parameter, filled, read_space, unfilled, unused
from scheduler.core.spec.value_list import Value
from scheduler.models import Configuration, Experiment, Job
from scheduler.models.experiment import ExperimentState
from scheduler.selectors.files.losses import losses_of
from scheduler.selectors.jobs.many.experiments import may_end
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.check import CheckedSpec, job_checked, jobs_checked
from scheduler.services.jobs.submit import jobs_store
from scheduler.services.jobs.suggestions import SAMPLERS, grid_size, suggest

MOST_STEPS = 10**12
SEARCH_FIELDS = ("total_steps", "feedback_steps", "target_loss")
# Configurations that one transaction adds: it keeps other writers waiting. The search adds the rest while it runs.
CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExperiment:
    """What was asked for, checked: its configurations, where they are known beforehand, and the first job."""

    data: Mapping[str, Any]
    space: tuple[Parameter, ...]
    size: int
    first: CheckedSpec

    def configurations(self) -> list[dict[str, Value]]:
        """Return the values of all configurations; of TPE the first alone, the others follow from its results."""
        count = 1 if self.data["sampler"] == "tpe" else self.size
        return suggest(self.space, [], sampler=self.data["sampler"], seed=self.data["seed"], count=count)


def experiment_check(*, actor: Actor, data: Mapping[str, Any]) -> CheckedExperiment:
    """Return what ``experiment_submit`` would begin. Raises as it does."""
    space = read_space(data["space"])
    _check_job(data["job"], space)
    size = _check_numbers(data, space, most_jobs=cluster_row().experiment_most_jobs)
    first = suggest(space, [], sampler=data["sampler"], seed=data["seed"], count=1)[0]
    try:
        checked = job_checked(actor=actor, data=filled(data["job"], first, number=1))
    except SpecInvalid as error:
        raise SpecInvalid(
            [FieldError(pointer=f"/job{one.pointer}", code=one.code, detail=one.detail) for one in error.errors]
        ) from None
    if data["sampler"] != "tpe" and size > checked.may_queue:
        detail = f"configurations may be at most {checked.may_queue}: that many jobs more you may have queued."
        raise SpecInvalid([FieldError(pointer="/configurations", code="user_limit", detail=detail)])
    return CheckedExperiment(data=data, space=space, size=size, first=checked)


def experiment_submit(*, actor: Actor, data: Mapping[str, Any], at: datetime, ids: Ids) -> Experiment:
    """Start an experiment: TPE submits its configurations one after the other, the others in chunks.

    Args:
        data: ``job`` (a spec with ``{name}`` where parameters go), ``space``, ``sampler``, ``seed``, ``configurations``
            (None for all of a grid), and for a search ``total_steps``, ``feedback_steps``, ``target_loss``, else None.

    Raises:
        SpecInvalid: With an entry for every bad field; pointers into the job begin with ``/job``.
        NotAllowed: As for submitting one of its jobs.
    """
    found = experiment_check(actor=actor, data=data)
    with transaction.atomic():
        experiment = Experiment.objects.create(
            id=ids.ulid(at),
            name=str(data["job"].get("name", "search"))[:80],
            queue=found.first.queue,
            owner=found.first.owner,
            spec=dict(data["job"]),
            space=data["space"],
            sampler=data["sampler"],
            seed=data["seed"],
            size=found.size,
            total_steps=data["total_steps"],
            feedback_steps=data["feedback_steps"],
            target_loss=data["target_loss"],
            created_at=at,
        )
        configurations_add(experiment, count=1 if experiment.sampler == "tpe" else CHUNK, at=at, ids=ids)
    return experiment


def _check_job(job: object, space: Sequence[Parameter]) -> None:
    """Refuse an array, and parameters that would reach no job."""
    if not isinstance(job, Mapping):
        detail = "job must be a mapping of keys to values, as a spec is."
        raise SpecInvalid([FieldError(pointer="/job", code="type", detail=detail)])
    errors = []
    if job.get("array") is not None:
        detail = "An experiment makes a job of each configuration: leave array out."
        errors.append(FieldError(pointer="/job/array", code="unknown", detail=detail))
    for name in unused(space, job):
        detail = f"{name} would reach no job: write {{{name}}} in its command, or in a value of its env."
        errors.append(FieldError(pointer=f"/space/{name}", code="unused", detail=detail))
    for pointer, name in unfilled(space, job).items():
        detail = f"{{{name}}} has no values: name them beside those of the other parameters, or take it out."
        errors.append(FieldError(pointer=f"/job{pointer}", code="unknown", detail=detail))
    if errors:
        raise SpecInvalid(errors)


def _check_numbers(data: Mapping[str, Any], space: Sequence[Parameter], *, most_jobs: int) -> int:
    """Return how many configurations there are; raise SpecInvalid for numbers that make no sense."""
    errors = _search_errors(data)
    whole = grid_size(space)
    if data["sampler"] not in SAMPLERS:
        detail = f"sampler is one of {', '.join(SAMPLERS)}."
        errors.append(FieldError(pointer="/sampler", code="unknown", detail=detail))
    elif data["sampler"] == "grid" and whole is None:
        endless = ", ".join(one.name for one in space if one.values is None) or "space"
        detail = f"A grid needs all values of {endless}: write 0.1,0.01 or 1..5 or 0..1:0.25, or choose random."
        errors.append(FieldError(pointer="/space", code="range", detail=detail))
    size = data["configurations"]
    if size is None:
        size = whole if whole is not None else 0
    most = most_jobs if whole is None or data["sampler"] == "tpe" else min(most_jobs, whole)
    for name, value, least, limit in (("configurations", size, 1, most), ("seed", data["seed"], 0, 2**31 - 1)):
        if not least <= value <= limit:
            detail = f"{name} must be between {least} and {limit}. You asked for {value}."
            if name == "configurations" and whole is not None and value > whole:
                detail += " There are no more."
            errors.append(FieldError(pointer=f"/{name}", code="range", detail=detail))
    if errors:
        raise SpecInvalid(errors)
    return int(size)


def _search_errors(data: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with the fields of a search for a target: all three, or none."""
    given = [name for name in SEARCH_FIELDS if data[name] is not None]
    if len(given) < len(SEARCH_FIELDS):
        missing = [name for name in SEARCH_FIELDS if data[name] is None]
        if not given and data["sampler"] != "tpe":
            return []
        why = "tpe learns from losses" if not given else f"{given[0]} is there, so this is a search"
        return [
            FieldError(pointer=f"/{name}", code="required", detail=f"{name} is required: {why}.") for name in missing
        ]
    errors = []
    for name, least in (("feedback_steps", 5), ("total_steps", data["feedback_steps"] + 1)):
        if not least <= data[name] <= MOST_STEPS:
            detail = f"{name} must be between {least} and {MOST_STEPS}. You asked for {data[name]}."
            errors.append(FieldError(pointer=f"/{name}", code="range", detail=detail))
    return errors


@transaction.atomic
def configurations_add(experiment: Experiment, *, count: int, at: datetime, ids: Ids) -> None:
    """Submit the next configurations, at most CHUNK of them, and up to the experiment's size."""
    count = min(count, CHUNK)
    if count > 0:
        count = min(count, experiment.size - experiment.configurations.count())
    if count <= 0:
        return
    rows = list(experiment.configurations.select_related("job").defer("job__spec").order_by("number"))
    ends = losses_of(one.job for one in rows if one.heading_for is None and one.job.state == JobState.COMPLETED).by_job
    known = [(one.values, ends[one.job_id].value if one.job_id in ends else one.heading_for) for one in rows]
    space = read_space(experiment.space)
    chosen = suggest(space, known, sampler=experiment.sampler, seed=experiment.seed, count=count)
    numbered = list(enumerate(chosen, start=len(known) + 1))
    specs = [filled(experiment.spec, values, number=number) for number, values in numbered]
    jobs = jobs_store(jobs_checked(actor=experiment.owner, data=specs), at=at, ids=ids)
    Configuration.objects.bulk_create(
        Configuration(experiment=experiment, number=number, job=job, values=values)
        for (number, values), job in zip(numbered, jobs, strict=True)
    )


@transaction.atomic
def experiment_cancel(*, actor: Actor, experiment: Experiment, at: datetime) -> Experiment:
    """Cancel an experiment and all its jobs; cancelling it again changes nothing.

    Raises:
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has ended already.
    """
    if not may_end(actor, experiment):
        raise NotAllowed(f"Only its owner and leads of {experiment.queue.name} may cancel {experiment.name}.")
    if experiment.state == ExperimentState.CANCELLED:
        return experiment
    if experiment.state != ExperimentState.RUNNING:
        raise Conflict(f"{experiment.name} has ended already: it is {experiment.state}.")
    experiment_end(experiment, state=ExperimentState.CANCELLED, at=at)
    data = {"name": experiment.name}
    event_record(kind="experiment", actor=actor, at=at, reason="cancel", data=data, queue=experiment.queue)
    return experiment


def experiment_end(experiment: Experiment, *, state: ExperimentState, at: datetime) -> None:
    """Record how an experiment ended, and cancel its remaining jobs."""
    experiment.state, experiment.ended_at = state, at
    experiment.save(update_fields=["state", "ended_at"])
    for job in Job.objects.filter(configuration__experiment=experiment).exclude(state__in=sorted(TERMINAL)):
        configuration_end(job, experiment, at=at)


def configuration_end(job: Job, experiment: Experiment, *, at: datetime) -> bool:
    """Cancel the job of one configuration; return False when its owner may no longer, or it has ended."""
    try:
        job_cancel(actor=experiment.owner, job=job, at=at)
    except SchedulerError:
        return False
    return True
