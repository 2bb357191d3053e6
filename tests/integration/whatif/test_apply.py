"""Before settings change, a page says what the next round would do: for a variant, and for earlier settings."""

import html
import re

import pytest
from django.test import Client

from frontend.components.devices import GPUS
from frontend.components.settings_question import round_sentence
from scheduler.models import Event, Job, Scenario
from scheduler.models.scenario import ScenarioState
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.next_round import Affected, NextRound
from tests.support.live.world import World
from tests.support.rows.scenarios import scenario_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """One long job holds both slots under fifo; a short one came after it and waits."""
    made = World()
    monkeypatch.setattr("frontend.components.settings_question.now_utc", made.clock.now)
    made.settings(policy="fifo")
    made.queue("vision", quota_gpus=2)
    made.server("server-1", slots=2)
    for name, steps in (("long", 90_000), ("short", 10)):
        made.submit(gpus=2, name=name, progress={"total_steps": steps})
    made.pass_time(20)
    Job.objects.update(steps_per_s=1.0)
    return made


@pytest.fixture
def client(world: World) -> Client:
    """The admin's browser."""
    made = Client()
    made.force_login(world.admin)
    return made


def asked(world: World) -> Scenario:
    """Return an answered what-if of fifo and srtf."""
    variants = [{"policy": "fifo"}, {"policy": "srtf"}]
    return scenario_make(world.admin, state=ScenarioState.COMPLETED, variants=variants)


def read(client: Client, path: str) -> str:
    """Return the text of a page without its markup, blanks as one blank each."""
    marked = re.sub(r"</(dt|dd|td|th)>", " ", client.get(path).content.decode())
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", marked)).split())


def test_applying_a_variant_is_asked_with_the_jobs_that_it_would_preempt(world: World, client: Client) -> None:
    """The page changes nothing; its form applies the variant, and the next round preempts those jobs."""
    path = f"/whatif/{asked(world).pk}/apply"

    page, form = read(client, f"{path}?variant=1"), client.get(f"{path}?variant=1")
    before = cluster_row().policy
    sent = {"variant": "1", "version": form.context["question"].version, "reason": "waits fall"}
    client.post(path, sent)
    done = world.round("settings")

    assert (
        "A round made now with them would preempt 1 job that holds 2 CPU slots and start 1 job that gets 2 CPU" in page
    )
    assert "Preempted long (J-1, vision) Started short (J-2, vision)" in page
    assert "With the settings in force it would preempt none." in page
    assert before == "fifo"
    assert cluster_row().policy == "srtf"
    assert done is not None
    assert [entry["job"] for entry in done.decisions["preemptions"]] == [1]


def test_restoring_earlier_settings_is_asked_likewise(world: World, client: Client) -> None:
    """The same sentence, what differs by the names of the form, and the reason in the same form."""
    world.settings(policy="srtf", smoke_run_s=30.0)
    change = Event.objects.filter(kind="settings").latest("pk")

    page = read(client, f"/admin/restore/{change.pk}")
    link = client.get("/admin").content.decode()

    assert f'href="/admin/restore/{change.pk}"' in link
    assert "These settings hold from the next round. A round made now with them would preempt no job" in page
    assert "Policy srtf fifo" in page
    assert "Time that a job of several devices runs on one first 30 s 0 s" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert cluster_row().policy == "srtf"


def test_settings_of_a_variant_are_called_as_on_the_form(world: World, client: Client) -> None:
    """No reader of the question knows the names of REST; a size has its unit."""
    changed = {"policy": "srtf", "min_run_s": 45.0}
    scenario = scenario_make(world.admin, state=ScenarioState.COMPLETED, variants=[{"policy": "fifo"}, changed])

    page = read(client, f"/whatif/{scenario.pk}/apply?variant=1")
    world.settings(spec_most_bytes=512 * 1024, min_run_s=45.0)
    back = read(client, f"/admin/restore/{Event.objects.filter(kind='settings').latest('pk').pk}")

    assert "Least run 0 s 45 s" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "Least run 45 s 0 s" in back.replace("\N{NO-BREAK SPACE}", " ")
    assert "Size of a spec, files included 512 KiB" in back.replace("\N{NO-BREAK SPACE}", " ")
    assert not re.search(r"min.run.s|spec.most.bytes", page + back, flags=re.IGNORECASE)


