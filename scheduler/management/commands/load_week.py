"""Command: fill an empty database with a simulated week; on later starts only keep the address up to date."""

import json
import logging
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from agents.config import config_load
from agents.simulated.server import log_line
from scheduler.management.commands.add_server import write_private
from scheduler.management.commands.load_demo import create_users
from scheduler.management.demo import ROOT_QUEUE, USERS
from scheduler.management.demo_week import (
    CPUS_A_SERVER,
    GPUS,
    GPUS_A_SERVER,
    MEMORY_BYTES_A_SERVER,
    SERVERS,
    Team,
    Week,
)
from scheduler.management.virtual_ports import VirtualBell
from scheduler.models import Cluster, Lease, Queue, Sample, UsageHour
from scheduler.models.queue import Role
from scheduler.notify import use_bell
from scheduler.ports import live_ports
from scheduler.services.cluster.servers import agent_config, server_register
from scheduler.services.cluster.settings import settings_change
from scheduler.services.queues.create import queue_create
from scheduler.services.queues.members import membership_set
from scheduler.services.whatif.scenarios import scenario_create

# Queue, its quota, and the numbers of its users beside ``demo.USERS``.
QUEUES = (("language", 14, range(1, 5)), ("vision", 12, range(5, 8)), ("speech", 6, range(8, 10)))
# Of this process alone: on the virtual clock servers are heard seldom, and simulated ones let no lease run out.
LEASE_TTL_S = 86_400.0
# A level of 10 GPU-hours suits jobs of hours: under the default of 54 GPU-minutes twice as many are stopped.
LIMITS_GPU_S = (36_000.0,)
MIN_RUN_S = 300.0
SAMPLE_S = 60  # resolution of samples older than a day
HOUR = timedelta(hours=1)
INTERRUPTED = (
    "The week of the demonstration was interrupted while it was made, and cannot be continued. "
    "Remove the folder {folder} and start again."
)


class Command(BaseCommand):
    """``manage.py load_week --url http://127.0.0.1:8000``"""

    help = "Load a week of a simulated cluster into an empty database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", required=True, help="where people reach the product")

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.VAR_DIR / "demo.json"
        if get_user_model().objects.exists():
            if not path.exists():
                raise CommandError(INTERRUPTED.format(folder=settings.VAR_DIR))
            write_private(path, {**json.loads(path.read_text()), "url": options["url"]})
            return
        settings.LEASE_TTL_S = LEASE_TTL_S
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA synchronous = OFF")  # a week that is not whole is of no use anyway
        self.stdout.write("Living through a week of a simulated cluster, once:")
        log = logging.getLogger("scheduler")
        level = log.level
        log.setLevel(logging.WARNING)  # a thousand rounds
        use_bell(VirtualBell())
        try:
            write_private(path, {"url": options["url"], "users": self._fill()})
        finally:
            use_bell(None)
            log.setLevel(level)

    def _fill(self) -> dict[str, dict[str, str]]:
        clock = live_ports().clock
        week = Week(until=clock.now(), tells=self.stdout.write)
        with transaction.atomic():
            users, teams = create_teams(at=week.clock.now())
            configs = create_servers(at=week.clock.now())
        for path in configs:
            week.add_server(config_load(path), says=log_line(settings.SHARED_DIR))
        week.live(teams, until=clock.now)
        Sample.objects.update(resolution_s=SAMPLE_S)
        measure_use(until=week.clock.now())
        ask_what_if(at=clock.now())
        for path, server in zip(configs, week.servers, strict=True):
            write_private(path.with_suffix(".state"), server.kept())
        return users


