"""What a page says to type in a shell: the REST path answers the reader of the page, the command is one that exists."""

import re
import shlex
from html import unescape

import pytest

from clusterweb.cli.main import command_parser
from scheduler.core.model.lifecycle import JobState
from tests.integration.page_frame.frame_world import ROLES, World, world_make

pytestmark = pytest.mark.django_db

PATHS = (
    "/",
    "/jobs",
    "/jobs?state=active&owner=me&search=a b%26c&idle=true",
    "/jobs?state=queued&queue=org",
    "/queues",
    "/queues/canary-vision",
    "/cluster",
    "/cluster/server-1",
    "/rounds",
    "/rounds/1",
    "/experiments",
    "/whatif",
    "/me",
    "/webhooks",
    "/admin",
    "/admin/shadow",
    "/admin/users",
    "/admin/users/canary-mia",
    "/admin/audit",
)
SOON = {"member", "lead", "admin"}  # the others are tried by the long tests
SOME_ROLES = [pytest.param(role, marks=[] if role in SOON else [pytest.mark.long]) for role in ROLES]
TABS = ("", "/why", "/logs", "/files", "/metrics", "/placement", "/events", "/attempts")


@pytest.fixture
def world() -> World:
    return world_make()


def told(html: str) -> list[str]:
    """Return the texts to copy of the part of the frame."""
    part = html.partition('id="from-shell"')[2].partition("</details>")[0]
    return [unescape(text) for text in re.findall(r"<pre[^>]*>(.*?)</pre>", part, flags=re.DOTALL)]


@pytest.mark.parametrize("role", SOME_ROLES)
def test_what_a_page_says_to_type_answers(world: World, role: str) -> None:
    """For every page that a role may open."""
    client = world.client(role)
    number = world.jobs[JobState.RUNNING].number
    shown = 0
    for path in (*PATHS, *(f"/jobs/J-{number}{tab}" for tab in TABS)):
        page = client.get(path)
        if page.status_code in (403, 404):
            continue
        assert page.status_code == 200, path
        texts = told(page.content.decode())
        curl = next(shlex.split(text) for text in texts if text.startswith("curl "))
        answer = client.get(curl[-1].removeprefix("http://testserver"))
        assert answer.status_code == 200, (path, curl[-1], answer.content)
        assert answer.headers["Content-Type"].startswith("application/json"), path
        python = next(text for text in texts if text.startswith("import "))
        compile(python, path, "exec")
        assert curl[-1] in python
        for command in (text for text in texts if text.startswith("clusterweb ")):
            command_parser().parse_args(shlex.split(command)[1:])
        shown += 1
    assert shown >= 11, "so many pages are open to everybody"


def test_the_command_narrows_as_the_page_does(world: World) -> None:
    """The filters of the list of jobs are options of the command and parameters of REST."""
    html = world.client("member").get("/jobs?state=active&owner=me&search=a b%26c&idle=true").content.decode()

    command, curl, _ = told(html)

    asked = command_parser().parse_args(shlex.split(command)[1:])
    assert (asked.owner, asked.search, asked.idle) == ("canary-mia", "a b&c", True)
    assert set(asked.state.split(",")) >= {"queued", "running", "parked"}
    assert "completed" not in asked.state
    assert "search=a+b%26c&idle=true" in curl


def test_a_page_without_a_path_of_rest_says_nothing(world: World) -> None:
    """A form tells nothing that could be read."""
    assert told(world.client("member").get("/jobs/new").content.decode()) == []
