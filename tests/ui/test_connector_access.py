"""Who can see the documents of a connector, chosen in its dialog when it is created and later."""

import json
import re
from collections.abc import Generator
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import serve_fake
from tests.ui.harness import ApiHelper, violations

EVERYONE = "Everyone in the organisation"
CERTAIN = "Certain people and groups"


@pytest.fixture
def group(api: ApiHelper) -> Generator[tuple[str, str]]:
    """The name and the id of a group."""
    name = f"Research {uuid4().hex[:6]}"
    group_id = api.http.post("/api/groups", json={"name": name}).json()["id"]
    yield name, group_id
    api.http.delete(f"/api/groups/{group_id}")


@pytest.fixture
def connector(api: ApiHelper) -> Generator[dict[str, Any]]:
    """A connector to feeds, which have no permissions, that is for everyone."""
    payload = {
        "name": f"news {uuid4().hex[:6]}",
        "type": "feeds",
        "config": {"feeds": ["http://127.0.0.1:9/feed"]},
    }
    created = api.http.post("/api/connectors", json={**payload, "credentials": {}, "enabled": False}).json()
    yield created
    api.http.delete(f"/api/connectors/{created['id']}", params={"onDelete": "purge"})


def acl_of(api: ApiHelper, connector: str) -> list[str] | None:
    return api.http.get(f"/api/connectors/{connector}").json()["acl"]


def open_dialog(page: Page) -> Locator:
    """The dialog that changes the connector whose pane is open."""
    page.get_by_role("button", name="More for this connector").click()
    page.get_by_role("menuitem", name="Edit").click()
    return page.get_by_role("dialog")


def test_a_connector_is_for_certain_people_and_then_for_everyone_again(
    page: Page, ui_url: str, api: ApiHelper, connector: dict[str, Any], group: tuple[str, str]
) -> None:
    """Addresses and names of groups become entries of the access list; they are shown by these names, and saving something
    else changes nothing of it."""
    name, group_id = group
    page.goto(f"{ui_url}/connectors/{connector['id']}")
    facts = page.get_by_role("complementary").locator("dl")
    expect(facts).to_contain_text(EVERYONE)
    form = open_dialog(page)
    access = form.get_by_label("Who can see it")
    expect(access.locator("option")).to_have_text([EVERYONE, CERTAIN])
    expect(form.get_by_text("This tool has no permissions that could be followed.")).to_be_visible()
    people = form.get_by_label("People and groups")
    expect(people).to_be_hidden()
    access.focus()
    page.keyboard.press("ArrowDown")
    expect(access).to_be_focused()  # a list that is made again would have lost the focus
    expect(people).to_be_visible()
    assert violations(page) == []
    people.fill(f"ann@example.org\nReserch\n{name.upper()}")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_have_text("There is no group named Reserch.")
    assert acl_of(api, connector["id"]) is None
    people.fill(f"ann@example.org\n{name.upper()}")
    form.get_by_role("button", name="Save").click()
    expect(facts).to_contain_text(f"ann@example.org, {name}")
    expected = ["user_email:ann@example.org", f"group:{group_id}"]
    assert acl_of(api, connector["id"]) == expected

    form = open_dialog(page)
    expect(form.get_by_label("People and groups")).to_have_value(f"ann@example.org\n{name}")
    with page.expect_request(lambda request: request.method == "PATCH") as request:
        form.get_by_role("button", name="Save").click()
    assert "acl" not in (request.value.post_data_json or {"acl": "no body"})
    assert acl_of(api, connector["id"]) == expected
    form = open_dialog(page)
    form.get_by_label("Who can see it").select_option(EVERYONE)
    form.get_by_role("button", name="Save").click()
    expect(facts).to_contain_text(EVERYONE)
    assert acl_of(api, connector["id"]) is None


