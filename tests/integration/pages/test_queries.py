"""Pages and lists cost no more queries when there is more to show: each is asked twice, before and after more comes."""

from datetime import timedelta

from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.core.model.lifecycle import JobState
from tests.integration.api.conftest import World
from tests.integration.api.routes import api_routes, call_of
from tests.support.pages.world import page_paths
from tests.support.roles.matrix import PAGES
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import job_make, member_make, queue_make, round_make, sample_make, server_make
from tests.support.rows.scenarios import scenario_make, trace_file_make

MOST = 60  # queries of one page
NOT_LISTED = {"metrics", "api-schema", "api-docs", "api-job-log-stream", "api-job-archive"}


def grow(world: World) -> None:
    """Add some of everything that lists show."""
    now = timezone.now()
    for number in range(5):
        server = server_make(f"more-{number}", gpus=4, last_report_at=now)
        owner = member_make(world.vision)
        for state in (JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED, JobState.FAILED):
            job_make(world.vision, state=state, owner=owner, server=server, at=now - timedelta(minutes=9))
        sample_make("server", server.pk, now - timedelta(minutes=3), gpu_frac=[0.1])
        queue_make(f"org/more-{number}", parent=world.org)
        round_make(number + 10, at=now)
        experiment_make(world.vision, owner, name=f"more-{number}")
        scenario_make(world.users["admin"])
        trace_file_make(world.users["admin"])
    job_make(world.vision, owner=world.users["admin"], wait_reason="no_capacity", wait_position=2, wait_round=1)


def urls(world: World) -> dict[str, str]:
    """Return every page that an admin can read, and every list and object of the API."""
    found = {
        name: path
        for name, path in page_paths(world, "admin").items()
        if PAGES.get(f"GET {name.split()[0]}", (200,))[-1] == 200
    }
    for route in api_routes():
        if route.method == "get" and route.name not in NOT_LISTED:
            found[str(route)] = reverse(route.name, kwargs=call_of(world, route, "admin").kwargs)
    return found


def queries(client: Client, path: str) -> list[str]:
    """Return the queries of one request that must succeed, and finds no figures of an earlier one kept for a minute."""
    cache.clear()
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)

    assert answer.status_code == 200, path
    return [query["sql"] for query in captured]


def test_more_of_everything_costs_no_more_queries(world: World) -> None:
    """A page reads what it shows by a number of queries that does not follow the number of rows."""
    client = world.client("admin")
    paths = urls(world)
    for path in paths.values():
        client.get(path)  # what is read once and kept
    before = {name: queries(client, path) for name, path in paths.items()}
    grow(world)
    after = {name: queries(client, path) for name, path in paths.items()}

    grown = {name: (len(before[name]), len(after[name])) for name in paths if len(after[name]) > len(before[name])}
    many = {name: len(found) for name, found in before.items() if len(found) > MOST}
    assert not grown, grown
    assert not many, many
