"""Connectors, queue, events and settings, used in a browser against a real server."""

import re
from datetime import date
from uuid import uuid4

import psycopg
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import serve_fake
from tests.embedding import endpoint
from tests.ui.harness import ApiHelper, ServerSetup, profile, violations
from tests.wait_until import wait_without_loop

_ALL_DIED_AGAIN = """async (url) => {
  const { items } = await (await fetch(url)).json();
  return items.length === 10 && items.every((job) => job.errors.length === 2);
}"""


# The page shows it a moment before the server has it.
_IS_PAUSED = """async (base) => {
  const { lanes } = await (await fetch("/api/queue")).json();
  return lanes.some((lane) => lane.lane === base && lane.paused);
}"""


_IS_COMPLETED = """async ([base, count]) => {
  const { itemCounts } = await (await fetch(`/api/knowledge-bases/${base}`)).json();
  return itemCounts.completed === count;
}"""


def unique_name(word: str) -> str:
    """A name that no other test uses."""
    return f"{word} {uuid4().hex[:6]}"


# ── connectors ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_connector_from_its_form_to_the_log_of_its_run(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Typed fields, a check of the credentials before anything is created, the schedule in words, a dry run, a run, and its documents."""
    base, name = unique_name("base"), unique_name("tool")
    base_id = api.create_base(base)
    with serve_fake(FakeGitHub()) as tool:
        page.goto(f"{ui_url}/connectors")
        page.get_by_role("button", name="New connector").first.click()
        form = page.get_by_role("dialog")
        form.get_by_label("Name", exact=True).fill(name)
        form.get_by_label("Token", exact=True).fill("wrong")
        form.get_by_label("Base URL").fill(tool.config()["baseUrl"])
        form.get_by_label("Organizations").fill("\n".join(tool.config()["organizations"]))
        form.get_by_role("button", name="Create", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("Choose at least one base")
        form.get_by_label(base).check()
        form.get_by_role("button", name="Create", exact=True).click()
        expect(form.get_by_role("status")).to_contain_text("rejects the credentials")
        expect(form.get_by_role("button", name="Create anyway")).to_be_visible()
        assert name not in api.http.get("/api/connectors").text
        form.get_by_label("Token", exact=True).fill(tool.credentials()["token"])
        form.get_by_role("button", name="Check credentials").click()
        expect(form.get_by_role("status")).to_contain_text("Signed in as")
        form.get_by_label("Schedule").fill("30 4 * * 1-5")
        expect(form.get_by_text("On weekdays at 04:30 UTC")).to_be_visible()
        form.get_by_label("Schedule").fill("61 * * * *")
        expect(form.get_by_text("Not a cron expression", exact=False)).to_be_visible()
        form.get_by_role("button", name="Create", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("not a cron expression")
        form.get_by_role("button", name="Every 6 hours").click()
        form.get_by_role("button", name="Create", exact=True).click()

        pane = page.get_by_role("complementary", name=name)
        expect(pane.get_by_text("It has not run yet.")).to_be_visible()
        pane.get_by_role("button", name="More for this connector").click()
        page.get_by_role("menuitem", name="Dry run").click()
        expect(pane.get_by_text(re.compile(r"would add [1-9]\d*, change 0, remove 0"))).to_be_visible()
        assert api.http.get(f"/api/knowledge-bases/{base_id}").json()["itemCounts"] == {}

        pane.get_by_role("button", name="Sync now").click()
        expect(page).to_have_url(re.compile("/runs/"))
        expect(
            pane.get_by_role("listitem").first.get_by_text(re.compile(r"[1-9]\d* changed"))
        ).to_be_visible()
        expect(pane.get_by_role("log")).to_contain_text(re.compile(r"\d+ read, [1-9]\d* new or changed"))
        expect(page.get_by_role("listitem").filter(has_text=name).get_by_text("Up to date")).to_be_visible()
        counts = api.http.get(f"/api/knowledge-bases/{base_id}").json()["itemCounts"]
        assert counts["completed"] > 5

        take_back_a_deletion(page, ui_url, api, base_id)
        page.goto(f"{ui_url}/connectors")
        page.get_by_role("link", name=name).click()
        pane.get_by_role("button", name="More for this connector").click()
        page.get_by_role("menuitem", name="Pause").click()
        expect(pane.get_by_text("Paused")).to_be_visible()
        pane.get_by_role("button", name="More for this connector").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete documents too").click()
        expect(page.get_by_text(f"{name} is deleted")).to_be_visible()
        expect(page.get_by_role("link", name=name)).to_have_count(0)


def take_back_a_deletion(page: Page, ui_url: str, api: ApiHelper, base: str) -> None:
    """Delete a record of a connector, find it in the dialog of its container, and take it back."""
    path, records = f"/api/knowledge-bases/{base}", {"parentId": "*", "type": "record"}
    record = api.http.get(f"{path}/items", params=records).json()["items"][0]
    api.http.delete(f"/api/knowledge-items/{record['id']}").raise_for_status()
    page.goto(f"{ui_url}/b/{base}/i/{record['parentId']}")
    page.get_by_role("button", name="Deleted from it").click()
    dialog = page.get_by_role("dialog")
    entry = dialog.get_by_role("listitem").filter(has_text=record["title"])
    entry.get_by_role("button", name="Take back").click()
    expect(dialog.get_by_text("Nothing was deleted from it.")).to_be_visible()
    assert api.http.get(f"{path}/exclusions").json()["items"] == []


def test_a_sync_that_is_refused_is_reverted_with_an_error(page: Page, ui_url: str, api: ApiHelper) -> None:
    """A connector without a base can't run: its row returns to its old state."""
    name = unique_name("idle tool")
    payload = {"name": name, "type": "gitlab", "config": {}, "credentials": {"token": "t"}, "enabled": False}
    connector = api.http.post("/api/connectors", json=payload).json()["id"]
    page.goto(f"{ui_url}/connectors")
    page.get_by_role("button", name=f"Sync now: {name}").or_(
        page.get_by_role("listitem").filter(has_text=name).get_by_role("button", name="Sync now")
    ).first.click()
    expect(page.locator(".toast.bad")).to_contain_text("base")
    row = page.get_by_role("listitem").filter(has_text=name)
    expect(row.get_by_text("Never synced")).to_be_visible()
    api.http.delete(f"/api/connectors/{connector}", params={"onDelete": "purge"})


# ── queue ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dead_job_is_shown_with_its_error_and_retried_once_its_cause_is_gone(
    page: Page, ui_url: str, api: ApiHelper, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = api.create_base(unique_name("dead"))
    file = tmp_path_factory.mktemp("dead") / f"{uuid4().hex[:8]}.md"
    file.write_bytes(bytes([0, 1, 2, 255, 9]) * 50)
    api.http.post(f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "file", "path": str(file)}]})
    page.goto(f"{ui_url}/queue")
    row = page.get_by_role("list", name="Dead jobs").get_by_role("listitem").filter(has_text=file.name)
    expect(row).to_contain_text("neither text nor")
    file.write_text("# Mended\n\nThe stones are dressed.", "utf-8")
    with page.expect_response(lambda response: response.request.method == "POST"):  # shown before it is done
        row.get_by_role("button", name="Retry").click()
    expect(row).to_have_count(0)
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile(file.stem)).get_by_text("Indexed")).to_be_visible()


