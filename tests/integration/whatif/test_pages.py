"""What-if pages say which capacity is counted, what is asked of it, and what to make of a late end."""

import html
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from frontend.components.devices import GPUS
from frontend.pages.whatif.ready import ready_scenarios
from scheduler.core.model.errors import SpecInvalid
from scheduler.models import Scenario
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.capacity import capacity_words
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.whatif.scenarios import scenario_create
from scheduler.whatif.scenarios.bases import base_read
from tests.support.pages.world import runs_answer
from tests.support.rows.factories import AT, server_make
from tests.support.rows.scenarios import SMALL, scenario_body, scenario_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]
WEEK = "philly?days=7&load=0.9&queues=4"
WEEK_S = 7 * 86_400.0


@pytest.fixture
def client(admin: User) -> Client:
    """The admin's browser."""
    made = Client()
    made.force_login(admin)
    return made


def read(client: Client, path: str) -> str:
    """Return a page with its blanks as one blank each."""
    return " ".join(html.unescape(client.get(path).content.decode()).split())


def answered(scenario: Scenario, folder: Path) -> Scenario:
    """Let all runs of a scenario be made, here."""
    runs_answer(scenario, scenario.runs.all(), folder)
    Scenario.objects.filter(pk=scenario.pk).update(state="completed", ended_at=AT)
    scenario.refresh_from_db()
    return scenario


def test_ready_week_fits_a_cluster_of_two_slots(admin: User, client: Client, tmp_path: Path) -> None:
    """Its jobs arrive within a week and end soon after; the page says what was counted and the offered load."""
    server_make("server-1", gpus=2)
    server_make("server-2", gpus=2, state=ServerState.DRAINING)
    ready = {one.key: one for one in ready_scenarios(cluster_row(), GPUS, capacity=capacity_words())}
    body = {**ready["servers"].body, "variants": ready["servers"].body["variants"][:2], "seeds": [1]}

    scenario = answered(scenario_create(actor=admin, body=body, at=AT), tmp_path)

    page = read(client, f"/whatif/{scenario.pk}")
    assert "(2 of 4 GPUs; server-2 is drained)" in ready["servers"].text
    assert [run.summary and run.summary["makespan_s"] < 2 * WEEK_S for run in scenario.runs.all()] == [True, True]
    assert scenario.about["text"] == "on 1 server, 2 of 4 GPUs; server-2 is drained"
    assert "jobs arrive over 6 d" in page
    assert "(offered load)" in page
    assert 'id="load"' not in page


def test_drained_servers_are_counted_where_that_is_asked(admin: User, client: Client) -> None:
    """List and form name the server that is left out; the form offers to count it, and so does REST."""
    server_make("server-1", gpus=6)
    server_make("server-2", gpus=2, state=ServerState.DRAINING)
    start = {"kind": "generator", "text": WEEK, "cluster": None, "drained": True}
    scenario = scenario_make(admin, start=start)

    base = base_read(scenario, at=AT)
    form = read(client, f"/whatif/new?from={scenario.pk}")
    sent = client.post("/whatif/new", {"kind": "generator", "cluster": "drained", "do": "add"}).content.decode()
    assert base.content["servers"]["num_gpus"] == [6, 2]
    assert base.about["text"] == "on 2 servers, 8 GPUs"
    assert "6 of 8 CPU slots; server-2 is drained" in read(client, "/whatif")
    assert 'value="drained" checked' in form
    assert "6 of 8 CPU slots; server-2 is drained." in form
    assert 'value="drained" checked' in sent


def test_fields_of_a_variant_have_their_unit_inside(client: Client) -> None:
    """A label of one line keeps the fields of a row at one height; options are open where something is wrong only."""
    page = read(client, "/whatif/new")

    label = page.partition('for="v0_min_run_s">')[2]
    assert label.startswith("Least run</label>")
    assert label.partition("</div>")[0].endswith('<span class="unit">s</span>')
    assert '<details class="choices" open' not in page


def test_form_offers_no_drained_servers_where_there_are_none(client: Client) -> None:
    """A choice that changes nothing is no choice."""
    server_make("server-1", gpus=6)

    assert 'value="drained"' not in read(client, "/whatif/new")


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"drained": 1}, "/start/drained"),
        ({"drained": True, "cluster": SMALL}, "/start/drained"),
        ({"text": "philly?days=0"}, "/start/text"),
        ({"text": "philly?days=soon"}, "/start/text"),
        ({"text": "philly?days=93"}, "/start/text"),
        ({"text": "philly?days=7&jobs=9"}, "/start/text"),
    ],
)
def test_start_that_cannot_be_is_refused(changes: dict[str, object], pointer: str, admin: User) -> None:
    """Before any run."""
    start = {"kind": "generator", "text": WEEK, **changes}

    with pytest.raises(SpecInvalid) as refused:
        scenario_create(actor=admin, body=scenario_body(start=start), at=AT)

    assert {entry.pointer for entry in refused.value.errors} == {pointer}


