"""What a person sees and does, in a real browser."""

import re
import time
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched
from tests.support.e2e.stack import Stack, wait_for

PAGES = ["/", "/jobs", "/jobs/new", "/queues", "/queues/vision", "/cluster", "/rounds", "/me"]


def test_dashboard_moves_by_itself(member: Watched) -> None:
    """A new report changes the page within seconds, without a reload, and the page says it is live."""
    page = member.open("/")
    page.wait_for_selector("[data-live-state=live]", state="attached")
    page.evaluate("document.body.dataset.sameDocument = 'yes'")
    first = page.locator("[data-live-updated]").get_attribute("data-live-updated")

    expect(page.locator("[data-live-updated]")).not_to_have_attribute("data-live-updated", first or "")

    assert page.evaluate("document.body.dataset.sameDocument") == "yes"
    assert "CPU slot" in page.inner_text("main")


def test_job_is_submitted_by_form_and_followed_to_its_end(member: Watched, demo: Stack) -> None:
    """The form leads to the job's page; its log grows there and the state ends completed."""
    page = member.open("/jobs/new")
    page.fill("[name=name]", "from-the-form")
    page.select_option("[name=queue]", "vision")
    page.fill("[name=command]", "python -c \"print('hello from the form')\"")
    page.click("button[type=submit]:has-text('Submit')")
    page.wait_for_url("**/jobs/J-*")
    job_id = page.url.rstrip("/").split("/")[-1]

    client = demo.client("member")
    wait_for("completed", lambda: client.job(job_id)["state"] == "completed", within_s=90)

    expect(page.locator("main")).to_contain_text("Completed")
    expect(page.locator("#job-plain")).to_be_visible()  # loaded anew with the parts of a job that has ended
    page.wait_for_load_state("networkidle")
    page.goto(f"{page.url.rstrip('/')}/logs")
    expect(page.locator("main")).to_contain_text("hello from the form")


def test_preview_follows_what_is_typed(member: Watched) -> None:
    """No button is pressed: the card says where it starts, then what is missing, beside a bar that stays in sight."""
    page = member.open("/jobs/new")
    card, bar = page.locator("#preview"), page.locator(".submit-bar")
    expect(card).to_contain_text("Where and when")
    expect(bar).to_be_in_viewport()
    page.fill("[name=name]", "live")
    page.select_option("[name=queue]", "vision")
    page.fill("[name=command]", "python train.py")
    expect(card).to_contain_text("It would")
    expect(bar.get_by_role("status")).to_contain_text("It would")
    page.fill("[name=memory]", "many")
    expect(card).to_contain_text("Not ready yet")
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)  # the form is not submitted yet
    page.fill("[name=memory]", "")
    expect(card).to_contain_text("It would")
    page.fill("[name=command]", "")
    expect(card).to_contain_text("Where and when")
    expect(bar.get_by_role("status")).to_contain_text("The preview says")


def test_form_keeps_values_and_marks_each_bad_field(member: Watched) -> None:
    """An error is at its field, and nothing typed is lost."""
    page = member.open("/jobs/new")
    page.fill("[name=name]", "bad name!")
    page.fill("[name=gpus]", "64")
    page.fill("[name=command]", "python train.py")
    page.evaluate("document.querySelector('[name=gpus]').form.noValidate = true")
    page.click("button[type=submit]:has-text('Submit')")

    expect(page.locator("[aria-invalid=true]")).to_have_count(2)
    assert page.input_value("[name=name]") == "bad name!"
    # The browser itself notes that the form was refused.
    assert len(member.errors) == 1
    assert "422" in member.errors.pop()


