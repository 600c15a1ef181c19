"""Pages offer each caller what the server accepts from them, and nothing else."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Response, expect

from tests.reverse_proxy import BEHIND_NGINX
from tests.ui.harness import PHONE, WIDE, ApiHelper, Tabs, profile, violations

PASSWORD = "correct horse battery"


@pytest.fixture
def public_base(api: ApiHelper) -> tuple[str, str]:
    """A base that everyone may read, with a note and a failed file; the note's id."""
    base = api.create_base(f"Shared {uuid4().hex[:6]}", acl=["org:*"])
    (note,) = api.add_notes(base, "# Bolting\n\nFlour is bolted through silk.")
    api.add_unreadable_files(base, "broken.bin")
    api.wait_until_indexed(base)
    return base, note


@contextmanager
def sign_in(
    browser: Browser,
    url: str,
    api: ApiHelper,
    role: str,
    size: tuple[int, int] = WIDE,
    language: str = "en-US",
) -> Generator[tuple[Tabs, list[str]]]:
    """A profile that is signed in with a key of this role, and the requests that the server refused as forbidden."""
    key = api.http.post("/api/api-keys", json={"name": f"{role} of pages", "role": role}).json()["key"]
    with sign_in_with(browser, url, {"key": key}, size, language) as signed_in:
        yield signed_in


@contextmanager
def sign_in_as_person(
    browser: Browser,
    url: str,
    api: ApiHelper,
    role: str = "reader",
    size: tuple[int, int] = WIDE,
    language: str = "en-US",
) -> Generator[tuple[Tabs, list[str], str]]:
    """A profile in which a person has signed in with a password, the requests that were refused, and their address."""
    email = f"p{uuid4().hex[:8]}@example.org"
    body = {"email": email, "name": "Pat Miller", "role": role, "password": PASSWORD}
    user = api.http.post("/api/users", json=body).json()["id"]
    with sign_in_with(browser, url, {"email": email, "password": PASSWORD}, size, language) as signed_in:
        yield *signed_in, email
    assert api.http.delete(f"/api/users/{user}").status_code < 300


@contextmanager
def sign_in_with(
    browser: Browser, url: str, credentials: dict[str, str], size: tuple[int, int], language: str
) -> Generator[tuple[Tabs, list[str]]]:
    """A signed-in profile, and the requests that the server refused as forbidden."""
    rejected_requests: list[str] = []

    def record(response: Response) -> None:
        # The stream is for admins: pages of others try it once, and then poll.
        if response.status == 403 and not response.url.endswith("/api/events/stream"):
            rejected_requests.append(response.url)

    with profile(browser, size, language=language) as tabs:
        headers = {"Content-Type": "application/json", "Origin": url}
        response = tabs.context.request.post(
            f"{url}/api/session", data=json.dumps(credentials), headers=headers
        )
        assert response.ok, response.text()
        tabs.context.on("response", record)
        yield tabs, rejected_requests
        assert tabs.errors == []


def navigation(page: Page) -> list[str]:
    """The links of the sidebar's first part."""
    return page.get_by_role("navigation", name="Pages").first.get_by_role("link").all_inner_texts()


