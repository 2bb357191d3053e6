"""Measure pages and lists of a database with many jobs."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.bench_submit import percentile
from benchmarks.support.postgres import postgres

QUESTION = "Seconds of a page with 10,000 jobs, and of the job list with 100,000, on SQLite and PostgreSQL"
TARGET_PAGE_S = 1.0
TARGET_LIST_P95_S = 0.3
COPIES = 10  # of 9,000 ended jobs: 100,000 in all
LOOKS, REPEATS = 4, 10

PAGES = ("/", "/jobs", "/jobs/new", "/jobs/J-9504", "/jobs/J-9504/why", "/queues", "/queues/org/team-0", "/cluster",
         "/rounds", "/rounds/200", "/me", "/api/v1/overview", "/api/v1/events", "/metrics")  # fmt: skip
LISTS = (
    "/jobs", "/jobs?state=queued", "/jobs?state=active", "/jobs?state=failed", "/jobs?queue=org/team-0",
    "/jobs?owner=me", "/jobs?search=bert-17", "/jobs?search=nothing-like-it", "/jobs?search=J-4711",
    "/jobs?older_than=50000", "/jobs?newer_than=50000", "/jobs?queue=org/team-0&state=completed&search=gpt",
)  # fmt: skip
REST = (
    "", "count=true", "limit=500", "state=queued", "state=completed,failed", "queue=org/team-0", "search=bert-17",
    "search=nothing-like-it", "gpus__gte=2", "submitted_after=2026-01-01T00:00:00Z",
    *(f"ordering={sign}{name}" for name in ("submitted_at", "state_changed_at", "gpus", "priority", "name", "number")
      for sign in ("", "-")),
)  # fmt: skip


def run() -> dict[str, Any]:
    """Measure on both databases, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        found = {"sqlite": _measured_in(folder, f"sqlite:///{folder}/bench.sqlite3")}
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder, postgres() as url:
        found["postgresql"] = _measured_in(folder, url)
    return {"target_page_s": TARGET_PAGE_S, "target_list_p95_s": TARGET_LIST_P95_S, **found}


def _measured_in(folder: str, database_url: str) -> dict[str, Any]:
    return measured_apart("benchmarks.bench_pages", folder, DATABASE_URL=database_url)


def measured_apart(module: str, folder: str, **environ: str) -> dict[str, Any]:
    """Return the JSON that ``module`` prints in a process of its own, with settings of its own."""
    own = {"VAR_DIR": folder, "ALLOWED_HOSTS": "testserver", "DJANGO_SETTINGS_MODULE": "clusterweb.settings"}
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, env={**os.environ, **own, **environ}, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def timed(client: Any, path: str) -> float:
    """Return the seconds of a request that must succeed."""
    begun_s = time.perf_counter()
    answer = client.get(path)
    took_s = time.perf_counter() - begun_s
    assert answer.status_code == 200, answer
    return took_s


def pages(clients: dict[str, Any]) -> dict[str, Any]:
    """Return for each page the slowest first look of a reader, and the slowest of the looks after it."""
    found = {}
    for path in PAGES:
        looks = [[timed(client, path) for _ in range(LOOKS)] for client in clients.values()]
        found[path] = {
            "first_s": round(max(look[0] for look in looks), 3),
            "later_s": round(max(s for look in looks for s in look[1:]), 3),
        }
    return found


def lists(clients: dict[str, Any]) -> dict[str, Any]:
    """Return the 95th percentile of each way to ask for jobs, and of all together."""
    every: list[float] = []
    by_path = {}
    for words, path in ways(clients["admin"]):
        took = [timed(client, path) for client in clients.values() for _ in range(REPEATS)]
        by_path[words] = round(percentile(took, 0.95), 3)
        every += took
    return {
        "requests": len(every),
        "p50_s": round(percentile(every, 0.5), 3),
        "p95_s": round(percentile(every, 0.95), 3),
        "worst_way_p95_s": max(by_path.values()),
        "p95_s_by_way": by_path,
    }


def ways(client: Any) -> Iterator[tuple[str, str]]:
    """Yield every list with its words; of those by REST their third page as well."""
    yield from ((path, path) for path in LISTS)
    for query in REST:
        path = f"/api/v1/jobs?{query}"
        yield path, path
        if query.startswith("ordering") or not query:
            words = f"{path}, third page"
            for _ in range(2):
                path = client.get(path).json()["next"].removeprefix("http://testserver")
            yield words, path


def main() -> None:
    """Fill the database that the environment names and print what was measured."""
    import django

    django.setup()

    from django.conf import settings
    from django.core.cache import cache
    from django.core.management import call_command
    from django.db import connection, transaction
    from django.test import Client

    from benchmarks.support.many_jobs import copy_ended, fill
    from scheduler.models import Job

    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    call_command("migrate", verbosity=0)
    with transaction.atomic():
        people = fill()
    clients = {"admin": Client(), "member": Client()}
    for path in ("/healthz", "/sign-in"):
        Client().get(path)  # a new process loads its code at the first request and the first login
    for name, client in clients.items():
        client.force_login(getattr(people, name))

    def analyze() -> None:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")

    analyze()
    found: dict[str, Any] = {"first_jobs": Job.objects.count(), "pages": pages(clients)}
    with transaction.atomic():
        copy_ended(COPIES)
    analyze()
    cache.clear()  # the rate limit counts us
    found |= {"jobs": Job.objects.count(), "lists": lists(clients)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
