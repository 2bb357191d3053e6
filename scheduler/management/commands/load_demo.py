"""Command: fill an empty database with the demo; on later starts only bring the address in ``demo.json`` up to date."""

import json
import os
import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from scheduler.core.spec.spec import JobSpec
from scheduler.management.commands.add_server import write_private
from scheduler.management.demo import (
    CPU_SLOTS,
    JOBS,
    LAS_LIMIT_GPU_S,
    QUEUES,
    ROOT_QUEUE,
    USERS,
    DemoServer,
    demo_servers,
    machine_gpus,
)
from scheduler.management.virtual_ports import VirtualBell
from scheduler.models import Cluster, Queue
from scheduler.models.queue import Role
from scheduler.notify import use_bell
from scheduler.ports import Ports, live_ports
from scheduler.services.accounts.tokens import token_create
from scheduler.services.cluster.servers import agent_config, server_register
from scheduler.services.cluster.settings import settings_change
from scheduler.services.jobs.submit import job_submit
from scheduler.services.queues.create import queue_create
from scheduler.services.queues.members import membership_set

SCOPES = ["jobs:read", "jobs:write"]
LEAD_SCOPES = [*SCOPES, "queues:admin", "whatif"]  # what docs/leads.md does by REST
ADMIN_SCOPES = [*LEAD_SCOPES, "admin"]


class Command(BaseCommand):
    """``manage.py load_demo --url http://127.0.0.1:8000``"""

    help = "Load the demo into an empty database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", required=True, help="where people reach the product")
        parser.add_argument(
            "--min-run-s", type=float, default=0.0, help="how long a job runs before the order may stop it, seconds"
        )
        parser.add_argument("--without-jobs", action="store_true", help="leave the list of jobs empty")

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.VAR_DIR / "demo.json"
        if get_user_model().objects.exists():
            if path.exists():
                write_private(path, {**json.loads(path.read_text()), "url": options["url"]})
            return
        use_bell(VirtualBell())  # the product is not started yet, and its first round plans everything anyway
        try:
            self._fill(path, options)
        finally:
            use_bell(None)

    def _fill(self, path: Path, options: dict[str, Any]) -> None:
        ports = live_ports()
        at = ports.clock.now()
        with transaction.atomic():
            admin = get_user_model().objects.create_superuser("admin")
            servers = demo_servers(machine_gpus())
            queues = create_queues(admin=admin, num_gpus=sum(server.num_gpus for server in servers), at=at)
            users = create_users(admin=admin, queues=queues, at=at)
            create_servers(admin=admin, servers=servers, at=at)
            choose_policy(admin=admin, min_run_s=options["min_run_s"], at=at)
            if not options["without_jobs"]:
                submit_jobs(ports=ports, most_gpus=min(server.num_gpus for server in servers), at=at)
            write_private(path, {"url": options["url"], "users": users})


def create_queues(*, admin: Any, num_gpus: int, at: datetime) -> dict[str, Queue]:
    """Create one root and the two teams' queues below it, which share the GPUs."""
    quota = max(1, num_gpus // len(QUEUES))
    root = queue_create(actor=admin, name=ROOT_QUEUE, parent=None, quota_gpus=quota * len(QUEUES), at=at)
    return {name: queue_create(actor=admin, name=name, parent=root, quota_gpus=quota, at=at) for name in QUEUES}


def create_users(*, admin: Any, queues: dict[str, Queue], at: datetime) -> dict[str, dict[str, str]]:
    """Create the users with random passwords and tokens; return their part of ``demo.json``."""
    secrets_of: dict[str, dict[str, str]] = {}
    for demo in USERS:
        password = secrets.token_urlsafe(12)
        user, _ = get_user_model().objects.get_or_create(username=demo.name)
        user.set_password(password)
        user.save()
        if demo.queue:
            membership_set(actor=admin, queue=queues[demo.queue], user=user, role=Role(demo.role), at=at)
        scopes = ADMIN_SCOPES if demo.admin else LEAD_SCOPES if demo.role == Role.LEAD else SCOPES
        _, token = token_create(actor=user, name="demo", scopes=scopes, expires_at=None, at=at)
        secrets_of[demo.name] = {"password": password, "token": token}
    return secrets_of


def create_servers(*, admin: Any, servers: Sequence[DemoServer], at: datetime) -> None:
    """Register the servers of this machine and share its cores and memory out among them."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // len(servers))
    memory_bytes = int(psutil.virtual_memory().total * 0.8) // len(servers)
    for index, demo in enumerate(servers):
        own = cores[index * each : (index + 1) * each] or cores[-1:]
        server = server_register(actor=admin, name=demo.name, rack="rack-1", may_mix_queues=True, at=at)
        state_dir = settings.VAR_DIR / "agents" / demo.name
        write_private(
            Path(settings.VAR_DIR / "agents" / f"{demo.name}.json"),
            agent_config(
                server,
                redis_url=settings.REDIS_URL,
                shared_dir=str(settings.SHARED_DIR),
                state_dir=str(state_dir),
                cpu_slots=CPU_SLOTS,
                cpu_ids=own,
                gpu_uuids=list(demo.gpu_uuids) or None,
                memory_bytes=memory_bytes,
            ),
        )


def choose_policy(*, admin: Any, min_run_s: float, at: datetime) -> None:
    """Choose LAS with a small limit, so that a visitor sees preemption soon, and jobs of half a minute end before."""
    version = Cluster.objects.get(pk=1).settings_version
    options = {"queue_limits_gpu_s": [LAS_LIMIT_GPU_S]}
    changes = {"policy": "las", "policy_options": options, "min_run_s": min_run_s}
    settings_change(actor=admin, changes=changes, expected_version=version, at=at, reason="for the demo")


def submit_jobs(*, ports: Ports, most_gpus: int, at: datetime) -> None:
    """Submit the jobs in the name of their owners; none asks for more GPUs than a server has."""
    for job in JOBS:
        spec = JobSpec.parse(
            {
                "apiVersion": "v1",
                "name": job.name,
                "queue": job.queue,
                "command": ["python", "-m", f"agents.workloads.{job.workload}", *job.arguments.split()],
                "resources": {"gpus": min(job.gpus, most_gpus)},
                "labels": {"model": job.workload},
            }
        )
        owner = get_user_model().objects.get(username=job.owner)
        job_submit(actor=owner, spec=spec, at=at, ids=ports.ids)