def test_a_reader_sees_what_can_be_read_and_no_more(
    browser: Browser, ui_url: str, api: ApiHelper, public_base: tuple[str, str]
) -> None:
    """No button, page or check that answers 403, and no request that does."""
    base, note = public_base
    with sign_in(browser, ui_url, api, "reader") as (tabs, rejected_requests):
        page = tabs.open(ui_url)
        expect(page.get_by_role("link", name=re.compile("Shared")).first).to_be_visible()
        assert navigation(page) == ["Bases", "Search", "Connect", "Settings"]
        expect(page.get_by_role("button", name="New base")).to_have_count(0)

        page.goto(f"{ui_url}/b/{base}?q=silk&add=note")
        expect(page.locator(".hit").first).to_contain_text("silk")
        row = page.get_by_role("row").filter(has_text="broken.bin")
        expect(row).to_contain_text("Failed")
        row.hover()
        page.get_by_role("treegrid").focus()
        for key in ("Delete", "r", "a", " "):
            page.keyboard.press(key)
        for name in ("Add content", "Reindex", "Delete", "Retry", "Settings", "Why is a document missing?"):
            expect(page.locator("main").get_by_role("button", name=name)).to_have_count(0)
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)

        page.goto(f"{ui_url}/b/{base}/i/{note}")
        expect(page.locator(".chunk")).to_contain_text("bolted")
        expect(page.get_by_role("button", name="Content", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Timeline")).to_have_count(0)

        page.goto(f"{ui_url}/settings/general")
        expect(page.get_by_text("role: reader")).to_be_visible()
        expect(page.get_by_text("Integrity checks")).to_have_count(0)
        assert page.get_by_role("navigation", name="Settings").get_by_role("link").all_inner_texts() == [
            "General",
            "Models",
        ]
        for path in ("/queue", "/connectors", "/events", "/events/webhooks", f"/b/{base}/settings"):
            page.goto(ui_url + path)
            notice = page.locator(".empty").get_by_role("heading", name="This page is for admins")
            expect(notice).to_be_visible()
        page.keyboard.press("Control+k")
        expect(page.get_by_role("option").filter(has_text="Settings")).to_be_visible()
        expect(page.get_by_role("option").filter(has_text="Queue")).to_have_count(0)
        assert rejected_requests == []


def test_an_editor_sees_what_can_be_edited(
    browser: Browser, ui_url: str, api: ApiHelper, public_base: tuple[str, str]
) -> None:
    """Not what only admins may do, no paths on the server, and nothing to change in a base with hidden items."""
    base, note = public_base
    partly_hidden_base = api.create_base(f"Partly hidden {uuid4().hex[:6]}", acl=["org:*"])
    (secret,) = api.add_notes(partly_hidden_base, "Only for admins")
    response = api.http.patch(f"/api/knowledge-items/{secret}", json={"acl": []})
    assert response.status_code < 300, response.text
    api.add_notes(partly_hidden_base, "For all")
    with sign_in(browser, ui_url, api, "editor") as (tabs, rejected_requests):
        page = tabs.open(ui_url)
        expect(page.get_by_role("button", name="New base").first).to_be_visible()
        assert navigation(page) == ["Bases", "Search", "Connect", "Settings"]
        page.goto(f"{ui_url}/b/{base}?q=silk")
        expect(page.get_by_role("button", name="Reindex all")).to_be_visible()
        expect(page.locator(".hit").first).to_contain_text("silk")
        for name in ("Settings", "Why is a document missing?"):
            expect(page.locator("main").get_by_role("button", name=name)).to_have_count(0)
        page.keyboard.press("a")
        dialog = page.get_by_role("dialog", name="Add content")
        expect(dialog.get_by_role("button", name="Sitemap")).to_be_visible()
        # Behind nginx, the test's server has allowed_paths.
        expect(dialog.get_by_role("button", name="Folder", exact=True)).to_have_count(int(BEHIND_NGINX))
        dialog.get_by_role("button", name="Note").click()
        dialog.get_by_label("Text").fill("Silk is woven.")
        dialog.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_role("row").filter(has_text="Silk is woven")).to_contain_text("Indexed")
        page.goto(f"{ui_url}/b/{base}/i/{note}?tab=timeline")
        expect(page.locator(".jobs b").last).to_have_text("index")
        assert rejected_requests == []

        page.goto(f"{ui_url}/b/{partly_hidden_base}")
        expect(page.get_by_text("it contains items you can't see")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="For all")).to_be_visible()
        expect(page.get_by_role("button", name="Add content")).to_have_count(0)


def test_an_admin_sees_everything(browser: Browser, ui_url: str, api: ApiHelper) -> None:
    with sign_in(browser, ui_url, api, "admin") as (tabs, rejected_requests):
        page = tabs.open(f"{ui_url}/settings/general")
        expect(page.get_by_text("All checks passed")).to_be_visible()
        assert navigation(page)[0] == "Bases"
        assert len(navigation(page)) == 7
        page.get_by_role("navigation", name="Settings").get_by_role("link", name="Workers").click()
        expect(page.get_by_role("list", name="Workers").get_by_role("listitem").first).to_contain_text(
            "Running"
        )
        assert rejected_requests == []


