"""A server whose reports are late: pages say so, and call none of its devices idle."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from frontend.components.gpu_cells import silent_line
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Server
from scheduler.selectors.cluster.servers import server_list
from tests.support.rows.factories import job_make, sample_make, server_make, user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]
SPACES = str.maketrans("\u00a0\u202f", "  ")


@pytest.fixture
def late() -> Server:
    """A server that is up, of which the last report is 80 s old, with two devices held; another one reports."""
    now = timezone.now()
    late = server_make("gpu-01", gpus=3, last_report_at=now - timedelta(seconds=80, milliseconds=500))
    job_make(state=JobState.RUNNING, num_gpus=2, server=late)
    server_make("gpu-02", gpus=2, last_report_at=now + timedelta(minutes=1))
    for minutes in (2, 1):
        at = now - timedelta(minutes=minutes)
        sample_make("cluster", 1, at, num_gpus=5, allocated_gpus=2, busy_gpus=0, unknown_gpus=2)
    return late


def shown(path: str) -> str:
    """Return a page as a user sees it."""
    client = Client()
    client.force_login(User.objects.filter(username="ada").first() or user_make("ada"))
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode().translate(SPACES)


def test_overview_calls_nothing_idle_of_which_no_report_came(late: Server) -> None:
    """Neither its tiles nor its chart; the sentence names the server and the time."""
    page = shown("/")
    tile = re.search(r'id="tile-utilization".*?data-part="delta">(.*?)<', page, re.DOTALL)

    assert tile is not None
    assert tile[1].split(", ")[1:] == ["0 idle", "2 not known"]
    assert re.search(r"No report of gpu-01 for 1 min \d+ s; the use of 2 CPU slots held there is not known\.", page)
    assert "0 % of the CPU slots that take jobs were busy" in page
    assert "no report for 1 min " in page


def test_mean_utilization_is_of_what_is_known(late: Server) -> None:
    """With no report at all there is no mean: not 0 %."""
    Server.objects.filter(name="gpu-02").update(last_report_at=timezone.now() - timedelta(minutes=2))
    page = shown("/")
    tile = re.search(r'id="tile-utilization">.*?id="tile-waiting"', page, re.DOTALL)

    assert tile is not None
    assert 'class="none">not known<' in tile[0]


def test_cluster_page_says_how_old_the_report_is(late: Server) -> None:
    """In the title, the map, the line of the server and, on its own page, beside its state."""
    page = shown("/cluster")

    assert "2 of 5 CPU slots are allocated" in page
    assert "and their use is not known" in page
    assert "all reporting" not in page
    assert page.count('class="cell unknown"') == 2
    assert re.search(r'class="badge.*?Up.*?t-warn">no report for 1 min \d+ s<', page, re.DOTALL)
    page = shown(f"/cluster/{late.pk}")
    assert re.search(r"no report for 1 min \d+ s: how far its CPU slots are used is not known", page)
    assert page.count("not known</span></td>") == 2


def test_map_of_temperatures_shows_what_is_not_known(late: Server) -> None:
    """What is held is not drawn as free because nothing tells how warm it is."""
    page = shown("/cluster?view=temperature")

    assert page.count('class="cell unknown"') == 2
    assert '<i class="unknown"></i>not known' in page


def test_lost_servers_are_told_of_by_their_state(late: Server) -> None:
    """All its devices are known to be out of use: no sentence of its reports beside that."""
    Server.objects.filter(pk=late.pk).update(state="lost")

    assert silent_line(server_list(user_make("ada", admin=True))) == ""