def test_nothing_is_claimed_while_scheduling_is_paused(world: World, client: Client) -> None:
    """No round is made then."""
    world.settings(paused=True)

    page = read(client, f"/whatif/{asked(world).pk}/apply?variant=1")

    assert "What that round would preempt is not known." in page
    assert "A round made now" not in page


def test_an_unreliable_answer_takes_the_words_on_the_same_page(world: World, client: Client) -> None:
    """The field stands beside the reason; other words are refused there, and the typed reason stays."""
    scenario = asked(world)
    off = {"key": "avg_jct_s", "kind": "time", "happened": 3600.0, "replayed": 7200.0, "error_frac": 1.0}
    Scenario.objects.filter(pk=scenario.pk).update(about={"fidelity": [off]})

    page = client.get(f"/whatif/{scenario.pk}/apply?variant=1").content.decode()

    version = re.search(r'name="version" value="(\d+)"', page)
    assert version
    sent = {"variant": "1", "version": version[1], "reason": "it is shorter", "anyway": "yes"}
    again = client.post(f"/whatif/{scenario.pk}/apply", sent)

    assert re.search(r'name="anyway" value="" required pattern=" \*not reliable \*"', page)
    assert again.status_code == 422
    assert "Nothing was applied. Write: not reliable" in again.content.decode()
    assert 'name="reason" value="it is shorter"' in again.content.decode()


def test_what_is_in_force_is_not_asked(world: World, client: Client) -> None:
    """There is nothing to apply; an address without a variant leads to the answer."""
    path = f"/whatif/{asked(world).pk}"

    assert client.get(f"{path}/apply?variant=0")["Location"] == path
    assert client.get(f"{path}/apply")["Location"] == path
    assert client.get(f"{path}/apply?variant=7").status_code == 404


def test_the_sentence_tells_moves_new_sizes_and_what_happens_anyway() -> None:
    """Each with its count."""
    found = NextRound(
        preempted=Affected(count=3, num_gpus=9), elsewhere=2, starts=Affected(), resized=1, preempted_anyway=1
    )

    assert round_sentence(found, GPUS).replace("\u00a0", " ") == (
        "These settings hold from the next round. A round made now with them would preempt 3 jobs that hold 9 GPUs and "
        "start no job. 2 of the preempted jobs go on elsewhere in the same round. 1 running job would go on with "
        "another number of GPUs. With the settings in force it would preempt 1 job."
    )


def test_the_banner_tells_what_decides_now_and_goes_away(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restore it names the restored version, and after half an hour only the list is left."""
    monkeypatch.setattr("frontend.pages.whatif.apply.now_utc", world.clock.now)
    monkeypatch.setattr("frontend.pages.whatif.views.now_utc", world.clock.now)
    monkeypatch.setattr("frontend.pages.admin.restore.now_utc", world.clock.now)
    scenario = asked(world)
    path = f"/whatif/{scenario.pk}"
    before = cluster_row().settings_version
    client.post(f"{path}/apply", {"variant": "1", "version": before, "reason": "waits fall"})
    applied = client.get(path).context["news"]
    world.clock.advance(600.0)
    change = Event.objects.filter(kind="settings").latest("pk")
    title = client.get(f"/admin/restore/{change.pk}").context["title"]
    client.post(f"/admin/restore/{change.pk}", {"version": before + 1, "reason": "too many preempted."})
    restored, page = client.get(path).context, read(client, path)
    world.clock.advance(1_900.0)
    later = client.get(path).context

    assert applied is not None
    assert (applied.words, applied.gone) == ("applied srtf", None)
    assert title == f"Restore version {before}?"
    assert restored["news"].words == f"restored version {before} (fifo)"
    assert restored["news"].change.why == "too many preempted"
    assert restored["news"].gone.name == "srtf"
    assert "too many preempted. srtf, applied from here" in page
    assert later["news"] is None
    assert [(one.name, one.after_words) for one in later["applied"]] == [("srtf", f"restored version {before} (fifo)")]


def test_a_pause_is_no_news_of_what_decides(world: World, client: Client) -> None:
    """Nor is a limit of volume."""
    scenario = asked(world)
    version = cluster_row().settings_version
    client.post(f"/whatif/{scenario.pk}/apply", {"variant": "1", "version": version, "reason": "waits fall"})
    world.settings(paused=True, user_most_queued=7)

    context = client.get(f"/whatif/{scenario.pk}").context

    assert context["applied"][0].after is None
