"""The recipe for a page: a folder with views, a template and routes, and one line each in three files.

The page lists the jobs that wait. Its folder is laid beside the others only while these tests run.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import clear_url_caches, include, path

import clusterweb.urls
import frontend.pages
import frontend.urls
from frontend.components import context, from_shell
from tests.integration.api.conftest import World, world_make
from tests.integration.pages.test_roles import test_every_page_has_its_lines_in_the_table as roles_are_told
from tests.support.pages.routes import page_patterns
from tests.support.pages.world import page_paths, page_paths_of_nothing
from tests.support.roles.matrix import ROLES
from tests.support.rows.factories import job_make, user_make

VIEWS = """
from django.shortcuts import render
from django.views.decorators.http import require_safe

from scheduler.core.model.lifecycle import JobState
from scheduler.selectors.jobs.listing import JobFilters, job_list


@require_safe
def waiting(request):
    jobs = job_list(request.user, JobFilters(states=(JobState.QUEUED,)))
    return render(request, "waiting/waiting.html", {"jobs": jobs})
"""
URLS = """
from django.urls import path

from frontend.pages.waiting import views

urlpatterns = [path("waiting", views.waiting, name="waiting")]
"""
TEMPLATE = """{% extends "components/base.html" %}
{% block title %}Waiting{% endblock %}{% block page_name %}Waiting{% endblock %}
{% block content %}
<h1>Waiting</h1>
{% if jobs %}<ul>{% for job in jobs %}<li>{{ job.name }}</li>{% endfor %}</ul>
{% else %}<section class="card"><div class="empty"><p>No job waits.</p></div></section>{% endif %}
{% endblock %}
"""
BESIDE = '        ("/experiments", "gauge", "Experiments"),\n'  # the line of context.py that the new one goes below
LINE = '        ("/waiting", "list", "Waiting"),\n'


@pytest.fixture(autouse=True)
def _added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The steps of the recipe."""
    files = {"__init__.py": "", "views.py": VIEWS, "urls.py": URLS, "templates/waiting/waiting.html": TEMPLATE}
    for name, text in files.items():
        file = tmp_path / "waiting" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(frontend.pages, "__path__", [*frontend.pages.__path__, str(tmp_path)])
    configured: Any = settings.TEMPLATES  # dictionaries of anything
    folders = sorted(tmp_path.glob("*/templates"))  # as settings.py finds those of frontend/pages
    templates = [{**found, "DIRS": [*found["DIRS"], *folders]} for found in configured]
    line = path("", include("frontend.pages.waiting.urls"))
    monkeypatch.setattr(frontend.urls, "urlpatterns", [*frontend.urls.urlpatterns, line])
    monkeypatch.setattr(clusterweb, "urls", clusterweb.urls)  # put back after the test; routes keep what they include
    monkeypatch.delitem(sys.modules, "clusterweb.urls")
    source = inspect.getsource(context._nav)
    monkeypatch.setattr(context, "_nav", context._nav)  # put back after the test
    assert BESIDE in source
    exec(source.replace(BESIDE, BESIDE + LINE), context.__dict__)
    monkeypatch.setitem(from_shell._READS, "waiting", ("jobs", "ls"))
    with override_settings(TEMPLATES=templates):
        clear_url_caches()
        yield
    clear_url_caches()
    for name in [name for name in sys.modules if name.startswith("frontend.pages.waiting")]:
        del sys.modules[name]


@pytest.fixture
def world(db: None) -> World:
    """A user of each role, and a job that waits in ``vision``."""
    made = world_make()
    job_make(made.vision, owner=made.users["member"], name="canary-waits")
    return made


def test_each_role_gets_what_it_may_see(world: World) -> None:
    """Sign-in comes first without a line in the view, and the selector leaves out other teams' jobs."""
    answers = {role: world.client(role).get("/waiting") for role in ROLES}

    assert [answer.status_code for answer in answers.values()] == [302, 200, 200, 200, 200, 200]
    assert answers["anonymous"]["Location"] == "/sign-in?next=/waiting"
    assert "No job waits." in answers["outsider"].content.decode()
    assert "canary-waits" in answers["viewer"].content.decode()
    assert world.client("member").post("/waiting").status_code == 405


def test_it_has_an_empty_state(db: None) -> None:
    """On a cluster without a job."""
    client = Client()
    client.force_login(user_make("new"))

    assert "No job waits." in client.get("/waiting").content.decode()


def test_the_navigation_shows_it(world: World) -> None:
    """On every page, and as the present one on its own."""
    client = world.client("member")

    assert 'href="/waiting"' in client.get("/jobs").content.decode()
    [current] = [item for item in client.get("/waiting").context["frame"]["nav"] if item.current]
    assert (current.label, current.path) == ("Waiting", "/waiting")


def test_it_says_what_to_type_in_a_shell(world: World) -> None:
    """The path of REST that tells the same."""
    assert "/api/v1/jobs" in world.client("member").get("/waiting").content.decode().partition('id="from-shell"')[2]


def test_the_tests_of_all_pages_find_it(world: World) -> None:
    """By its route; the table of roles asks for a row."""
    assert "waiting" in page_patterns()
    assert page_paths(world, "admin")["waiting"] == page_paths_of_nothing()["waiting"] == "/waiting"
    with pytest.raises(AssertionError, match="GET waiting"):
        roles_are_told()
