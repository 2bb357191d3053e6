"""A small cluster for the tests of the pages: two teams, a user for each role, jobs in every state, samples."""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job, Queue, Server
from scheduler.models.queue import Role
from scheduler.services.cluster.settings import cluster_row
from tests.support.rows.factories import (
    job_make,
    member_make,
    queue_make,
    round_make,
    sample_make,
    server_make,
    user_make,
)

ROLES = ("outsider", "viewer", "member", "lead", "org lead", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the tests ask about.

    Attributes:
        users: By role: in ``vision``, but "org lead" leads the queue above it and "outsider" is a member of ``speech``.
        jobs: Of ``vision``, by state.
    """

    users: dict[str, User]
    org: Queue
    vision: Queue
    speech: Queue
    server: Server
    jobs: dict[JobState, Job]

    def client(self, role: str) -> Client:
        """Return a browser in which the user of a role has signed in."""
        client = Client()
        client.force_login(self.users[role])
        return client


def world_make(*, device_kind: str = "cpu_slot") -> World:
    """Return the world; every name in ``vision`` holds the word canary."""
    now = timezone.now()
    org = queue_make("org", quota_gpus=8)
    vision, speech = (
        queue_make("canary-vision", parent=org, quota_gpus=2),
        queue_make("speech", parent=org, quota_gpus=2),
    )
    users = {
        "outsider": member_make(speech, name="otto"),
        "viewer": member_make(vision, Role.VIEWER, name="canary-vera"),
        "member": member_make(vision, name="canary-mia"),
        "lead": member_make(vision, Role.LEAD, name="canary-lea"),
        "org lead": member_make(org, Role.LEAD, name="olga"),
        "admin": user_make("ada", admin=True),
    }
    server = server_make("server-1", gpus=6, device_kind=device_kind, last_report_at=now)
    server_make("server-2", gpus=2, broken=[1], device_kind=device_kind, last_report_at=now)
    owner, begun = users["member"], now - timedelta(hours=1)
    jobs = {
        state: job_make(vision, state=state, owner=owner, server=server, at=begun, name=f"canary-{state}")
        for state in JobState
    }
    running = jobs[JobState.RUNNING]
    Job.objects.filter(pk=running.pk).update(step=40, total_steps=100, steps_per_s=2.5)
    sample_make("queue", vision.pk, now - timedelta(minutes=9), held_gpus=3, quota_gpus=2)
    sample_make("queue", vision.pk, now - timedelta(minutes=3), held_gpus=1, quota_gpus=2)
    for minutes in (20, 10, 1):
        at = now - timedelta(minutes=minutes)
        values = {"num_gpus": 6, "allocated_gpus": 3, "busy_gpus": 2, "broken_gpus": 1, "waiting_jobs": 1}
        sample_make("cluster", 1, at, **values)
        sample_make("server", server.pk, at, gpu_frac=[0.9, 0.5, 0.0, None, 0.2, 0.1])
    cluster_row()
    Cluster.objects.update(round_number=1, round_finished_at=now)
    round_make(1, at=now, num_launched=1, num_waiting=1, decisions=_decisions(running, jobs[JobState.QUEUED], server))
    return World(users=users, org=org, vision=vision, speech=speech, server=server, jobs=jobs)


def _decisions(running: Job, queued: Job, server: Server) -> dict[str, object]:
    seat = {"server": server.number, "gpus": 1, "cpus": 1.0, "memory_bytes": 2**30}
    return {
        "grants": [{"job": running.number, "state": "launched", "seats": [seat]}],
        "preemptions": [
            {"job": queued.number, "rule": "policy_order", "by_job": running.number, "evidence": {"needed_gpus": 1}}
        ],
        "waiting": [
            {
                "job": queued.number,
                "position": 1,
                "reason": "no_capacity",
                "evidence": {"needed_gpus": 9, "free_gpus": 2},
            }
        ],
        "waiting_by_reason": {"no_capacity": 1},
    }