def test_days_and_jobs_of_a_workload_come_back_to_the_form(admin: User, client: Client) -> None:
    """Jobs that are typed stand in place of the days."""
    sent = {
        "name": "Week",
        "kind": "generator",
        "generator": "philly",
        "load_of": "0.9",
        "queues": "4",
        "cluster": "own",
        "servers": "2",
        "gpus": "4",
        "cpus": "16",
        "memory_gb": "100",
        "round_s": "300",
        "seeds": "1",
        "variants": "2",
        **{f"v{at}.{kind}": name for at, policy in enumerate(("fifo", "las")) for kind, name in
           (("policy", policy), ("locality", "consolidate"), ("mechanism", "proportional"))},
    }  # fmt: skip
    client.post("/whatif/new", {**sent, "days": "3", "jobs": ""})
    client.post("/whatif/new", {**sent, "days": "3", "jobs": "40"})

    texts = [one.start["text"] for one in Scenario.objects.order_by("pk")]
    assert texts == ["generate:philly?load=0.9&days=3&queues=4", "generate:philly?jobs=40&load=0.9&queues=4"]
    copied = read(client, f"/whatif/new?from={Scenario.objects.order_by('pk')[0].pk}")
    assert 'name="days" value="3"' in copied
    assert 'name="jobs" value=""' in copied


def test_load_above_capacity_is_said_in_words(admin: User, client: Client, tmp_path: Path) -> None:
    """With the share that is asked for, and how far the end is from the last arrival."""
    start = {"kind": "generator", "text": "philly?days=2&load=2", "cluster": SMALL}
    variants = [{"policy": "fifo"}, {"policy": "fifo", "servers": 4}]

    page = read(client, f"/whatif/{answered(scenario_make(admin, start=start, variants=variants), tmp_path).pk}")

    above = "More GPU time is asked for than there is under fifo, so waits grow for as long as jobs arrive."
    assert f"<b>Load above capacity.</b> {above} Under fifo the last job ends after" in page
    assert "times as long as jobs arrive." in page


def test_error_of_the_replay_is_told_once(admin: User, client: Client, tmp_path: Path) -> None:
    """Above the answer; the card of its figures has a title of its own."""
    scenario = answered(scenario_make(admin), tmp_path)
    off = {"key": "avg_jct_s", "kind": "time", "happened": 3600.0, "replayed": 3510.0, "error_frac": -0.025}
    Scenario.objects.filter(pk=scenario.pk).update(about={**scenario.about, "fidelity": [off]})

    page = read(client, f"/whatif/{scenario.pk}")

    assert page.count("<b>Reliable.</b> Replayed under the settings that held then") == 1
    assert "How far the replay is off</h2>" in page


def test_running_scenario_tells_how_its_first_days_went(admin: User, client: Client) -> None:
    """A variant is told beside the baseline at the latest moment that both have passed."""
    body = scenario_body(variants=[{"policy": "fifo"}, {"policy": "las"}], seeds=[1])
    scenario = scenario_create(actor=admin, body=body, at=AT)
    waits = {0: [300.0, 600.0, 900.0], 1: [240.0, 480.0]}
    for variant, of_variant in waits.items():
        early = [
            {"passed_s": moment * 3_600.0, "come": 10 * moment, "ended": moment, "wait_s": wait_s}
            for moment, wait_s in enumerate(of_variant, 1)
        ]
        scenario.runs.filter(variant=variant).update(state="running", started_at=AT, early=early)

    rows = [run["early"] for run in client.get(f"/api/v1/whatif/{scenario.pk}").json()["progress"]["runs"]]
    page = read(client, f"/whatif/{scenario.pk}")

    assert rows[0] == {"passed_s": 10_800.0, "come": 30, "ended": 3, "wait_s": 900.0, "baseline_wait_s": None}
    assert rows[1] == {"passed_s": 7_200.0, "come": 20, "ended": 2, "wait_s": 480.0, "baseline_wait_s": 600.0}
    assert '15 min <span class="soft">in the first 3 h</span>' in page.replace("\xa0", " ")
    assert '8 min <span class="soft">in the first 2 h, baseline 10 min</span>' in page.replace("\xa0", " ")
