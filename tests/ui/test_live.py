"""Live pages: one stream for all tabs, through restarts and kills; and sign-in where a key is required."""

import asyncio
import re
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from gristmill.db import Database
from gristmill.identity import LOCAL_ORG
from tests.embedding.endpoint import hashed_vectors
from tests.free_port import free_port
from tests.gristmill_process import run_serve
from tests.server.clients import new_key
from tests.ui.harness import ApiHelper, Tabs, profile, server_setup
from tests.ui.test_reader import PAGES, add_files, ledger


def open_streams(api: ApiHelper) -> float:
    """How many streams the server has open."""
    text = api.http.get("/metrics").text
    counts = re.findall(r'^gristmill_streams\{process="server-1"\} ([\d.]+)', text, re.MULTILINE)
    return float(*counts)


def test_seven_tabs_share_one_stream_and_all_of_them_follow(tabs: Tabs, ui_url: str, api: ApiHelper) -> None:
    """A browser opens at most six connections to a host, so seven streams would block each other."""
    base = api.create_base("seven tabs")
    before = open_streams(api)
    pages = [tabs.open(f"{ui_url}/events?base={base}") for _ in range(7)]
    for page in pages:
        expect(page.get_by_text("was created")).to_be_visible()
    assert open_streams(api) - before <= 1
    api.add_notes(base, "sent to all")
    for page in pages:
        page.bring_to_front()
        expect(page.get_by_role("link", name="sent to all").first).to_be_visible()
    assert open_streams(api) - before <= 1


def test_a_restart_shows_a_banner_and_the_page_catches_up(
    browser: Browser, server_url: str, cache_dir: Path
) -> None:
    """Changes during the outage appear afterwards without a reload of the page, and pages of a document that could not be drawn."""
    with server_setup(server_url, cache_dir) as setup, profile(browser) as tabs:
        port = str(free_port())
        with run_serve(setup.env, log=setup.log, port=port) as server, server.client() as http:
            base = ApiHelper(http).create_base("restarted")
            item = add_files(ApiHelper(http), base, {"ledger.pdf": ledger()})["ledger.pdf"]
            reader = tabs.open(f"{server.url}/b/{base}/i/{item}/read")
            expect(reader.get_by_text("page 1 of")).to_be_visible()
            page = tabs.open(f"{server.url}/events?base={base}")
            expect(page.get_by_text("was created")).to_be_visible()
            server.kill()
            banner = page.get_by_text("The server can't be reached. Reconnecting …")
            expect(banner).to_be_visible()
        reader.get_by_role("region", name="Pages").evaluate("region => region.scrollTop = 1e6")
        undrawn = reader.locator(f'.page-image.failed[data-page="{PAGES}"]')
        expect(undrawn.get_by_text("This page can't be drawn.")).to_be_visible()
        page.evaluate("window.same = true")
        with run_serve(setup.env, log=setup.log, port=port) as server, server.client() as http:
            ApiHelper(http).add_notes(base, "while it was away")
            expect(banner).to_have_count(0)
            expect(page.get_by_role("link", name="while it was away").first).to_be_visible()
            assert page.evaluate("window.same") is True
            expect(undrawn).to_have_count(0)
        assert tabs.errors == []


def test_what_a_proxy_answers_for_the_server_is_said_in_words(
    page: Page, ui_url: str, api: ApiHelper
) -> None:
    """While the server restarts, a proxy answers with a page of its own, and so it does to what is too large for it."""
    base = api.create_base("Behind a proxy")
    page.route(
        "**/api/knowledge-bases?*", lambda route: route.fulfill(status=502, body="<html>Bad Gateway</html>")
    )
    page.goto(ui_url)
    expect(page.get_by_role("main")).to_contain_text("The server can't be reached. Try again in a moment.")
    page.unroute("**/api/knowledge-bases?*")
    page.goto(f"{ui_url}/b/{base}?add=file")
    page.route(
        "**/files", lambda route: route.fulfill(status=413, body="<html>Request Entity Too Large</html>")
    )
    file: FilePayload = {"name": "rye.md", "mimeType": "text/markdown", "buffer": b"# Rye"}
    page.get_by_label("Choose files").set_input_files(file)
    expect(page.locator(".upload")).to_contain_text("This is too large for a proxy before the server.")


