"""Helpers of the UI tests: a real server, a real browser, and a record of console errors and policy violations.

The browser is the system's Chromium, one for all tests of a process. Each test has a fresh profile, with its own cookies,
storage, cache and workers; servers are `gristmill serve` processes with a fake embedder that responds at once.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import httpx
import psycopg
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, WebError, sync_playwright
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests import reverse_proxy, signed_in_browsers
from tests.answers.chat_endpoint import ChatEndpoint, serve_chat
from tests.conftest import TEMPLATE
from tests.embedding import endpoint
from tests.embedding.endpoint import Endpoint
from tests.gristmill_process import environment, run_serve
from tests.wait_until import LIMIT, wait_without_loop

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE, PHONE = (1280, 800), (390, 844)
_NO_SANDBOX = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
# Playwright's own option does not cover the requests of a shared worker.
_TRUST = ["--ignore-certificate-errors"] if reverse_proxy.BEHIND_NGINX else []
_ARGUMENTS = ["--disable-gpu", *_NO_SANDBOX, *_TRUST]

Theme = Literal["light", "dark"]


@dataclass
class Tabs:
    """Tabs of one browser profile, and the errors in them."""

    context: BrowserContext
    errors: list[str] = field(default_factory=list[str])

    def open(self, url: str = "about:blank") -> Page:
        """Open a new tab."""
        page = self.context.new_page()
        page.goto(url)
        return page


@contextmanager
def chromium() -> Generator[Browser]:
    """The system's browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class SharedBrowser:
    """One browser for many tests: a profile takes some milliseconds, a browser with its driver more than a second.

    Playwright's event loop counts as the running one of its thread from its start to its end, and no other loop could run
    there. So it is the running one only inside `use`; between the tests of the UI, other tests can run their own loops.
    """

    def __init__(self) -> None:
        self._stack, self._browser = ExitStack(), None
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def use(self) -> Generator[Browser]:
        """The browser, for the length of a test. One that crashed or was closed by an earlier test is started again."""
        asyncio._set_running_loop(self._loop)
        try:
            if self._browser is None or not self._browser.is_connected():
                self._stack.close()
                self._browser = self._stack.enter_context(chromium())
            yield self._browser
        finally:
            self._loop = asyncio._get_running_loop()
            asyncio._set_running_loop(None)

    def close(self) -> None:
        """Close the browser and end its driver."""
        asyncio._set_running_loop(self._loop)
        self._stack.close()


@contextmanager
def profile(
    browser: Browser,
    size: tuple[int, int] = WIDE,
    theme: Theme = "light",
    language: str = "en-US",
    *,
    touch: bool = False,
    timezone: str | None = None,
) -> Generator[Tabs]:
    """A fresh profile. It collects the errors of its pages, also policy violations. Network errors are ignored: tests cause
    them on purpose. With `touch`, no pointer hovers."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,
        locale=language,
        timezone_id=timezone,
        has_touch=touch,
        is_mobile=touch,
        ignore_https_errors=reverse_proxy.BEHIND_NGINX,
    )
    context.set_default_timeout(20_000)
    tabs = Tabs(context)

    def record_console_error(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            tabs.errors.append(message.text)

    def record_page_error(error: WebError) -> None:
        tabs.errors.append(str(error.error))

    context.on("console", record_console_error)
    context.on("weberror", record_page_error)
    try:
        with signed_in_browsers.sign_in(context):
            yield tabs
    finally:
        context.close()


def violations(page: Page) -> list[str]:
    """The accessibility violations that axe finds on a page, as it looks now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    violations_found: list[dict[str, Any]] = page.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then((results) => results.violations)"
    )
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in violations_found
        for node in violation["nodes"]
    ]


@contextmanager
def fresh_database(server_url: str | None) -> Generator[str | None]:
    """A migrated database, dropped afterwards; None stays None."""
    if server_url is None:
        yield None
        return
    name = f"ui_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(name), sql.Identifier(TEMPLATE)
            )
        )
        yield make_conninfo(server_url, dbname=name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@dataclass(frozen=True)
class ServerSetup:
    """What a server needs: its environment, its embedder, and a folder for its log."""

    env: dict[str, str]
    embedder: Endpoint
    folder: Path

    @property
    def log(self) -> Path:
        """The path of the server's log."""
        return self.folder / "log"


@contextmanager
def server_setup(server_url: str | None, cache_dir: Path, **settings: str) -> Generator[ServerSetup]:
    """A database, a data directory and an embedder for a server, for the length of the block. Without `server_url`, the
    server starts its own PostgreSQL."""
    with (
        fresh_database(server_url) as database,
        endpoint.serve() as embedder,
        tempfile.TemporaryDirectory(prefix="gristmill-ui-", ignore_cleanup_errors=True) as folder,
    ):
        env = environment(
            Path(folder) / "data",
            cache_dir,
            log_level="error",
            **endpoint.embedder_settings(embedder.url),
            **({} if database is None else {"database_url": database}),
            **settings,
        )
        yield ServerSetup(env, embedder, Path(folder))


@contextmanager
def server_with_model(server_url: str, cache_dir: Path) -> Generator[tuple[str, ChatEndpoint]]:
    """A server without bases that answers questions, and its model."""
    with (
        serve_chat() as chat,
        server_setup(server_url, cache_dir, chat_url=chat.url, chat_model="m") as setup,
        run_serve(setup.env, log=setup.log) as server,
    ):
        yield server.url, chat


@dataclass(frozen=True)
class ApiHelper:
    """What tests do by the API instead of the page."""

    http: httpx.Client

    def create_base(self, name: str, **options: Any) -> str:
        """Create a base, and return its id."""
        response = self.http.post("/api/knowledge-bases", json={"name": name, **options})
        assert response.status_code == 201, response.text
        return response.json()["id"]

    def add_notes(self, base: str, *contents: str) -> list[str]:
        """Add notes to a base, and return their ids."""
        items = [{"type": "note", "content": content} for content in contents]
        response = self.http.post(f"/api/knowledge-bases/{base}/items", json={"items": items})
        assert response.status_code == 202, response.text
        return [item["id"] for item in response.json()["created"]]

    def wait_until_indexed(self, base: str) -> list[dict[str, str]]:
        """Wait until nothing of a base is in work, and return its top items. A search page shows what is found when it is opened."""

        def finished_items() -> list[dict[str, str]] | None:
            items: list[dict[str, str]] = self.http.get(f"/api/knowledge-bases/{base}/items").json()["items"]
            return items if all(item["status"] in ("completed", "failed") for item in items) else None

        return wait_without_loop(finished_items, limit=4 * LIMIT)

    def add_unreadable_files(self, base: str, *names: str) -> None:
        """Add files that no reader understands: their jobs die."""
        files = [("files", (name, bytes([0, 1, 2, 255, n % 250]) * 50)) for n, name in enumerate(names)]
        response = self.http.post(f"/api/knowledge-bases/{base}/files", files=files)
        assert response.status_code == 202, response.text
