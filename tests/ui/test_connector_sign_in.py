"""A connector at whose tool someone has to sign in."""

from uuid import uuid4

from playwright.sync_api import Page, expect

from tests.ui.harness import ApiHelper, violations


def test_a_run_that_needs_a_sign_in_offers_it(page: Page, ui_url: str, api: ApiHelper) -> None:
    """The button leads to the page of the tool."""
    name = f"post {uuid4().hex[:6]}"
    payload = {
        "name": name,
        "type": "imap",
        "config": {"host": "imap.gmail.com"},
        "credentials": {"username": "ann@example.org", "clientId": "app", "clientSecret": "s3cret"},
        "knowledgeBaseIds": [api.create_base(f"base {name}")],
    }
    connector = api.http.post("/api/connectors", json=payload).json()["id"]
    page.route("https://accounts.google.com/**", lambda route: route.fulfill(body="Choose an account"))
    page.goto(f"{ui_url}/connectors/{connector}")
    pane = page.get_by_role("complementary", name=name)
    pane.get_by_role("button", name="Sync now").click()
    expect(pane.get_by_text("No one has signed in at Google yet.", exact=False).first).to_be_visible()
    assert violations(page) == []
    pane.get_by_role("button", name="Sign in at the tool").click()
    expect(page.get_by_text("Choose an account")).to_be_visible()
    api.http.delete(f"/api/connectors/{connector}", params={"onDelete": "purge"})
