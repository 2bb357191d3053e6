"""Times of answers about a live cluster: the preview of a quota, a what-if of the policies, and why a job waits.

Run by ``bench_whatif.live`` as a process with settings of its own; prints the times as JSON.
"""

import json
import sys
import time
from typing import Any

from benchmarks.bench_pages import timed

RUNNING = 64
TIMES = 3


def least(call: Any) -> tuple[float, float]:  # a function without arguments
    """Return the shortest seconds of a few calls, and the CPU seconds of this process in that one."""
    found = []
    for _ in range(TIMES):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        call()
        found.append((round(time.perf_counter() - wall_s, 2), round(time.process_time() - cpu_s, 2)))
    return min(found)


def main() -> None:
    """Fill the database and print what was measured."""
    import os

    import django

    django.setup()

    from django.conf import settings
    from django.core.management import call_command
    from django.db import transaction
    from django.test import Client
    from django.utils import timezone

    from benchmarks.support import many_jobs
    from scheduler.models import Job, Queue
    from scheduler.services.queues.quotas import Quota, SiblingQuota
    from scheduler.whatif.quota_forecast import quota_forecast

    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    call_command("migrate", verbosity=0)
    waiting = int(os.environ["ANSWERS_WAITING"])
    many_jobs.ENDED = many_jobs.FIRST - RUNNING - waiting
    with transaction.atomic():
        people = many_jobs.fill()
        Job.objects.filter(number__lte=many_jobs.ENDED).update(executed_s=1_200.0)
    own, other = Queue.objects.filter(name__in=("org/team-0", "org/team-1")).order_by("name")
    after = Quota(quota_gpus=12, max_gpus=None, weight=1.0, may_borrow=True)
    told: dict[str, Any] = {}

    def preview() -> None:
        move = SiblingQuota(queue=other, quota_gpus=4)
        told.update(quota_forecast(actor=people.admin, queue=own, after=after, moves=[move], at=timezone.now()))

    preview_s, preview_cpu_s = least(preview)
    client = Client()
    client.force_login(people.admin)
    client.get("/jobs/J-1/why")  # a new process loads its code at the first request
    # A gang, which has most changes to try; each time another one, as changes are kept for a round.
    last = range(many_jobs.FIRST - RUNNING, 0, -1)
    gangs = Job.objects.filter(number__in=last[:TIMES])
    for gang in gangs:
        gang.spec["resources"] |= {"gpus": 8, "min_gpus": 8, "max_gpus": 8}
        gang.num_gpus = 8
        gang.save(update_fields=["spec", "num_gpus"])
    turns = iter(last)
    why_s, why_cpu_s = least(lambda: timed(client, f"/jobs/J-{next(turns)}/why"))
    found = {
        "preview_s": preview_s,
        "preview_cpu_s": preview_cpu_s,
        "preview_futures": told["futures"],
        "preview_hours": told["horizon_s"] / 3_600,
        "why_s": why_s,
        "why_cpu_s": why_cpu_s,
    }
    if waiting <= many_jobs.RUNNING:
        found |= what_if(people.admin)
    json.dump(found, sys.stdout)


def what_if(admin: Any) -> dict[str, float]:  # a user; models are not there before set-up
    """Return how long four policies over two seeds take until the last figure, and the CPU time of all processes."""
    import os

    from django.utils import timezone

    from frontend.components.devices import GPUS
    from frontend.pages.whatif.ready import ready_scenarios
    from scheduler.ports import live_ports
    from scheduler.services.cluster.settings import cluster_row
    from scheduler.services.whatif.scenarios import scenario_create
    from scheduler.whatif.scenarios.runner import Runner
    from scheduler.whatif.worker import LOOK_EVERY_S

    ready = ready_scenarios(cluster_row(), GPUS, capacity="")
    body = next(one.body for one in ready if one.key == "policies")
    begun_s, before = time.perf_counter(), os.times()
    scenario = scenario_create(actor=admin, body=body, at=timezone.now())
    runner = Runner(live_ports(), name="bench", slots=os.cpu_count() or 1)
    while scenario.state in ("queued", "running"):
        runner.tick()
        time.sleep(LOOK_EVERY_S)
        scenario.refresh_from_db()
    assert scenario.state == "completed", scenario.error
    took_s = time.perf_counter() - begun_s
    runner.stop()  # processes that were waited for count
    cpu_s = sum(os.times()[:4]) - sum(before[:4])
    return {"what_if_s": round(took_s, 2), "what_if_cpu_s": round(cpu_s, 2)}


if __name__ == "__main__":
    main()
