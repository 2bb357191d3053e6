"""The settings form says everything that is wrong at its field, and writes sizes with their unit."""

import re
from typing import Any

import pytest

from scheduler.models import Event
from scheduler.services.cluster.settings import cluster_row
from tests.integration.page_frame.frame_world import World, world_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


@pytest.fixture
def world() -> World:
    return world_make()


def sent(world: World, path: str = "/admin", **changes: Any) -> tuple[int, str]:
    """Return the answer to the settings form."""
    fields: dict[str, Any] = {
        "policy": "las",
        "locality": "consolidate",
        "mechanism": "tune",
        "mechanism.tune.sort_by_demand": "on",
    }
    fields |= {"reason": "as agreed", "version": cluster_row().settings_version, **changes}
    answer = world.client("admin").post(path, fields)
    return answer.status_code, answer.content.decode()


def field(page: str, id_: str) -> str:
    """Return the input of this id with what follows it up to the next field."""
    found = re.search(rf'<(?:input|select)[^>]* id="{id_}"|<(?:input|select) id="{id_}"', page)
    assert found is not None, id_
    return page[found.start() :].partition("<label")[0]


def test_everything_wrong_stands_at_its_field(world: World) -> None:
    """All at once; each field is marked, leads to its sentence, and the first one has the focus."""
    bad = {"policy.las.queue_limits_gpu_s": "a lot", "smoke_run_s": "long", "user_most_queued": "0", "reason": " "}
    status, page = sent(world, **bad, code_most_bytes="huge")
    words = {
        "id_policy_las_queue_limits_gpu_s": "",
        "id_smoke_run_s": "must be a number of seconds",
        "id_user_most_queued": "must be a whole number from 1 to 1,000,000.",
        "id_code_most_bytes": "Size of a sent folder must be a size from 1 KiB to 1 TiB, such as 16 GiB.",
        "id_reason": "Why needs 3 to 500 characters: it is kept in the audit list.",
    }

    assert status == 422
    for id_, said in words.items():
        one = field(page, id_)
        assert 'aria-invalid="true"' in one, id_
        assert f'aria-describedby="{id_}_note"' in one
        assert f'class="error" id="{id_}_note"' in one
        assert said in one
        assert f'<li><a href="#{id_}">' in page
    assert page.partition("<main")[2].partition("</main>")[0].count(" autofocus>") == 1
    assert "autofocus" in field(page, re.findall(r'<li><a href="#(id_[a-z_]+)">', page)[0])


def test_a_blank_why_has_the_focus_and_is_not_the_reason_of_the_pause(world: World) -> None:
    """The box of the pause says what it is for, and is not marked."""
    status, page = sent(world, reason="")

    assert status == 422
    assert "autofocus" in field(page, "id_reason")
    assert "aria-invalid" not in field(page, "pause-reason")
    assert 'for="pause-reason">Reason to pause<' in page


def test_the_pause_without_a_reason_says_so_at_its_own_field(world: World) -> None:
    """Not in a note that goes away, and the settings are shown as they are."""
    status, page = sent(world, "/admin/pause", paused="1", reason="")

    assert status == 422
    assert "Reason needs at least 3 characters." in field(page, "pause-reason")
    assert 'aria-describedby="pause-reason_note"' in field(page, "pause-reason")
    assert "aria-invalid" not in field(page, "id_reason")
    assert not cluster_row().paused


def test_a_restore_without_a_reason_says_so_at_its_own_field(world: World) -> None:
    """On the page that asks."""
    assert sent(world, policy="fifo")[0] == 302
    event = Event.objects.get(kind="settings")
    status, page = sent(world, f"/admin/restore/{event.pk}", reason="")

    assert status == 422
    assert "Why needs at least 3 characters." in field(page, "reason")


@pytest.mark.parametrize(
    ("typed", "stored", "shown"),
    [("16 GiB", 16 * 2**30, "16 GiB"), ("512MiB", 2**29, "512 MiB"), ("1048577", 1048577, "1048577 B")],
)
def test_sizes_are_written_with_their_unit(world: World, typed: str, stored: int, shown: str) -> None:
    """What the form shows is what it takes."""
    assert sent(world, code_most_bytes=typed)[0] == 302
    page = world.client("admin").get("/admin").content.decode()

    assert cluster_row().code_most_bytes == stored
    assert f'id="id_code_most_bytes" name="code_most_bytes" value="{shown}"' in page
    assert sent(world, code_most_bytes=shown, smoke_run_s="30")[0] == 302
    assert cluster_row().code_most_bytes == stored
