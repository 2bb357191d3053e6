"""Simulated servers for a product that runs: registered in its database, with jobs that train on and on.

python -m benchmarks.support.many_servers SERVERS SLOTS JOBS    # in the product's environment; prints configurations
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any

JOBS_AT_ONCE = 500
DAY_S = 86_400


def main() -> None:
    """Register the servers, let all queues use them, and submit the jobs, each of which takes one slot."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User

    from scheduler.management.commands.add_server import write_private
    from scheduler.models import Cluster, Queue
    from scheduler.ports import live_ports
    from scheduler.services.cluster.servers import agent_config, server_register
    from scheduler.services.jobs.check import jobs_checked
    from scheduler.services.jobs.submit import jobs_store
    from scheduler.services.permission import OPERATOR
    from scheduler.services.queues.create import queue_create

    servers, slots, jobs = map(int, sys.argv[1:])
    at = datetime.now(UTC)
    admin = User.objects.get(username="admin")
    Cluster.objects.update(user_most_queued=1_000_000)
    Queue.objects.update(may_borrow=True, max_gpus=None)
    queue_create(actor=admin, name="sizing", parent=None, quota_gpus=slots * servers, at=at)
    paths = []
    for number in range(servers):
        name = f"bench-{number:04d}"
        paths.append(settings.VAR_DIR / "agents" / f"{name}.json")
        server = server_register(actor=OPERATOR, name=name, rack="", at=at)
        config = agent_config(
            server, redis_url=settings.REDIS_URL, shared_dir=str(settings.SHARED_DIR),
            state_dir=str(settings.VAR_DIR / "agents" / name), cpu_slots=slots, cpu_ids=list(range(64)),
            memory_bytes=2**39,
        )  # fmt: skip
        write_private(paths[-1], config)
    for first in range(0, jobs, JOBS_AT_ONCE):
        data = [_spec(number) for number in range(first, min(jobs, first + JOBS_AT_ONCE))]
        jobs_store(jobs_checked(actor=admin, data=data), at=at, ids=live_ports().ids)
    print(json.dumps([str(path) for path in paths]))


def _spec(number: int) -> dict[str, Any]:
    """Return a job of one slot; every second one takes so long for a step that few reports show one."""
    rate = 1.0 if number % 2 else 0.001
    return {
        "apiVersion": "v1",
        "name": f"sizing-{number}",
        "queue": "sizing",
        "command": ["python", "train.py"],
        "env": {"SIMULATED_STEPS": str(10 * DAY_S), "SIMULATED_STEPS_PER_S": str(rate)},
        "resources": {"gpus": 1},
    }


if __name__ == "__main__":
    main()