def create_teams(*, at: datetime) -> tuple[dict[str, dict[str, str]], tuple[Team, ...]]:
    """Create queues and users; return the users' part of ``demo.json``, and the teams."""
    admin = get_user_model().objects.create_superuser("admin")
    root = queue_create(actor=admin, name=ROOT_QUEUE, parent=None, quota_gpus=GPUS, at=at)
    queues: dict[str, Queue] = {}
    for name, quota, _ in QUEUES:
        queues[name] = queue_create(actor=admin, name=name, parent=root, quota_gpus=quota, at=at)
    users = create_users(admin=admin, queues=queues, at=at)
    changes = {
        "policy": "las",
        "policy_options": {"queue_limits_gpu_s": list(LIMITS_GPU_S)},
        "mechanism": "proportional",
        "min_run_s": MIN_RUN_S,
    }
    version = Cluster.objects.get(pk=1).settings_version
    settings_change(actor=admin, changes=changes, expected_version=version, at=at, reason="for the demo week")
    teams = []
    for name, _, numbers in QUEUES:
        names = [user.name for user in USERS if user.queue == name]
        for number in numbers:
            user = get_user_model().objects.create_user(f"user-{number}")  # without a password: cannot sign in
            membership_set(actor=admin, queue=queues[name], user=user, role=Role.MEMBER, at=at)
            names.append(user.username)
        teams.append(Team(queue=name, users=tuple(names)))
    return users, tuple(teams)


def create_servers(*, at: datetime) -> list[Path]:
    """Register the simulated servers; return the configurations of their agents."""
    admin = get_user_model().objects.get(username="admin")
    paths = []
    for number in range(1, SERVERS + 1):
        name = f"sim-{number:02d}"
        server = server_register(actor=admin, name=name, rack=f"rack-{(number + 1) // 2}", at=at)
        paths.append(settings.VAR_DIR / "agents" / f"{name}.json")
        write_private(
            paths[-1],
            agent_config(
                server,
                redis_url=settings.REDIS_URL,
                shared_dir=settings.SHARED_DIR,
                state_dir=settings.VAR_DIR / "agents" / name,
                cpu_slots=GPUS_A_SERVER,
                cpu_ids=list(range(CPUS_A_SERVER)),
                memory_bytes=MEMORY_BYTES_A_SERVER,
            ),
        )
    return paths


def ask_what_if(*, at: datetime) -> None:
    """Ask what two days of the week would have been under other policies; the worker answers once it runs."""
    admin = get_user_model().objects.get(username="admin")
    since = at - timedelta(days=5)  # so that nearly all that was submitted then has ended
    body = {
        "name": "Two days under other policies",
        "start": {"kind": "past", "since": since.isoformat(), "until": (since + timedelta(days=2)).isoformat()},
        "variants": [{"policy": "las"}, {"policy": "srtf"}, {"policy": "fifo"}],
        "seeds": [1],
    }
    scenario_create(actor=admin, body=body, at=at)


def measure_use(*, until: datetime) -> None:
    """Write how busy held GPUs were by the hour: reports were too far apart on the virtual clock to tell."""
    busy: dict[tuple[datetime, int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    frac_of = dict(
        Sample.objects.filter(scope="job", values__has_key="gpu_frac").values_list("scope_id", "values__gpu_frac")
    )
    columns = ("attempt__job_id", "attempt__job__queue_id", "attempt__job__owner_id", "num_gpus", "opened_at")
    for job_id, queue_id, user_id, num_gpus, opened_at, closed_at in Lease.objects.values_list(*columns, "closed_at"):
        hour, end = opened_at.replace(minute=0, second=0, microsecond=0), closed_at or until
        while hour < end and job_id in frac_of:
            gpu_s = num_gpus * (min(end, hour + HOUR) - max(opened_at, hour)).total_seconds()
            before = busy[hour.astimezone(UTC), queue_id, user_id]
            busy[hour.astimezone(UTC), queue_id, user_id] = (before[0] + gpu_s, before[1] + gpu_s * frac_of[job_id])
            hour += HOUR
    UsageHour.objects.all().delete()
    UsageHour.objects.bulk_create(
        UsageHour(hour=hour, queue_id=queue_id, user_id=user_id, measured_gpu_s=measured, busy_gpu_s=used)
        for (hour, queue_id, user_id), (measured, used) in sorted(busy.items())
    )