def test_half_typed_form_comes_back_until_it_is_discarded(member: Watched) -> None:
    """Back restores fields and the harmless part of the environment; Discard and a submit leave nothing."""
    page = member.open("/jobs/new")
    typed, note = {"name": "half-typed", "command": "python half.py", "gpus": "2"}, page.locator("[data-draft-note]")
    expect(note).to_be_hidden()
    for name, value in typed.items():
        page.fill(f"[name={name}]", value)
    page.locator("details.more", has=page.locator("[name=env]")).locator("summary").click()
    page.fill("[name=env]", "SEED=1\nTOKEN=hidden\nW={secret: wandb}\nDB=postgres://a:hidden@db")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.wait_for_url("**/jobs")
    page.go_back()
    expect(note).to_contain_text(re.compile(r"Your draft from \d\d:\d\d was restored\."))
    expect(note).to_contain_text("Not kept, add again: the value of TOKEN, the value of DB.")
    assert {name: page.input_value(f"[name={name}]") for name in typed} == typed
    assert page.input_value("[name=env]") == "SEED=1\nW={secret: wandb}"
    assert "hidden" not in page.evaluate("JSON.stringify(sessionStorage)")

    note.get_by_role("link", name="Discard").click()
    expect(note).to_be_hidden()
    expect(page.locator("[name=command]")).to_have_value("")
    for name, value in typed.items():
        page.fill(f"[name={name}]", value)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/J-*")
    page.goto(f"{member.url}/jobs/new")
    expect(page.locator("[name=command]")).to_have_value("")
    expect(note).to_be_hidden()


@pytest.mark.parametrize("mode", ["form", "yaml"])
def test_draft_of_a_clone_keeps_the_environment_that_came_with_it(member: Watched, demo: Stack, mode: str) -> None:
    """Only what was typed is kept: values that may be secrets come with the page again, also beside typed lines."""
    given = {"SEED": "1", "NOTE": "two words"}
    job = demo.client("member").submit(name="to-clone", queue="vision", command=["python", "-c", "pass"], env=given)
    page, note = member.open(f"/jobs/new?clone={job}&mode={mode}"), member.page.locator("[data-draft-note]")
    field = page.locator("[name=env]" if mode == "form" else "[name=spec]")
    came = field.input_value()
    assert "two words" in came
    name = page.locator("[name=name]")

    def back_again() -> None:
        page.get_by_role("link", name="Jobs", exact=True).first.click()
        page.wait_for_url("**/jobs")
        page.go_back()
        words = note.locator("[data-draft-words]")
        expect(words).to_have_text(re.compile(r"^Your draft from \d\d:\d\d was restored\.$"))
        assert "two words" not in page.evaluate("JSON.stringify(sessionStorage)")

    if mode == "yaml":
        field.fill(came.replace("to-clone", "cloned"))
        back_again()
        expect(field).to_have_value(came.replace("to-clone", "cloned"))
        return
    name.fill("cloned")
    back_again()
    assert (name.input_value(), field.input_value()) == ("cloned", came)
    assert "SEED" not in page.evaluate("JSON.stringify(sessionStorage)")
    field.fill(f"{came}\nEPOCHS=2")
    back_again()
    assert (name.input_value(), field.input_value()) == ("cloned", f"{came}\nEPOCHS=2")


@pytest.mark.parametrize("mode", ["form", "yaml"])
def test_form_sent_after_the_session_ended_comes_back_after_sign_in(member: Watched, demo: Stack, mode: str) -> None:
    """With its files and its folder; the sign-in says that nothing was sent, and the second submit stores one job."""
    page, note = member.open("/jobs/new?template=lstm"), member.page.locator("[data-draft-note]")
    page.fill("[name=name]", f"late-{mode}")
    page.select_option("[name=queue]", "vision")
    page.fill("[name=command]", "python -c pass")
    page.fill("[name=file-0-name]", "a.py")
    page.fill("[name=file-0-text]", "print(1)\n")
    page.fill("[name=file-1-name]", "b.py")
    page.fill("[name=file-1-text]", "print(2)\n")
    if mode == "yaml":
        page.get_by_role("button", name="YAML", exact=True).click()
        text = page.input_value("[name=spec]").replace("files:", "env:\n  TOKEN: hidden\nfiles:", 1)
        page.fill("[name=spec]", text)
    page.context.clear_cookies()
    told = len(member.errors)
    page.locator(".submit-bar button[value=submit]").click()
    page.wait_for_url("**/sign-in?**")
    expect(page.get_by_role("status")).to_contain_text("so nothing was sent")
    assert "hidden" not in page.evaluate("JSON.stringify(sessionStorage)")
    page.fill("input[name=username]", "member")
    page.fill("input[name=password]", demo.password("member"))
    page.click("form button[type=submit]")
    page.wait_for_url("**/jobs/new?template=lstm**")
    member.errors[told:] = [error for error in member.errors[told:] if "401" not in error]  # what asks by itself
    expect(note).to_contain_text("was restored.")
    if mode == "yaml":
        expect(note).to_contain_text("Not kept, add again: env.")
        assert page.input_value("[name=spec]") == text.replace("env:\n  TOKEN: hidden\n", "")
    else:
        names = ("name", "command", "file-0-text", "file-1-name", "file-1-text")
        values = [f"late-{mode}", "python -c pass", "print(1)\n", "b.py", "print(2)\n"]
        assert [page.input_value(f"[name={name}]") for name in names] == values
    page.reload()
    expect(note).to_contain_text("was restored.")
    page.locator(".submit-bar button[value=submit]").click()
    page.wait_for_url("**/jobs/J-*")
    assert len(demo.client("member").get(f"/api/v1/jobs?search=late-{mode}")["results"]) == 1
    page.goto(f"{member.url}/jobs/new?template=lstm")
    expect(note).to_be_hidden()


