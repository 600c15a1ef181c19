"""The embedder of a base is changed in its settings: progress, the report, the decision, and the way back."""

import re
from uuid import uuid4

from playwright.sync_api import Page, expect

from tests.embedding import endpoint
from tests.ui.harness import ApiHelper, violations


def test_an_embedder_is_changed_approved_and_changed_back(page: Page, ui_url: str, api: ApiHelper) -> None:
    """With the gate that asks. So few documents give too few questions to compare, and the report says so."""
    name = f"other-{uuid4().hex[:6]}"
    with endpoint.serve() as running:
        stored = {"name": name, "url": running.url, "model": "other", "dimensions": 64}
        assert api.http.post("/api/embedders", json=stored).status_code == 201
        base = api.create_base(f"changed {name}")
        api.add_notes(base, "# Stones\n\nThe miller dresses the stones.", "# Grain\n\nRye and oats.")
        page.goto(f"{ui_url}/b/{base}/settings")
        page.get_by_role("button", name="Change …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("New model").select_option(name)
        dialog.get_by_label("When the new vectors are complete").select_option("ask")
        assert violations(page) == []
        dialog.get_by_role("button", name="Change", exact=True).click()
        settings = page.get_by_role("status")
        expect(settings.get_by_text(f"{name} is ready.", exact=False)).to_be_visible()
        expect(settings.get_by_text("Too few documents to compare")).to_be_visible()
        assert violations(page) == []
        assert api.http.get(f"/api/knowledge-bases/{base}").json()["embedder"] == "quick"

        settings.get_by_role("button", name=f"Use {name}").click()
        back = settings.get_by_role("button", name="Back to quick")
        expect(back).to_be_visible()
        expect(page.locator("code", has_text=name)).to_be_visible()
        refused = api.http.delete(f"/api/embedders/{name}")
        assert refused.json()["code"] == "embedder_in_use"

        back.click()
        expect(page.locator("code", has_text="quick")).to_be_visible()
        expect(settings.get_by_text(re.compile(f"Changed from {name}"))).to_be_visible()
        assert api.http.get(f"/api/knowledge-bases/{base}").json()["embedder"] == "quick"


def test_a_change_that_cannot_work_is_refused_with_its_reason_or_cancelled(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    name = f"silent-{uuid4().hex[:6]}"
    with endpoint.serve() as running:
        stored = {"name": name, "url": running.url, "model": "silent", "dimensions": 64}
        assert api.http.post("/api/embedders", json=stored).status_code == 201
        base = api.create_base(f"unchanged {name}")
        api.add_notes(base, "The miller dresses the stones.")
        running.always_respond(429, {"error": "later"}, Retry_After="1")
        page.goto(f"{ui_url}/b/{base}/settings")
        page.get_by_role("button", name="Change …").click()
        page.get_by_role("dialog").get_by_label("New model").select_option(name)
        page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
        status = page.get_by_role("status")
        expect(status.get_by_text("are being made: 0%", exact=False)).to_be_visible()
        with page.expect_response(lambda response: response.request.method in ("DELETE", "POST")):
            status.get_by_role("button", name="Cancel").click()
        expect(status.get_by_text("are being made", exact=False)).to_have_count(0)
        assert api.http.get(f"/api/knowledge-bases/{base}/embedder").json()["state"] == "cancelled"
        expect(page.get_by_role("button", name="Change …")).to_be_visible()

        running.always_respond(401, {"error": "no such key"})
        page.get_by_role("button", name="Change …").click()
        page.get_by_role("dialog").get_by_label("New model").select_option(name)
        page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
        expect(status.get_by_text("no such key", exact=False)).to_be_visible()
        assert api.http.get(f"/api/knowledge-bases/{base}").json()["embedder"] == "quick"