def test_a_connector_says_when_its_tool_was_asked_who_may_see_the_documents(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Also after its kind is known, and after it has changed."""
    with serve_fake(FakeGitHub()) as tool:
        payload = {
            "name": f"code {uuid4().hex[:6]}",
            "type": tool.kind,
            "knowledgeBaseIds": [api.create_base("connected code")],
        }
        settings = {"config": tool.config(), "credentials": tool.credentials(), "enabled": False}
        created = api.http.post("/api/connectors", json={**payload, **settings}).json()
        page.goto(f"{ui_url}/connectors/{created['id']}")
        facts = page.get_by_role("complementary").locator("dl.about")
        expect(facts).to_contain_text("Whoever can see it in the tool · not synced yet")
        page.get_by_role("complementary").get_by_role("button", name="Sync now").click()
        expect(facts).to_contain_text("Whoever can see it in the tool · synced", timeout=30_000)
        waiting: list[Route] = []
        page.route("**/api/connector-kinds", lambda route: waiting.append(route))
        page.reload()
        expect(facts).to_contain_text("Every 6 hours")
        page.route(
            re.compile(r"/api/connectors(\?|$)"), lambda _: None
        )  # a new list would make the facts again
        waiting.pop().continue_()
        expect(facts).to_contain_text("GitHub · acme")
        expect(facts).to_contain_text("Whoever can see it in the tool · synced")
        api.http.delete(f"/api/connectors/{created['id']}", params={"onDelete": "purge"})


def test_a_new_connector_follows_its_tool_or_is_restricted_from_the_start(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """The choices are those of the type: only tools with permissions can be followed. Without any entry it is for admins."""
    name = f"wiki {uuid4().hex[:6]}"
    base = f"base {name}"
    api.create_base(base)
    page.goto(f"{ui_url}/connectors")
    page.get_by_role("button", name="New connector").first.click()
    form = page.get_by_role("dialog")
    access = form.get_by_label("Who can see it")
    expect(access.locator("option")).to_have_count(3)
    expect(access).to_have_value("tool")
    form.get_by_label("Tool", exact=True).select_option("MediaWiki")
    expect(access.locator("option")).to_have_count(2)
    expect(access).to_have_value("everyone")
    access.select_option(CERTAIN)
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("API URL").fill("http://127.0.0.1:9/api.php")
    form.get_by_label(base).check()
    form.get_by_role("button", name="Create", exact=True).click()
    form.get_by_role("button", name="Create anyway").click()
    pane = page.get_by_role("complementary", name=name)
    expect(pane.locator("dl")).to_contain_text("Only admins")
    (created,) = api.http.get("/api/connectors", params={"name": name}).json()["items"]
    assert created["acl"] == []
    api.http.delete(f"/api/connectors/{created['id']}", params={"onDelete": "purge"})


def test_a_base_that_a_connector_leaves_loses_no_document_without_a_question(
    page: Page, ui_url: str, api: ApiHelper, connector: dict[str, Any]
) -> None:
    """Cancelled, nothing is saved; else the answer says what happens to the documents."""
    name = f"team {uuid4().hex[:6]}"
    base = api.http.post("/api/knowledge-bases", json={"name": name}).json()["id"]
    path = f"/api/connectors/{connector['id']}"
    api.http.patch(path, json={"knowledgeBaseIds": [base]})
    page.goto(f"{ui_url}/connectors/{connector['id']}")
    form = open_dialog(page)
    form.get_by_label(name).uncheck()
    form.get_by_role("button", name="Save").click()
    question = page.get_by_role("dialog", name=f"Keep the documents in {name}?")
    expect(question).to_be_visible()
    assert violations(page) == []
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    assert api.http.get(path).json()["knowledgeBaseIds"] == [base]
    form.get_by_role("button", name="Save").click()
    with page.expect_request(lambda request: request.method == "PATCH") as sent:
        question.get_by_role("button", name="Keep documents").click()
    assert json.loads(sent.value.post_data or "{}")["onDetach"] == "detach"
    expect(form).to_have_count(0)
    assert api.http.get(path).json()["knowledgeBaseIds"] == []