def test_wrong_field_is_unfolded_and_what_is_mended_is_not_red_any_more(member: Watched) -> None:
    """By the preview, and by a link of an error."""
    page = member.open("/jobs/new")
    card, red, grace = page.locator("#preview"), page.locator("[aria-invalid=true]"), page.locator("[name=grace]")
    page.fill("[name=name]", "bad name!")
    page.select_option("[name=queue]", "vision")
    page.fill("[name=command]", "python train.py")
    page.evaluate("document.querySelector('[name=gpus]').form.noValidate = true")
    page.click("button[type=submit]:has-text('Submit')")
    expect(red).to_have_count(1)
    assert "422" in member.errors.pop()

    page.fill("[name=name]", "mended")
    expect(card).to_contain_text("It would")
    expect(red).to_have_count(0)
    expect(page.locator(".error-list, .field.wrong")).to_have_count(0)

    more = page.locator("details.more summary", has_text="More")
    more.click()
    grace.fill("soon")
    more.click()
    expect(grace).to_be_hidden()
    page.fill("[name=name]", "again")
    expect(grace).to_be_visible()
    more.click()
    card.get_by_role("link").click()
    expect(grace).to_be_focused()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_scrolls_sideways(browser: Browser, demo: Stack, width: int, theme: Literal["light", "dark"]) -> None:
    """Every page fits its window, in both themes."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=theme)
    watched = Watched(context, demo, "member")
    for path in [*PAGES, f"/jobs/{demo.client('member').get('/api/v1/jobs')['results'][0]['id']}"]:
        page = watched.open(path)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, (path, overflow)
    context.close()
    assert not watched.errors, watched.errors


def test_pages_read_without_javascript(browser: Browser, demo: Stack) -> None:
    """Lists, job pages and forms are rendered by the server."""
    context = browser.new_context(java_script_enabled=False)
    watched = Watched(context, demo, "member")

    for path in PAGES:
        page = watched.open(path)
        assert page.locator("h1").count() == 1, path
        assert len(page.inner_text("main")) > 40, path
    context.close()


def test_page_of_a_job_gets_other_parts_but_not_under_a_user(member: Watched, demo: Stack) -> None:
    """The page of a job that ends is loaded anew when no field of it is in use; the palette's last words are none."""
    client = demo.client("member")
    job = client.submit(name="followed", queue="vision", command=["python", "-S", "-c", "import time; time.sleep(2)"])
    page = member.open(f"/jobs/{job}")
    page.evaluate("document.body.dataset.sameDocument = 'yes'")
    page.keyboard.press("Control+k")
    page.keyboard.type("rounds")
    client.wait_state(job, "completed", within_s=180)
    refresh = (
        "new Promise((done) => { document.addEventListener('liverefresh', done, { once: true }); Live.refresh(); })"
    )
    page.evaluate(f"{refresh}.then(() => null)")

    assert page.evaluate("document.body.dataset.sameDocument") == "yes"
    assert page.get_by_role("combobox").input_value() == "rounds"
    page.keyboard.press("Control+k")  # closes it with the words still in it
    page.evaluate("Live.refresh()")
    expect(page.locator("body[data-same-document]")).to_have_count(0)
    expect(page.locator("#job-plain")).to_be_visible()


