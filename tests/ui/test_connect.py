"""The connect page and the dialog for a new base: keys, snippets that work, models by language, and what can be added."""

import json
import re
from uuid import uuid4

from playwright.sync_api import Browser, Page, expect

from tests.ui.harness import PHONE, ApiHelper, Tabs, profile, violations
from tests.ui.test_roles import sign_in


def test_a_key_is_made_and_every_program_gets_what_works(tabs: Tabs, ui_url: str, api: ApiHelper) -> None:
    """Each test is the call of the program, with the new key and without the browser's session."""
    tabs.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=ui_url)
    name = f"Connect & {uuid4().hex[:6]}"
    base = api.create_base(name, acl=["org:*"])
    page = tabs.open(f"{ui_url}/b/{base}")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("combobox", name="Base")).to_have_value(base)
    page.get_by_role("button", name="Create key").click()
    secret = page.locator(".new-key .secret").inner_text()
    assert secret.startswith("gm_")
    keys = api.http.get("/api/api-keys", params={"limit": 500}).json()["items"]
    key = next(key for key in keys if secret.startswith(key["prefix"]))
    assert key["role"] == "reader"
    assert key["expiresAt"] is not None
    programs = page.get_by_role("group", name="With").get_by_role("button")
    for label in programs.all_inner_texts():
        page.get_by_role("group", name="With").get_by_role("button", name=label, exact=True).click()
        code = page.get_by_label(f"Code for {label}")
        expect(code).to_contain_text(ui_url)
        expect(code).to_contain_text(secret)
        page.get_by_role("button", name="Test it").click()
        expect(page.get_by_text("It works")).to_be_visible()
    api.add_notes(base, "added meanwhile")
    expect(page.get_by_role("link", name=f"{name} 1")).to_be_visible()
    expect(page.get_by_text("It works")).to_be_visible()  # the outcome stays when the base changes
    page.get_by_role("group", name="With").get_by_role("button", name="VS Code").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("Copied")).to_be_visible()
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    server = copied["servers"]["gristmill"]
    assert server["headers"] == {"Authorization": f"Bearer {secret}"}
    assert api.http.delete(f"/api/api-keys/{key['id']}").status_code == 204
    page.get_by_role("button", name="Test it").click()
    expect(page.locator(".outcome.bad")).to_contain_text("unknown, revoked or expired")
    page.get_by_role("combobox", name="Base").select_option("All bases")
    expect(page).to_have_url(re.compile("/connect"))
    expect(page.get_by_text("Copy this key now")).to_have_count(0)  # it is not kept


# What browsers lack on a page that came by plain HTTP from another machine.
_INSECURE = "delete Crypto.prototype.randomUUID; delete Navigator.prototype.clipboard;"


def test_pages_work_by_plain_http_from_another_machine(page: Page, ui_url: str) -> None:
    """Changes are sent, dialogs open, and Copy copies, without what browsers keep for pages of HTTPS and of this machine."""
    page.add_init_script(_INSECURE)
    page.goto(f"{ui_url}/connect")
    page.get_by_role("button", name="Create key").click()
    secret = page.locator(".new-key .secret").inner_text()
    page.get_by_role("button", name="Copy key").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    expect(page.get_by_role("button", name="Copy key")).to_be_focused()
    page.keyboard.press("ControlOrMeta+k")
    field = page.get_by_role("dialog", name="Go to").get_by_role("combobox")
    expect(field).to_be_focused()
    page.keyboard.press("ControlOrMeta+v")
    expect(field).to_have_value(secret)