def test_a_dialog_that_cannot_be_loaded_says_so(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Its module is gone where the server was updated, and does not arrive during an outage: the button did nothing."""
    base = api.create_base("outdated")
    api.add_notes(base, "rye")
    page.goto(f"{ui_url}/b/{base}")
    expect(page.get_by_role("row", name=re.compile("rye"))).to_be_visible()
    page.route("**/pages/base/tend.js", lambda route: route.fulfill(status=404))
    page.get_by_role("button", name="New folder").click()
    message = page.locator(".toast.bad")
    expect(message).to_contain_text("This could not be loaded. Reload the page.")
    page.unroute("**/pages/base/tend.js")
    message.get_by_role("button", name="Reload").click()
    page.get_by_role("button", name="New folder").click()
    expect(page.get_by_role("dialog", name="New folder")).to_be_visible()


def test_the_page_shows_the_work_of_a_killed_worker_being_finished(
    browser: Browser, server_url: str, cache_dir: Path
) -> None:
    """After kill -9 of the indexing process, the page shows the next one finishing the work."""
    with server_setup(server_url, cache_dir) as setup, profile(browser) as tabs:
        setup.embedder.respond = lambda _: None  # nothing is finished yet
        port = str(free_port())
        with run_serve(setup.env, log=setup.log, port=port) as server, server.client() as http:
            base = ApiHelper(http).create_base("killed")
            ApiHelper(http).add_notes(base, *(f"note {n}" for n in range(5)))
            page = tabs.open(f"{server.url}/queue")
            lane = page.get_by_role("list", name="Lanes").get_by_role("listitem").filter(has_text="killed")
            expect(lane.get_by_role("img", name=re.compile("^[1-5] of"))).to_be_visible()
            server.kill()
        setup.embedder.respond = hashed_vectors
        with run_serve(setup.env, log=setup.log, port=port) as server:
            expect(lane.get_by_text("idle")).to_be_visible(timeout=30_000)
            page.goto(f"{server.url}/b/{base}")
            expect(page.get_by_role("row", name=re.compile("note")).get_by_text("Indexed")).to_have_count(5)
        assert tabs.errors == []


@pytest.fixture(scope="module")
def keyed_server(server_url: str, cache_dir: Path) -> Generator[tuple[str, str, str]]:
    """A server that requires a key, an admin key and a reader key."""
    with server_setup(server_url, cache_dir, require_key="true") as setup:
        admin, reader = asyncio.run(create_admin_and_reader_keys(setup.env["GRISTMILL_DATABASE_URL"]))
        with run_serve(setup.env, log=setup.log) as server:
            yield server.url, admin, reader


async def create_admin_and_reader_keys(database_url: str) -> list[str]:
    db = Database(database_url)
    await db.open()
    secrets = [(await new_key(db, LOCAL_ORG, role))[1] for role in ("admin", "reader")]
    await db.close()
    return secrets


def test_a_visitor_without_a_key_signs_in_and_returns_to_the_page(
    page: Page, keyed_server: tuple[str, str, str]
) -> None:
    """The key becomes a cookie that scripts can't read; signing out ends the session."""
    url, admin, _ = keyed_server
    page.goto(f"{url}/settings/keys")
    expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()
    page.get_by_label("API key").fill("gm_" + "x" * 43)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("unknown")
    page.get_by_label("API key").fill(admin)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{url}/settings/keys")
    expect(page.get_by_role("list", name="API keys").get_by_role("listitem").first).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    page.goto(f"{url}/settings/general")
    page.context.set_offline(True)
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator(".toast.bad")).to_contain_text("can't be reached")  # and does not look signed out
    page.context.set_offline(False)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Gristmill")).to_be_visible()
    assert httpx.get(f"{url}/api/session", trust_env=False, verify=False).status_code == 401


def test_pages_without_access_to_the_stream_poll(page: Page, keyed_server: tuple[str, str, str]) -> None:
    """A reader's pages poll: the stream is for admins."""
    url, admin, reader = keyed_server
    page.goto(url)
    page.get_by_label("API key").fill(reader)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Updated every 5 s")).to_be_visible()
    headers = {"Authorization": f"Bearer {admin}"}
    response = httpx.post(
        f"{url}/api/knowledge-bases",
        json={"name": "new here", "acl": ["org:*"]},
        headers=headers,
        trust_env=False,
        verify=False,
    )
    assert response.status_code == 201
    expect(page.get_by_role("link", name="new here").first).to_be_visible()


def test_a_day_counts_the_problems_that_are_not_loaded_yet(page: Page, ui_url: str, api: ApiHelper) -> None:
    """The timeline loads a hundred events; the failures of the day are behind them."""
    base = api.create_base("Behind")
    api.add_unreadable_files(base, "one.bin", "two.bin", "three.bin")
    page.goto(f"{ui_url}/events?base={base}&kind=problems")
    expect(page.get_by_role("button", name="3 problems")).to_be_visible()
    api.add_notes(base, *(f"barley {n}" for n in range(45)))
    page.goto(f"{ui_url}/b/{base}?filter=all")
    expect(page.locator(".figures > div").filter(has_text="Chunks")).to_contain_text("45")
    page.goto(f"{ui_url}/events?base={base}")
    expect(page.get_by_role("button", name="Show older events")).to_be_visible()
    expect(page.locator(".event.problem")).to_have_count(0)
    expect(page.get_by_role("button", name="3 problems")).to_be_visible()


def test_pages_of_what_is_gone_say_so(page: Page, ui_url: str, api: ApiHelper) -> None:
    """Also the settings that someone has open, and an address that is none."""
    base = api.create_base("Soon gone")
    page.goto(f"{ui_url}/b/{base}/settings")
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Soon gone")
    api.http.delete(f"/api/knowledge-bases/{base}")
    for path in ("", f"/b/{base}/settings", f"/b/{base}", "/b/100%25/settings", "/b/%E0%A4%A"):
        if path:
            page.goto(f"{ui_url}{path}")
        expect(page.get_by_role("heading", name="Base not found")).to_be_visible()
        expect(page.locator(".toast")).to_have_count(0)
