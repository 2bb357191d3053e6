"""The recipe for a policy, where a cluster runs: one entry in ``POLICIES``, and rounds, pages, REST and the command
follow.

What only computes is in ``tests/unit/recipes/test_policy.py``.
"""

from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Round
from scheduler.policies import POLICIES
from scheduler.services.cluster.settings import cluster_row
from tests.support.live.simulations import BUSY
from tests.support.live.world import World
from tests.support.recipes.smallest_first import SmallestFirst

HELP = "Fewest GPUs first; among equals earliest submission first."
OPTION = "policy.smallest-first.cap_gpus"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, SmallestFirst.name, SmallestFirst)


def test_an_admin_chooses_it_and_rounds_follow_it(world: World, admin: Client) -> None:
    """The settings page offers it with its option; the next round stops the wide job for the narrow one."""
    world.server("alpha", slots=2)
    wide = world.submit(gpus=2)
    world.until_state(wide, JobState.RUNNING)
    page = admin.get("/admin").content.decode()
    form = {
        "policy": "smallest-first",
        "locality": "consolidate",
        "mechanism": "tune",
        OPTION: "4",
        "smoke_run_s": "0",
        "reason": "as agreed",
    }
    sent = admin.post("/admin", {**form, "version": cluster_row().settings_version})
    narrow = world.submit(gpus=1)
    world.until_state(narrow, JobState.RUNNING)
    newest = Round.objects.latest("number")

    assert 'value="smallest-first"' in page
    assert f'name="{OPTION}"' in page
    assert sent.status_code == 302
    assert world.state(wide) == JobState.QUEUED
    assert (newest.policy, newest.policy_options) == ("smallest-first", {"cap_gpus": 4})
    assert "in the order of smallest-first" in admin.get(f"/rounds/{newest.number}").content.decode()


def test_an_option_out_of_bounds_is_refused_on_the_page(world: World, admin: Client) -> None:
    """By the bounds that the field of the dataclass gives."""
    form = {
        "policy": "smallest-first",
        "locality": "consolidate",
        "mechanism": "tune",
        OPTION: "0",
        "smoke_run_s": "0",
        "reason": "as agreed",
    }
    answer = admin.post("/admin", {**form, "version": cluster_row().settings_version})

    policies, *_ = answer.context["sections"]
    [field] = [field for choice in policies.choices if choice.name == "smallest-first" for field in choice.fields]

    assert answer.status_code == 422
    assert "at least 1" in field.error
    assert cluster_row().policy != "smallest-first"


def test_rest_and_the_page_of_questions_offer_it(world: World, admin: Client) -> None:
    """Both are drawn from the registry."""
    offered = {choice["name"]: choice for choice in admin.get("/api/v1/policies").json()["policies"]}

    assert offered["smallest-first"]["help"] == HELP
    assert [option["name"] for option in offered["smallest-first"]["parameters"]] == ["cap_gpus"]
    assert "smallest-first" in admin.get("/whatif/new").content.decode()


def test_the_command_replays_it_on_the_fast_path_and_says_so() -> None:
    """``--verbose`` names the planner, ``--check`` compares it with ``plan_round``; a difference would be an error."""
    said = StringIO()
    arguments = (*BUSY, "--policy", "smallest-first", "--verbose", "--check")
    call_command("simulate", *arguments, stdout=StringIO(), stderr=said)

    assert "smallest-first:consolidate+proportional: single-queue rounds: " in said.getvalue()
    assert "planned from scratch as well, without a difference" in said.getvalue()