def test_a_key_that_would_not_see_the_base_says_so_and_the_base_is_shared(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """A new base is shared with no one: what was copied answered that there is no such base."""
    name = f"Unshared {uuid4().hex[:6]}"
    base = api.create_base(name)
    page.goto(f"{ui_url}/b/{base}/connect?with=curl")
    notice = page.get_by_text(f"A key with this role does not see {name}")
    expect(notice).to_be_visible()
    page.get_by_label("Role").select_option("admin")
    expect(notice).to_have_count(0)
    page.get_by_label("Role").select_option("reader")
    page.get_by_role("button", name="Create key").click()
    expect(notice).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Test it").click()
    expect(page.locator(".outcome.bad")).to_contain_text("There is no knowledge base")
    page.get_by_role("button", name="Share with everyone").click()
    expect(notice).to_have_count(0)
    page.get_by_role("button", name="Test it").click()
    expect(page.get_by_text("It works")).to_be_visible()
    assert api.http.get(f"/api/knowledge-bases/{base}").json()["acl"] == ["org:*"]


def test_a_reader_connects_with_a_key_of_their_own_on_a_phone_in_chinese(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    base = api.create_base(f"Read only {uuid4().hex[:6]}", acl=["org:*"])
    with sign_in(browser, ui_url, api, "reader") as (tabs, rejected_requests):
        page = tabs.open(f"{ui_url}/b/{base}/connect")
        expect(page.get_by_label("Your key")).to_be_visible()
        expect(page.get_by_role("button", name="Create key")).to_have_count(0)
        page.get_by_label("Your key").fill("gm_own")
        page.get_by_label("Your key").press("Tab")
        expect(page.get_by_label("Code for Claude")).to_contain_text("Bearer gm_own")
        assert rejected_requests == []
    with profile(browser, PHONE, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/connect?with=dify")
        expect(page.get_by_role("button", name="测试")).to_be_disabled()
        expect(page.get_by_text("请先在上方选择一个知识库")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("combobox", name="知识库").select_option(base)
        page.get_by_role("button", name="创建密钥").click()
        secret = page.locator(".new-key .secret").inner_text()
        keys = api.http.get("/api/api-keys", params={"limit": 500}).json()["items"]
        key = next(key for key in keys if secret.startswith(key["prefix"]))
        assert api.http.delete(f"/api/api-keys/{key['id']}").status_code == 204
        for program in ("Dify", "curl", "OpenAI (Python)"):  # what the server says is Chinese too
            page.get_by_role("button", name=program, exact=True).click()
            page.get_by_role("button", name="测试").click()
            expect(page.locator(".outcome.bad")).to_contain_text("API 密钥未知、已撤销或已过期")
        tabs.context.set_offline(True)
        page.get_by_role("button", name="测试").click()
        expect(page.locator(".outcome.bad")).to_contain_text("无法连接服务器")
        tabs.context.set_offline(False)
        assert tabs.errors == []


def test_a_new_base_asks_for_languages_and_explains_the_models(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """The choice that matters, with the formats and limits that the server has."""
    name = f"Chosen {uuid4().hex[:6]}"
    page.goto(ui_url)
    page.get_by_role("button", name="New base").first.click()
    dialog = page.get_by_role("dialog", name="New base")
    expect(dialog.get_by_role("button", name="English")).to_have_attribute("aria-pressed", "true")
    expect(dialog.get_by_role("radio", name=re.compile("proposed"))).to_be_checked()
    dialog.get_by_label("Another language").select_option("Korean")
    expect(dialog.get_by_role("button", name="Korean")).to_have_attribute("aria-pressed", "true")
    english = dialog.get_by_role("radio", name=re.compile("granite"))
    english.check()
    expect(dialog).to_contain_text("It doesn't know all of these languages")
    dialog.get_by_text("What can be added?").click()
    expect(dialog).to_contain_text("pdf, epub")
    expect(dialog).to_contain_text("A document may have 2.1 GB")
    assert violations(page) == []
    dialog.get_by_role("button", name="Create").click()  # without a name
    expect(dialog).to_be_visible()
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Name").press("Enter")
    expect(page).to_have_url(re.compile("/b/"))
    (created,) = api.http.get("/api/knowledge-bases", params={"name": name}).json()["items"]
    assert created["embedder"] == "granite-30m-en"