def test_a_person_sees_what_their_share_of_a_base_allows(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    """Readers of a base are refused nothing, as they ask for nothing. Editors of a base with hidden items see why they can't."""
    read, edit, hidden = (api.create_base(f"{name} {uuid4().hex[:6]}") for name in ("Read", "Edit", "Hidden"))
    secret, *_ = [api.add_notes(base, "Rye", "Oats")[0] for base in (hidden, read, edit)]
    assert api.http.patch(f"/api/knowledge-items/{secret}", json={"acl": []}).status_code < 300
    with sign_in_as_person(browser, ui_url, api) as (tabs, rejected_requests, email):
        for base, role in ((read, "reader"), (edit, "editor"), (hidden, "editor")):
            share = {"principal": f"user_email:{email}", "role": role}
            assert api.http.put(f"/api/knowledge-bases/{base}/shares", json=share).status_code == 200
        page = tabs.open()
        with page.expect_response(lambda response: response.url.endswith(f"{read}/role")):
            page.goto(f"{ui_url}/b/{read}")
        expect(page.get_by_role("row").filter(has_text="Rye")).to_contain_text("Indexed")
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.get_by_role("button", name="Add content")).to_have_count(0)
        page.goto(f"{ui_url}/b/{edit}")
        expect(page.get_by_role("button", name="Add content")).to_be_visible()
        assert rejected_requests == []
        page.goto(f"{ui_url}/b/{hidden}")
        expect(page.locator(".banner")).to_contain_text("it contains items you can't see")
        expect(page.get_by_role("button", name="Add content")).to_have_count(0)


