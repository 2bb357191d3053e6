"""Experiments of the queues that a user may see, as rows; a configuration is a row with its job's state."""

from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.models import Experiment
from scheduler.models.queue import Role
from scheduler.selectors.files.losses import curves_written, losses_of
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow, ExperimentDetail, ExperimentRow
from scheduler.selectors.visibility import Actor, access_of, role_in


def experiments_visible(user: Actor) -> QuerySet[Experiment]:
    """Return the experiments of the queues in which ``user`` has a role."""
    access = access_of(user)
    rows = Experiment.objects.select_related("queue", "owner").annotate(
        submitted=Count("configurations"),
        best_reported=Min("configurations__job__loss"),
        best_written=Min("configurations__job__written_loss__loss", filter=Q(configurations__job__loss=None)),
    )
    return rows if access.is_admin else rows.filter(queue_id__in=list(access.roles))


def require_experiment(user: Actor, pk: str) -> Experiment:
    """Return one experiment. Raises NotFound when there is none that ``user`` may see."""
    found = experiments_visible(user).filter(pk=pk).first()
    if found is None:
        raise NotFound(f"There is no experiment {pk[:26]}.")
    return found


def may_end(user: Actor, experiment: Experiment) -> bool:
    """Return whether ``user``, who sees it, may cancel an experiment: its owner, and leads of its queue."""
    return user == experiment.owner or role_in(user, experiment.queue) is Role.LEAD


def experiment_row(experiment: Experiment) -> ExperimentRow:
    """Return one line of a list; the row comes out of ``experiments_visible``."""
    annotated: Any = experiment  # three columns more than the model has
    reported, written = annotated.best_reported, annotated.best_written
    return {
        "id": experiment.pk,
        "name": experiment.name,
        "queue": experiment.queue.name,
        "color_slot": experiment.queue.color_slot,
        "owner": experiment.owner.get_username(),
        "state": str(experiment.state),
        "sampler": experiment.sampler,
        "configurations": experiment.size,
        "submitted": annotated.submitted,
        "target_loss": experiment.target_loss,
        "best_loss": min((loss for loss in (reported, written) if loss is not None), default=None),
        "best_loss_is_written": written is not None and (reported is None or written < reported),
        "created_at": experiment.created_at,
        "ended_at": experiment.ended_at,
    }


def experiment_detail(experiment: Experiment) -> ExperimentDetail:
    """Return one experiment with its configurations."""
    rows = list(experiment.configurations.select_related("job").defer("job__spec").order_by("number"))
    losses = losses_of(one.job for one in rows)
    known = losses.by_job
    written = curves_written([one.job for one in rows if known[one.job_id].source])
    members: list[ConfigurationRow] = [
        {
            "number": one.number,
            "values": one.values,
            "job": one.job_id,
            "job_number": one.job.number,
            "state": str(one.job.state),
            "step": one.job.step if one.job.step is not None else known[one.job_id].step,
            "loss": known[one.job_id].value,
            "loss_source": known[one.job_id].source,
            "weight": one.job.weight,
            "promise": str(one.promise),
            "chance": one.chance,
            "heading_for": one.heading_for,
            "curve": written[one.job_id] if known[one.job_id].source else one.curve,
            "gpu_hours": one.job.attained_gpu_s / 3_600,
            "run_s": one.job.executed_s,
        }
        for one in rows
    ]
    annotated: Any = experiment
    annotated.submitted = len(members)
    ranked = [(one["loss"], bool(one["loss_source"])) for one in members if one["loss"] is not None]
    annotated.best_reported = min((loss for loss, is_written in ranked if not is_written), default=None)
    annotated.best_written = min((loss for loss, is_written in ranked if is_written), default=None)
    return {
        **experiment_row(experiment),
        "space": experiment.space,
        "seed": experiment.seed,
        "total_steps": experiment.total_steps,
        "feedback_steps": experiment.feedback_steps,
        "gpu_hours": sum(one.job.attained_gpu_s for one in rows) / 3_600,
        "unread": losses.unread,
        "members": members,
    }
