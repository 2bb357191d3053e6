"""Steers running experiments between rounds: early feedback, more weight for the promising, an end for the poor.

``core/operations/multijob.py`` rates each configuration by the losses of its job, reported or read from its files
(``written_losses.py``); here the rating becomes weights in the round robin and cancels.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from agents.protocol.ports import Ids
from scheduler.core.model.errors import JobChanged, SchedulerError
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.core.operations.multijob import Promise, chance_of_reaching, feedback_times_s, fit_curve, rank, weights
from scheduler.live.steps import for_each
from scheduler.models import Configuration, Experiment, Gpu, Job
from scheduler.models.experiment import ExperimentState
from scheduler.models.server import ServerState
from scheduler.selectors.files.losses import JobLoss, curves_written, losses_of
from scheduler.services.jobs.experiments import configuration_end, configurations_add, experiment_end
from scheduler.services.jobs.state import job_event

log = logging.getLogger(__name__)

# A configuration is judged once its curve has so many points: a fit needs them.
POINTS = 5
CURVE_MOST = 400
# A search that missed its target ends once the files of all its jobs are read, or this long after its last job.
READ_WITHIN = timedelta(minutes=1)
# Nothing is known of a configuration before its first look: neither promising nor poor.
UNKNOWN_CHANCE = 0.5


def searches_step(*, at: datetime, ids: Ids) -> None:
    """Evaluate every running experiment."""
    running = Experiment.objects.filter(state=ExperimentState.RUNNING).select_related("queue", "owner")
    for_each(running, lambda experiment: _step_or_postpone(experiment, at=at, ids=ids))


def _step_or_postpone(experiment: Experiment, *, at: datetime, ids: Ids) -> None:
    try:
        due = _step(experiment, at=at)
        # In a transaction of its own: the search goes on where its owner may submit no more.
        configurations_add(experiment, count=due, at=at, ids=ids)
    except SchedulerError as error:  # its owner may no longer submit, or a job changed meanwhile
        log.info("search_postponed", extra={"experiment": experiment.pk, "error": str(error)})


@transaction.atomic
def _step(experiment: Experiment, *, at: datetime) -> int:
    """Evaluate one experiment; return how many configurations more it is to try now."""
    rows = experiment.configurations.select_related("job").defer("job__spec").order_by("number")
    every = list(rows)
    losses = losses_of(one.job for one in every)
    known = losses.by_job
    of_files = [
        one.job for one in every if known[one.job_id].source and _takes(experiment, one, known[one.job_id].step)
    ]
    written = curves_written(of_files)
    for one in every:
        _note(experiment, one, known[one.job_id], written.get(one.job_id, []))
    target = experiment.target_loss
    if target is not None and any(loss.value is not None and loss.value <= target for loss in known.values()):
        experiment_end(experiment, state=ExperimentState.FOUND, at=at)
        return 0
    slots = max(1, Gpu.objects.filter(healthy=True, server__state=ServerState.UP).count())
    live = [one for one in every if one.job.state not in TERMINAL and one.job.wanted != "cancel"]
    due = {one: step for one in live if (step := _step_due(experiment, one, known[one.job_id])) is not None}
    if due:
        _look(experiment, live, due, slots=slots, at=at)
    if len(every) < experiment.size:
        # Of TPE at most one unevaluated configuration per GPU, so that later ones learn from earlier ones.
        learns = experiment.sampler == "tpe"
        return slots - sum(one.looked_step == 0 for one in live) if learns else experiment.size
    ends = [one.job.ended_at for one in every if one.job.state in TERMINAL and one.job.ended_at is not None]
    if live or len(ends) < len(every):
        return 0
    if target is None:
        experiment_end(experiment, state=ExperimentState.DONE, at=at)
    elif not losses.unread or at - max(ends) > READ_WITHIN:
        experiment_end(experiment, state=ExperimentState.EXHAUSTED, at=at)
    return 0


def _takes(experiment: Experiment, one: Configuration, step: float | None) -> bool:
    """Return whether a point at this step belongs in the curve of a configuration."""
    return step is not None and len(one.curve) < CURVE_MOST and step >= _next_step(experiment, one)


def _note(experiment: Experiment, one: Configuration, known: JobLoss, written: list[list[float]]) -> None:
    """Add the newest loss to the curve, where the next point is due; of a file also those that are new before it."""
    step, loss = known.step, known.value
    if step is None or loss is None or not _takes(experiment, one, step):
        return
    for point in written if known.source else [[float(step), loss]]:
        if _takes(experiment, one, point[0]):
            one.curve.append([*point])
    one.save(update_fields=["curve"])


def _next_step(experiment: Experiment, one: Configuration) -> float:
    return float(one.curve[-1][0] if one.curve else 0) + (experiment.feedback_steps or 1) / POINTS


def _step_due(experiment: Experiment, one: Configuration, known: JobLoss) -> int | None:
    """Return the step of a configuration at which it is to be looked at now; None where that is not due."""
    if experiment.feedback_steps is None or experiment.total_steps is None:
        return None  # all run to their end
    looks = feedback_times_s(float(experiment.feedback_steps), float(experiment.total_steps))
    later, step = [at for at in looks if at > one.looked_step], known.step or 0
    return step if later and len(one.curve) >= POINTS and step >= later[0] else None


def _look(
    experiment: Experiment, live: list[Configuration], due: dict[Configuration, int], *, slots: int, at: datetime
) -> None:
    """Predict the end of the configurations that are due, and share the GPUs anew among all live ones."""
    for one, step in due.items():
        _predict(experiment, one, step)
    chances = [UNKNOWN_CHANCE if one.chance is None else one.chance for one in live]
    ranking = rank(chances, slots=slots)
    # Equal shares until all have had their first look.
    is_first_pass = any(one.chance is None for one in live)
    top = 0 if is_first_pass else sum(promise is Promise.PROMISING for promise in ranking.promises)
    for one, promise, weight in zip(live, ranking.promises, weights(chances, top=top), strict=True):
        known = promise if one.chance is not None else Promise.OPPORTUNISTIC
        Job.objects.filter(pk=one.job_id).exclude(weight=weight).update(weight=weight)
        if known != one.promise:
            one.promise = known
            one.save(update_fields=["promise"])
            _tell(one, at=at)
        if known is Promise.POOR:
            configuration_end(one.job, experiment, at=at)


def _predict(experiment: Experiment, one: Configuration, at_step: int) -> None:
    steps = [step for step, _ in one.curve]  # as the reports came, so not evenly apart
    assert experiment.total_steps is not None  # only searches look
    assert experiment.target_loss is not None
    fit = fit_curve(steps, [-loss for _, loss in one.curve])  # ``fit_curve`` expects values that rise
    assert fit is not None  # there are enough points
    by_step = experiment.total_steps
    one.looked_step = at_step
    one.heading_for = -fit.at(by_step)
    one.chance = chance_of_reaching(fit, target=-experiment.target_loss, by_step=by_step)
    one.save(update_fields=["looked_step", "heading_for", "chance"])


def _tell(one: Configuration, *, at: datetime) -> None:
    data = {"chance": round(one.chance or 0.0, 4), "heading_for_loss": one.heading_for, "step": one.looked_step}
    try:
        job_event(job=one.job, kind="search", at=at, actor="scheduler", reason=one.promise, data=data)
    except JobChanged as error:
        log.debug("search_not_told", extra={"job": one.job_id, "error": str(error)})
