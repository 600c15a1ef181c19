"""The embedder of a base is changed in its settings: progress, the report, the decision, and the way back."""

import re
from uuid import uuid4

from playwright.sync_api import Browser, Page, expect

from tests.embedding import endpoint
from tests.ui.harness import ApiHelper, profile, violations


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


def test_chunking_is_changed_in_the_same_way_in_chinese(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    """With the base's own embedder; every word of it is Chinese, also the refusal of a change that changes nothing."""
    base = api.create_base(f"chunked {uuid4().hex[:6]}")
    api.add_notes(base, "# 磨坊\n\n磨坊主每年春天修整磨石。")
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/b/{base}/settings")
        page.get_by_role("button", name="更换…").click()
        dialog = page.get_by_role("dialog", name="更换嵌入模型")
        dialog.get_by_label("新模型").select_option(label="quick（不变）")
        dialog.get_by_label("新向量完成后").select_option("ask")
        dialog.get_by_role("button", name="更换", exact=True).click()
        expect(dialog.get_by_role("alert")).to_have_text("该知识库已使用此模型和分块设置。")
        dialog.get_by_label("分块大小上限（词元）").fill("64")
        assert violations(page) == []
        dialog.get_by_role("button", name="更换", exact=True).click()
        change = page.get_by_role("status").filter(has_text="quick")
        expect(change).to_contain_text("quick 已就绪。请选择是否使用。")
        expect(change).to_contain_text("文档太少，无法比较")
        change.get_by_role("button", name="使用 quick").click()
        back = page.get_by_role("button", name="恢复之前的分块")
        expect(back).to_be_visible()
        expect(page.get_by_text("分块已更换")).to_be_visible()
        size = page.get_by_label("分块大小上限（词元）")
        expect(size).to_have_value("64")
        back.click()
        expect(size).to_have_value("")
        assert tabs.errors == []
    assert api.http.get(f"/api/knowledge-bases/{base}").json()["chunking"] == {}


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
