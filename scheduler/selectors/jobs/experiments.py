"""Experiments of the queues that a user may see, as rows; a configuration is a row with its job's state."""

from typing import Any

from django.db.models import Count, Min, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.models import Experiment
from scheduler.models.queue import Role
from scheduler.selectors.files.losses import losses_of
from scheduler.selectors.jobs.experiment_rows import ConfigurationRow, ExperimentDetail, ExperimentRow
from scheduler.selectors.visibility import Actor, access_of, role_in


def experiments_visible(user: Actor) -> QuerySet[Experiment]:
    """Return the experiments of the queues in which ``user`` has a role."""
    access = access_of(user)
    rows = Experiment.objects.select_related("queue", "owner").annotate(
        submitted=Count("configurations"), best_loss=Min("configurations__job__loss")
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
    annotated: Any = experiment  # two columns more than the model has
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
        "best_loss": annotated.best_loss,
        "created_at": experiment.created_at,
        "ended_at": experiment.ended_at,
    }


def experiment_detail(experiment: Experiment, *, reads_files: bool = True) -> ExperimentDetail:
    """Return one experiment with its configurations; ``reads_files`` as of ``losses_of``."""
    rows = list(experiment.configurations.select_related("job").defer("job__spec").order_by("number"))
    known = losses_of((one.job for one in rows), reads_files=reads_files)
    members: list[ConfigurationRow] = [
        {
            "number": one.number,
            "values": one.values,
            "job": one.job_id,
            "job_number": one.job.number,
            "state": str(one.job.state),
            "step": one.job.step,
            "loss": known.by_job[one.job_id].value,
            "loss_source": known.by_job[one.job_id].source,
            "weight": one.job.weight,
            "promise": str(one.promise),
            "chance": one.chance,
            "heading_for": one.heading_for,
            "curve": one.curve,
            "gpu_hours": one.job.attained_gpu_s / 3_600,
            "run_s": one.job.executed_s,
        }
        for one in rows
    ]
    annotated: Any = experiment
    annotated.submitted = len(members)
    losses = [one["loss"] for one in members if one["loss"] is not None]
    annotated.best_loss = min(losses) if losses else None
    return {
        **experiment_row(experiment),
        "space": experiment.space,
        "seed": experiment.seed,
        "total_steps": experiment.total_steps,
        "feedback_steps": experiment.feedback_steps,
        "gpu_hours": sum(one.job.attained_gpu_s for one in rows) / 3_600,
        "unread": known.unread,
        "members": members,
    }