def test_all_dead_jobs_are_retried_at_once(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Each job leaves the list at once, runs again, and returns with a second error. One that is dismissed leaves the list for
    good; its document stays."""
    base = api.create_base(unique_name("many dead"))
    files = [f"{uuid4().hex[:8]}.bin" for _ in range(10)]
    api.add_unreadable_files(base, *files)
    page.goto(f"{ui_url}/queue")
    rows = [
        page.get_by_role("list", name="Dead jobs").get_by_role("listitem").filter(has_text=file)
        for file in files
    ]
    for row in rows:
        expect(row).to_be_visible()
    page.route("**/api/jobs?*", list_two)
    page.reload()
    expect(page.get_by_role("list", name="Dead jobs").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Retry all").click()
    question = page.get_by_role("dialog", name=re.compile(r"Retry \d\d+ jobs\?"))  # not only for those listed
    page.unroute("**/api/jobs?*")
    question.get_by_role("button", name="Retry all").click()
    expect(page.get_by_text(re.compile(r"\d+ jobs are queued again"))).to_be_visible()
    page.wait_for_function(_ALL_DIED_AGAIN, arg=f"/api/jobs?state=dead&baseId={base}")
    for row in rows:
        expect(row).to_be_visible()

    rows[0].get_by_role("button", name=f"Dismiss {files[0]}").click()
    expect(rows[0]).to_have_count(0)
    expect(rows[1]).to_be_visible()
    page.reload()
    expect(rows[1]).to_be_visible()
    expect(rows[0]).to_have_count(0)
    items = api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
    assert {item["title"] for item in items} == set(files)


def list_two(route: Route) -> None:
    """The list of a queue with more jobs than a page of it shows."""
    route.fulfill(json={"items": route.fetch().json()["items"][:2], "nextCursor": None})


def test_a_lane_is_paused_and_resumed_by_the_keyboard(page: Page, ui_url: str, api: ApiHelper) -> None:
    name = unique_name("lane")
    base = api.create_base(name)
    api.add_notes(base, "rye")
    page.goto(f"{ui_url}/queue")
    row = page.get_by_role("list", name="Lanes").get_by_role("listitem").filter(has_text=name)
    row.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Resume")).to_be_focused()
    expect(row).to_contain_text("paused")
    page.wait_for_function(_IS_PAUSED, arg=base)
    api.add_notes(base, "oats")
    expect(row).to_contain_text("1 waiting")
    expect(row.get_by_role("button", name="Resume")).to_be_focused()  # the row has changed meanwhile
    page.keyboard.press("Enter")
    expect(row).to_contain_text("0 waiting")
    held: list[Route] = []
    page.route("**/queue/pause", lambda route: held.append(route))
    with page.expect_request("**/queue/pause"):
        page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Resume")).to_be_focused()
    page.keyboard.press("Enter")  # before the server has paused it: in the end it runs
    expect(row.get_by_role("button", name="Pause")).to_be_focused()
    with page.expect_response("**/queue/resume"):
        held[0].continue_()
    page.wait_for_function(_IS_PAUSED.replace("&& lane.paused", "&& !lane.paused"), arg=base)


# ── events and webhooks ──────────────────────────────────────────────────────────────────────────────────


def test_events_appear_in_the_timeline_and_can_be_filtered(page: Page, ui_url: str, api: ApiHelper) -> None:
    """S2-25: the timeline updates by itself. Routine is grouped, so that failures stand out."""
    name = unique_name("events")
    base = api.create_base(name)
    page.goto(f"{ui_url}/events?base={base}")
    expect(page.get_by_text("was created")).to_be_visible()
    api.add_notes(base, "rye on the stones")
    expect(page.get_by_role("link", name="rye on the stones").first).to_be_visible()
    api.add_notes(base, *(f"barley {n}" for n in range(4)))
    group = page.get_by_role("button", name="documents were indexed")
    expect(group).to_have_text("5 documents were indexed")  # one entry, which opens
    expect(page.get_by_text("was indexed as version")).to_have_count(0)
    group.press("Enter")
    expect(page.get_by_text("was indexed as version")).to_have_count(5)
    other = api.create_base(f"{name} other")
    ids = [item["id"] for item in api.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]]
    api.http.patch(f"/api/knowledge-items/{ids[0]}", json={"title": "spelt on the stones"})
    expect(page.get_by_text("1 item was changed: title")).to_be_visible()
    api.http.post(
        f"/api/knowledge-bases/{base}/items/reindex", json={"itemIds": ids[:2], "onActive": "after"}
    )
    expect(page.get_by_text("2 items are being reindexed")).to_be_visible()
    moved = {"itemIds": ids[1:2], "toBaseId": other}
    wait_without_loop(lambda: api.http.post(f"/api/knowledge-bases/{base}/items/move", json=moved).is_success)
    expect(page.get_by_text(f"1 item was moved from {name} to {name} other")).to_be_visible()
    api.add_unreadable_files(base, "bad.bin")
    expect(page.locator(".event.problem")).to_contain_text("neither text nor")
    assert violations(page) == []
    page.get_by_role("button", name="1 problem").press("Enter")
    expect(page.get_by_text("rye on the stones")).to_have_count(0)
    expect(page.get_by_role("list", name="Events").get_by_text("neither text nor")).to_be_visible()


def test_a_webhook_is_created_tested_paused_and_deleted(page: Page, ui_url: str) -> None:
    page.goto(f"{ui_url}/events/webhooks")
    page.get_by_role("button", name="New webhook").first.click()
    page.get_by_label("URL").fill("http://127.0.0.1:9/unused")
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog").locator(".secret")).to_contain_text("whsec_")
    page.get_by_role("button", name="Done").click()
    pane = page.get_by_role("complementary", name="Webhook")
    pane.get_by_role("button", name="Test").click()
    expect(page.locator(".toast.bad")).to_contain_text("can't be reached")
    pane.get_by_role("button", name="More for this webhook").click()
    page.get_by_role("menuitem", name="Pause").click()
    expect(page.get_by_role("list", name="Webhooks").get_by_text("Paused")).to_be_visible()
    pane.get_by_role("button", name="More for this webhook").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="127.0.0.1:9/unused")).to_have_count(0)


@pytest.mark.parametrize(
    ("address", "endpoint", "thing"),
    [("/connectors", "connectors", "connector"), ("/events/webhooks", "webhooks", "webhook")],
)
def test_actions_of_a_pane_wait_for_what_they_act_on(
    page: Page, ui_url: str, address: str, endpoint: str, thing: str
) -> None:
    """Before the list is there, its menu would be empty. An address of something that is gone says so."""
    requests: list[Route] = []
    page.route(re.compile(rf"/api/{endpoint}(\?|$)"), lambda route: requests.append(route))
    page.goto(f"{ui_url}{address}/{uuid4()}")
    pane = page.get_by_role("complementary", name=thing.capitalize())
    expect(pane).to_be_visible()
    expect(pane.get_by_role("button")).to_have_count(0)
    for request in requests:
        request.continue_()
    expect(pane).to_contain_text(f"{thing.capitalize()} not found")
    expect(pane.get_by_role("button")).to_have_count(0)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_shown_once_and_revoked(
    page: Page, ui_url: str, api: ApiHelper, ui_setup: ServerSetup
) -> None:
    name, old = unique_name("key"), unique_name("old")
    assert api.http.post("/api/api-keys", json={"name": old, "role": "reader"}).is_success
    with psycopg.connect(ui_setup.env["GRISTMILL_DATABASE_URL"]) as connection:
        connection.execute(
            "update api_key set expires_at = now() - interval '3 days' where name = %s", (old,)
        )
    page.goto(f"{ui_url}/settings/keys")
    expect(page.get_by_role("listitem").filter(has_text=old)).to_contain_text("expired 3 days ago")
    page.get_by_role("button", name="New key").first.click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Role", exact=True).select_option("editor")
    sent: list[Route] = []
    page.route("**/api/api-keys", lambda route: sent.append(route))
    with page.expect_request("**/api/api-keys"):
        form.get_by_role("button", name="Create", exact=True).click()
    form.get_by_role("button", name="Create", exact=True).click()  # a second click makes no second key
    expect(form).to_be_visible()
    sent[0].continue_()
    secret = form.locator(".secret").inner_text()
    assert len(sent) == 1
    assert (
        api.http.get("/api/session", headers={"Authorization": f"Bearer {secret}"}).json()["role"] == "editor"
    )
    page.get_by_role("button", name="Done").click()
    expect(form).to_have_count(0)
    row = page.get_by_role("listitem").filter(has_text=name)
    expect(row).to_be_visible()
    page.wait_for_function("secret => !document.documentElement.outerHTML.includes(secret)", arg=secret)
    row.get_by_role("button", name=f"Revoke {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)


def test_an_embedder_is_tested_and_workers_are_listed(page: Page, ui_url: str) -> None:
    page.goto(f"{ui_url}/settings/models")
    row = page.get_by_role("listitem").filter(has_text="quick")
    expect(row.locator("b")).to_have_text("quick Default")
    row.get_by_role("button", name="Test").click()
    expect(row.get_by_role("status")).to_contain_text("Works:")
    page.get_by_role("navigation", name="Settings").get_by_role("link", name="Workers").click()
    expect(page.get_by_role("list", name="Workers").get_by_role("listitem").first).to_contain_text("Running")


def test_an_embedder_is_stored_used_changed_and_deleted(page: Page, ui_url: str, api: ApiHelper) -> None:
    """From its form to a base that uses it; the key is sent to the endpoint and shown nowhere."""
    name, base = f"own-{uuid4().hex[:6]}", unique_name("with an own embedder")
    with endpoint.serve() as running:
        page.goto(f"{ui_url}/settings/models")
        page.get_by_role("button", name="New embedder").click()
        form = page.get_by_role("dialog")
        form.get_by_label("Name", exact=True).fill("my model")
        form.get_by_label("Model", exact=True).fill("hashed")
        form.get_by_label("URL").fill(running.url)
        form.get_by_label("API key").fill("sk-typed")
        form.get_by_label("Languages").fill("en, xx")
        form.get_by_label("Price of a million tokens").fill("0.02")
        assert violations(page) == []
        form.get_by_role("button", name="Create", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("may contain only letters, digits, dots, hyphens")
        form.get_by_label("Name", exact=True).fill(name)
        form.get_by_role("button", name="Create", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("There is no language 'xx' here.")
        form.get_by_label("Languages").fill("en, zh")
        form.get_by_role("button", name="Create", exact=True).click()
        row = page.get_by_role("listitem").filter(has_text=name)
        expect(row).to_contain_text(f"hashed · 64 dimensions, up to 512 tokens · {running.url}")
        assert running.requests[0].headers["Authorization"] == "Bearer sk-typed"
        row.get_by_role("button", name="Test").click()
        expect(row.get_by_role("status")).to_contain_text("Works:")

        page.goto(ui_url)
        page.get_by_role("button", name="New base").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill(base)
        page.get_by_role("dialog").get_by_role("radio", name=re.compile(name)).check()
        assert violations(page) == []
        page.get_by_role("dialog").get_by_role("button", name="Create").click()
        expect(page).to_have_url(re.compile("/b/"))
        shown = api.http.get("/api/knowledge-bases", params={"name": base}).json()["items"][0]
        assert shown["embedder"] == name
        page.goto(f"{ui_url}/b/{shown['id']}?add=note")
        form.get_by_label("Text").fill("Rye and oats are ground in autumn. " * 40)
        form.get_by_role("button", name="What would it cost?").click()
        expect(form.get_by_role("status")).to_contain_text(
            re.compile(r"Cost: 0\.0{4,}[1-9]")
        )  # little, but not none

        page.goto(f"{ui_url}/settings/models")
        row.get_by_role("button", name=f"More for {name}").click()
        page.get_by_role("menuitem", name="Edit").click()
        expect(form.get_by_label("API key")).to_have_value("")
        form.get_by_label("Model", exact=True).fill("another")
        form.get_by_label("Dimensions", exact=True).fill("96")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("alert")).to_contain_text(f"'{base}' uses it")
        form.get_by_label("Model", exact=True).fill("hashed")
        form.get_by_label("Dimensions", exact=True).fill("64")
        form.get_by_label("API key").fill("sk-rotated")
        form.get_by_label("Requests per minute").fill("600")
        form.get_by_role("button", name="Save").click()
        expect(form).to_have_count(0)
        row.get_by_role("button", name="Test").click()
        expect(row.get_by_role("status")).to_contain_text("Works:")
        assert running.requests[-1].headers["Authorization"] == "Bearer sk-rotated"
        assert "sk-" not in page.content()
        stored = api.http.get(f"/api/embedders/{name}").json()
        assert (stored["requestsPerMinute"], stored["pricePerMillionTokens"]) == (600, 0.02)

        row.get_by_role("button", name=f"More for {name}").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".toast.bad")).to_contain_text("was not deleted")
        expect(row).to_be_visible()
        api.http.delete(f"/api/knowledge-bases/{shown['id']}")
        row.get_by_role("button", name=f"More for {name}").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)


def test_language_and_theme_are_chosen_and_kept(page: Page, ui_url: str) -> None:
    page.goto(f"{ui_url}/settings/general")
    page.get_by_label("Theme", exact=True).select_option("dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_label("Language", exact=True).select_option("zh")
    expect(page.get_by_role("heading", name="设置")).to_be_visible()
    page.goto(f"{ui_url}/connectors")
    expect(page.get_by_role("heading", name="连接器", exact=True)).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "zh-CN"
    assert page.locator("html").get_attribute("data-theme") == "dark"


# ── usage and limits ─────────────────────────────────────────────────────────────────────────────────────


def test_a_budget_is_estimated_set_used_up_and_removed(page: Page, ui_url: str, api: ApiHelper) -> None:
    """What a note would cost, a budget that pauses the base, the usage as a table, and the base that goes on."""
    name = unique_name("budget")
    base = api.create_base(name)
    page.goto(f"{ui_url}/b/{base}?add=note")
    form = page.get_by_role("dialog")
    form.get_by_label("Text").fill("Rye and oats are ground in autumn.")
    form.get_by_role("button", name="What would it cost?").click()
    expect(form.get_by_role("status")).to_contain_text("Documents: 1; texts to embed: 1; tokens:")
    form.get_by_role("button", name="Add", exact=True).click()
    page.wait_for_function(_IS_COMPLETED, arg=[base, 1])

    page.goto(f"{ui_url}/settings/usage")
    used = page.get_by_role("list", name="Usage").get_by_role("listitem").filter(has_text=name)
    expect(used).to_contain_text("indexing")
    page.get_by_role("button", name="Set a limit").click()
    form = page.get_by_role("dialog")
    form.get_by_label("What", exact=True).select_option("Budget: chunks in all")
    form.get_by_label("At most").fill("1")
    form.get_by_label("Base").select_option(name)
    other_name = unique_name("other")
    other = api.create_base(other_name)  # the list is made again, and the choice stays
    expect(form.get_by_label("Base").locator(f"option[value='{other}']")).to_have_count(1)
    expect(form.get_by_label("Base")).to_have_value(base)
    form.get_by_role("button", name="Set", exact=True).click()
    row = page.get_by_role("list", name="Budgets and quotas").get_by_role("listitem").filter(has_text=name)
    expect(row).to_contain_text("1 of 1 chunks in all")
    expect(row).to_contain_text("used up")
    row.evaluate("row => row.dataset.first = ''")
    page.get_by_role("button", name="Set a limit").click()
    form.get_by_label("At most").fill("0.0005")  # money has fractions
    form.get_by_label("Base").select_option(other_name)
    form.get_by_role("button", name="Set", exact=True).click()
    limits = page.get_by_role("list", name="Budgets and quotas")
    expect(limits.get_by_role("listitem").filter(has_text=other_name)).to_contain_text(
        "0 of 0.0005 money a month"
    )
    expect(row).to_have_attribute("data-first", "")  # the same element: the focus could stay in it

    api.http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "Bran."}]}
    )
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_text(re.compile("budget of the base .* is used up")).first).to_be_visible()
    page.goto(f"{ui_url}/settings/usage")
    row.get_by_role("button", name=re.compile("Remove Budget")).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(row).to_have_count(0)
    page.wait_for_function(_IS_COMPLETED, arg=[base, 2])


def test_usage_is_shown_on_the_day_that_the_server_counts_it(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    """Also west of Greenwich, where that day begins in the evening before."""
    api.add_notes(api.create_base(unique_name("counted")), "rye")
    wait_without_loop(lambda: api.http.get("/api/usage").json()["items"])
    day = date.fromisoformat(api.http.get("/api/usage").json()["items"][0]["day"])
    with profile(browser, timezone="Pacific/Honolulu") as tabs:
        row = tabs.open(f"{ui_url}/settings/usage").get_by_role("list", name="Usage").get_by_role("listitem")
        expect(row.first).to_contain_text(f"{day:%A, %B} {day.day}")
