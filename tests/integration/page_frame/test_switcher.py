"""The switcher of queues shows where the reader is or what filters the page, never what was visited before."""

import re

import pytest
from django.test import Client

from scheduler.models.queue import Role
from tests.support.rows.factories import member_make, queue_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


def shown(client: Client, path: str) -> str:
    """Return what the switcher says on a page."""
    page = client.get(path).content.decode()
    found = re.search(r'<details class="menu switcher".*?<span class="name">(.*?)</span>', page, re.DOTALL)
    assert found is not None
    return found[1]


def test_it_follows_the_page() -> None:
    """On the first visit of a queue too, and not after it."""
    queue = queue_make("team/vision")
    queue_make("speech")
    client = Client()
    client.force_login(member_make(queue, Role.LEAD))

    assert shown(client, "/queues/team/vision") == "team/vision"
    assert shown(client, "/queues/team/vision?tab=quota") == "team/vision"
    assert shown(client, "/queues/team/vision/secrets") == "team/vision"
    assert shown(client, "/jobs?queue=team/vision") == "team/vision"
    for path in ("/", "/jobs", "/queues", "/cluster", "/jobs?queue=speech", "/jobs?queue=nowhere"):
        assert shown(client, path) == "All queues", path
