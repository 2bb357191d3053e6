"""Experiments for tests: a valid body, and a row with one configuration."""

from typing import Any

from django.contrib.auth.models import User

from scheduler.models import Configuration, Experiment, Queue
from tests.support.rows.factories import AT, job_make, ulid_make


def experiment_body(**changes: Any) -> dict[str, Any]:
    """Return a valid body for ``POST /experiments``."""
    return {
        "job": {"apiVersion": "v1", "name": "search", "queue": "vision", "command": ["train", "--lr", "{lr}"]},
        "space": {"lr": {"low": 0.001, "high": 1.0, "log": True}},
        "configurations": 2,
        "total_steps": 100,
        "feedback_steps": 10,
        "target_loss": 0.1,
        **changes,
    }


def experiment_make(queue: Queue, owner: User, **columns: Any) -> Experiment:
    """Return a running experiment with one queued configuration."""
    body = experiment_body()
    experiment = Experiment.objects.create(
        **{
            "id": ulid_make(),
            "name": "search",
            "queue": queue,
            "owner": owner,
            "spec": body["job"],
            "space": body["space"],
            "sampler": "random",
            "size": 1,
            "total_steps": 100,
            "feedback_steps": 10,
            "target_loss": 0.1,
            "created_at": AT,
            **columns,
        }
    )
    job = job_make(queue, owner=owner, name=f"{experiment.name}-1")
    Configuration.objects.create(experiment=experiment, number=1, job=job, values={"lr": 0.01})
    return experiment