@pytest.mark.parametrize(("size", "language"), [(WIDE, "en-US"), (PHONE, "zh-CN")], ids=["wide", "phone"])
def test_nothing_overlaps_in_the_account_of_a_person(
    browser: Browser, ui_url: str, api: ApiHelper, size: tuple[int, int], language: str
) -> None:
    """The buttons, the fields of the password and the keys are one below the other."""
    with sign_in_as_person(browser, ui_url, api, size=size, language=language) as (tabs, _, email):
        page = tabs.open(f"{ui_url}/settings/general")
        expect(page.get_by_text(email)).to_be_visible()
        card = page.locator(".card").nth(1)
        parts = [
            card.locator(part) for part in ("button >> nth=1", "form .field >> nth=0", "form .field >> nth=1")
        ]
        parts += [card.locator(part) for part in ("form button", ".section", ".section + .rows")]
        boxes = [part.bounding_box() for part in parts]
        for above, below in pairwise(boxes):
            assert above is not None
            assert below is not None
            assert above["y"] + above["height"] <= below["y"]
        first, second = (card.locator("button").nth(n).bounding_box() for n in range(2))
        assert first is not None
        assert second is not None
        assert second["x"] >= first["x"] + first["width"] + 8 or second["y"] > first["y"]
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_an_admin_edits_a_person_and_sets_a_new_password(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Name, role and password; an empty password keeps the current one."""
    name = uuid4().hex[:8]
    body = {"email": f"{name}@example.org", "name": name, "role": "reader", "password": PASSWORD}
    user = api.http.post("/api/users", json=body).json()["id"]

    def sign_in_status(password: str) -> int:
        credentials = {"email": body["email"], "password": password}
        return httpx.post(
            f"{ui_url}/api/session", json=credentials, trust_env=False, verify=False
        ).status_code

    def edit(row_name: str) -> Locator:
        page.get_by_role("listitem").filter(has_text=row_name).get_by_role("button", name="Edit").click()
        return page.get_by_role("dialog", name=f"Edit {row_name}")

    page.goto(f"{ui_url}/settings/people")
    dialog = edit(name)
    expect(dialog.get_by_label("Email address")).to_have_value(body["email"])
    assert violations(page) == []
    dialog.get_by_label("Name").fill(f"Miller {name}")
    dialog.get_by_label("Role").select_option("editor")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("listitem").filter(has_text=f"Miller {name}")).to_contain_text("editor")
    assert sign_in_status(PASSWORD) == 201
    dialog = edit(f"Miller {name}")
    assert api.http.patch(f"/api/users/{user}", json={"role": "admin"}).is_success  # in another window
    dialog.get_by_label("New password").fill("short")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert").first).to_be_visible()
    dialog.get_by_label("New password").fill("another long password")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert [sign_in_status(word) for word in (PASSWORD, "another long password")] == [401, 201]
    assert api.http.get(f"/api/users/{user}").json()["role"] == "admin"
    assert api.http.delete(f"/api/users/{user}").status_code < 300


def test_members_of_a_group_are_found_on_the_server_and_messages_are_above_the_dialog(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """Also a user whom the page does not list. A dialog makes everything outside it inert: what went wrong could not be read there."""
    name = uuid4().hex[:8]
    group = api.http.post("/api/groups", json={"name": name}).json()["id"]
    page.goto(f"{ui_url}/settings/people")
    page.get_by_role("listitem").filter(has_text=name).get_by_role("button", name="Members").click()
    user = api.http.post("/api/users", json={"email": f"{name}@example.org"}).json()["id"]
    dialog = page.get_by_role("dialog", name=f"Members of {name}")
    dialog.get_by_label("Person or group").fill(f"{name}@example.org")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("listitem")).to_contain_text(f"{name}@example.org")
    dialog.get_by_label("Person or group").fill(name)
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("can't be a member of itself")
    assert api.http.delete(f"/api/groups/{group}").is_success
    dialog.get_by_role("button", name=f"Remove {name}").click()
    message = page.locator(".toast.bad", has_text="There is no group")
    assert violations(page) == []
    message.get_by_role("button", name="Close").click()
    expect(message).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert api.http.delete(f"/api/users/{user}").is_success


def test_a_person_makes_a_key_of_their_own_on_the_page_that_connects(
    browser: Browser, ui_url: str, api: ApiHelper, public_base: tuple[str, str]
) -> None:
    """They are signed in, so "no key is needed" would be untrue; their key has at most their role. The address outlives a rename."""
    base, _ = public_base
    with sign_in_as_person(browser, ui_url, api) as (tabs, rejected_requests, _):
        page = tabs.open(f"{ui_url}/b/{base}/connect")
        expect(page.get_by_text("Programs sign in with a key")).to_be_visible()
        expect(page.get_by_text("no key is needed")).to_have_count(0)
        expect(page.get_by_text("The key is not limited to it")).to_be_visible()
        assert page.get_by_label("Role").get_by_role("option").all_inner_texts() == ["reader"]
        page.get_by_role("button", name="Create key").click()
        expect(page.locator(".new-key .secret")).to_contain_text("gm_")
        expect(page.get_by_label("Code for Claude")).to_contain_text(f"/mcp/{base}")
        page.get_by_role("button", name="Test it").click()
        expect(page.get_by_text("It works")).to_be_visible()
        assert violations(page) == []
        page.goto(f"{ui_url}/queue")
        expect(page.get_by_text("Your role doesn't allow this page. Ask an admin.")).to_be_visible()
        assert rejected_requests == []


def test_an_item_says_when_it_was_written_and_why_there_is_no_text(
    browser: Browser, ui_url: str, api: ApiHelper
) -> None:
    """In words and in Chinese: one day, not two raw times; jobs by their names; a failed document does not ask to wait."""
    base = api.create_base("Written")
    text = b"---\ndate: 2020-10-02\nmodified: 2020-10-02\n---\n# Stones\n\nThe miller dresses the stones.\n"
    files = [("files", ("dated.md", text)), ("files", ("broken.bin", bytes([0, 1, 2, 255, 7]) * 50))]
    created = api.http.post(f"/api/knowledge-bases/{base}/files", files=files).json()["created"]
    ids = {item["title"]: item["id"] for item in created}
    with profile(browser, language="zh-CN") as tabs:
        page = tabs.open(f"{ui_url}/b/{base}/i/{ids['dated.md']}?tab=timeline")
        expect(page.locator(".jobs b").last).to_have_text("索引")
        expect(page.get_by_text("2020年10月2日", exact=True)).to_be_visible()
        page.goto(f"{ui_url}/b/{base}/i/{ids['broken.bin']}?tab=content")
        expect(page.locator(".banner.bad")).to_be_visible()
        page.reload()
        expect(page.get_by_text("未能读取该条目")).to_be_visible()
    with profile(browser) as tabs:
        page = tabs.open(f"{ui_url}/b/{base}/i/{ids['broken.bin']}?tab=content")
        expect(
            page.get_by_text("The document could not be read, so there is no text to show.")
        ).to_be_visible()
