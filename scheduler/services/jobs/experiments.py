"""Starts and ends experiments and adds configurations; ``live.observed.searches`` rates them while they run."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from agents.protocol.ports import Ids
from scheduler.core.model.errors import Conflict, FieldError, NotAllowed, SchedulerError, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.core.spec.search_space import filled, read_space
from scheduler.models import Configuration, Experiment, Job
from scheduler.models.experiment import ExperimentState
from scheduler.selectors.jobs.experiments import may_end
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.check import job_checked, jobs_checked
from scheduler.services.jobs.submit import jobs_store
from scheduler.services.jobs.suggestions import SAMPLERS, suggest

MOST_STEPS = 10**12
# Configurations that one transaction adds: it keeps other writers waiting. The search adds the rest while it runs.
CHUNK = 100


def experiment_submit(*, actor: Actor, data: Mapping[str, Any], at: datetime, ids: Ids) -> Experiment:
    """Start an experiment: random search submits its configurations in chunks, TPE one after the other.

    Args:
        data: ``job`` (a spec with ``{name}`` where parameters go), ``space``, ``sampler``, ``seed``,
            ``configurations``, ``total_steps``, ``feedback_steps``, ``target_loss``.

    Raises:
        SpecInvalid: With an entry for every bad field; pointers into the job begin with ``/job``.
        NotAllowed: As for submitting one of its jobs.
    """
    space = read_space(data["space"])
    if isinstance(data["job"], Mapping) and data["job"].get("array") is not None:
        detail = "An experiment makes a job of each configuration: leave array out."
        raise SpecInvalid([FieldError(pointer="/job/array", code="unknown", detail=detail)])
    _check_numbers(data, most_jobs=cluster_row().experiment_most_jobs)
    first = suggest(space, [], sampler=data["sampler"], seed=data["seed"], count=1)[0]
    try:
        checked = job_checked(actor=actor, data=filled(data["job"], first, number=1))
    except SpecInvalid as error:
        raise SpecInvalid(
            [FieldError(pointer=f"/job{one.pointer}", code=one.code, detail=one.detail) for one in error.errors]
        ) from None
    if data["sampler"] == "random" and data["configurations"] > checked.may_queue:
        detail = f"configurations may be at most {checked.may_queue}: that many jobs more you may have queued."
        raise SpecInvalid([FieldError(pointer="/configurations", code="user_limit", detail=detail)])
    with transaction.atomic():
        experiment = Experiment.objects.create(
            id=ids.ulid(at),
            name=str(data["job"].get("name", "search"))[:80],
            queue=checked.queue,
            owner=checked.owner,
            spec=dict(data["job"]),
            space=data["space"],
            sampler=data["sampler"],
            seed=data["seed"],
            size=data["configurations"],
            total_steps=data["total_steps"],
            feedback_steps=data["feedback_steps"],
            target_loss=data["target_loss"],
            created_at=at,
        )
        configurations_add(experiment, count=CHUNK if experiment.sampler == "random" else 1, at=at, ids=ids)
    return experiment


def _check_numbers(data: Mapping[str, Any], *, most_jobs: int) -> None:
    errors = []
    if data["sampler"] not in SAMPLERS:
        detail = f"sampler is one of {', '.join(SAMPLERS)}."
        errors.append(FieldError(pointer="/sampler", code="unknown", detail=detail))
    for name, least, most in (
        ("configurations", 1, most_jobs),
        ("seed", 0, 2**31 - 1),
        ("feedback_steps", 5, MOST_STEPS),
        ("total_steps", data["feedback_steps"] + 1, MOST_STEPS),
    ):
        if not least <= data[name] <= most:
            detail = f"{name} must be between {least} and {most}. You asked for {data[name]}."
            errors.append(FieldError(pointer=f"/{name}", code="range", detail=detail))
    if errors:
        raise SpecInvalid(errors)


@transaction.atomic
def configurations_add(experiment: Experiment, *, count: int, at: datetime, ids: Ids) -> None:
    """Submit the next configurations, at most CHUNK of them, and up to the experiment's size."""
    known = list(experiment.configurations.order_by("number").values_list("values", "heading_for"))
    count = min(count, CHUNK, experiment.size - len(known))
    if count <= 0:
        return
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