def test_a_question_is_asked_after_the_page_has_followed_its_job(member: Watched, demo: Stack) -> None:
    """Each refresh may bring new dialogs; the buttons beside them stay."""
    client = demo.client("member")
    command = ["python", "-S", "-c", "import time; time.sleep(600)"]
    job = client.submit(name="asked", queue="vision", command=command)
    client.wait_state(job, "running", within_s=180)  # or the page would load itself anew
    page = member.open(f"/jobs/{job}")
    page.evaluate("document.getElementById('job-dialogs').dataset.isOld = 'yes'")  # so that the next one differs
    page.evaluate(
        "new Promise((done) => { document.addEventListener('liverefresh', done, { once: true }); Live.refresh(); })"
        ".then(() => null)"
    )
    expect(page.locator("#job-dialogs[data-is-old]")).to_have_count(0)

    page.locator("[data-dialog=cancel-dialog].wide-only").click()

    expect(page.locator("#cancel-dialog")).to_be_visible()
    client.call("POST", f"/api/v1/jobs/{job}/cancel")


def test_keyboard_reaches_search_and_rows(member: Watched) -> None:
    """``/`` focuses the search, Escape gives the focus back, ``j`` and Enter open a row."""
    page = member.open("/jobs")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.getAttribute('type')") == "search"

    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")


def test_keys_are_listed_and_closed_by_escape(member: Watched) -> None:
    """``?`` says what can be typed; ``g`` and a letter go there."""
    page = member.open("/jobs")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator("#keys")).to_contain_text("what-if")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()

    type_chord(page, "g", "c")
    page.wait_for_url("**/cluster")


def type_chord(page: Page, first: str, second: str) -> None:
    """Type two keys one after the other; again where the machine stood still between them for longer than counts."""
    for _ in range(10):
        began = time.monotonic()
        page.keyboard.press(first)
        page.keyboard.press(second)
        if time.monotonic() - began < 1.0:
            return
    raise AssertionError("the browser took over a second for two keys, ten times")


def test_admin_changes_the_policy_in_the_page(admin: Watched, demo: Stack) -> None:
    """The new policy is in force from the next round and the page names it."""
    page = admin.open("/admin")
    page.check("input[name=policy][value=srtf]")
    page.fill("#id_reason", "Short jobs first")
    page.click("button[type=submit]:has-text('Save settings')")
    client = demo.client("admin")

    wait_for(
        "srtf in a round", lambda: client.get("/api/v1/rounds?limit=1")["results"][0]["policy"] == "srtf", within_s=60
    )

    settings = client.call("GET", "/api/v1/settings")
    back = client.call(
        "PATCH",
        "/api/v1/settings",
        {"policy": "las", "reason": "as before"},
        headers={"If-Match": settings.headers.get("etag", "")},
    )
    assert back.status == 200, back.text


def test_stranger_meets_a_page_that_says_not_found(browser: Browser, demo: Stack) -> None:
    """Another team's job is a 404, not a hint that it exists."""
    job = next(j for j in demo.client("admin").get("/api/v1/jobs")["results"] if j["queue"] == "vision")
    context = browser.new_context()
    watched = Watched(context, demo, "outsider")
    answer = watched.page.goto(f"{demo.url}/jobs/{job['id']}")

    assert answer is not None
    assert answer.status == 404
    context.close()


def test_idle_socket_stays_open(member: Watched) -> None:
    """A quiet WebSocket outlives the five seconds at which a careless client would cut it."""
    page = member.open("/jobs")
    page.wait_for_selector("[data-live-state=live]", state="attached")
    page.evaluate(
        """() => { window.drops = 0; new MutationObserver(() => {
             if (document.querySelector('[data-live-state]').dataset.liveState !== 'live') window.drops += 1;
           }).observe(document.querySelector('[data-live-state]'), {attributes: true}) }"""
    )
    page.wait_for_timeout(7000)

    assert page.evaluate("window.drops") == 0
