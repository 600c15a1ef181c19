"""One server and one browser for all tests of a process, a profile for each test. An error in a page's console fails it."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gristmill_process import ServeProcess, run_serve
from tests.ui.harness import CHROMIUM, ApiHelper, ServerSetup, SharedBrowser, Tabs, profile, server_setup

_FOLDER = Path(__file__).parent
expect.set_options(timeout=20_000)  # only a defect takes this long, even on a busy machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Free Playwright's greenlets after each test of a page, in the thread that made them, and not by a garbage collection in a
    thread of a later test. xdist calls this for the tests of all folders: with them it would double the CPU time of a run."""
    result = yield
    if item.path.is_relative_to(_FOLDER):
        gc.collect()
    return result


@pytest.fixture(scope="session")
def ui_setup(server_url: str, cache_dir: Path) -> Generator[ServerSetup]:
    """The database, embedder and folder of the shared server."""
    with server_setup(server_url, cache_dir) as setup:
        yield setup


@pytest.fixture(scope="session")
def ui_server(ui_setup: ServerSetup) -> Generator[ServeProcess]:
    """A `gristmill serve` for all tests of this process; each test creates its own bases."""
    with run_serve(ui_setup.env, log=ui_setup.log) as server:
        yield server


@pytest.fixture(scope="session")
def ui_url(ui_server: ServeProcess) -> str:
    """The URL of the shared server."""
    return ui_server.url


@pytest.fixture
def api(ui_server: ServeProcess) -> Generator[ApiHelper]:
    """The API of the shared server."""
    with ui_server.client() as client:
        yield ApiHelper(client)


@pytest.fixture(scope="session")
def shared_browser() -> Generator[SharedBrowser]:
    """The browser of this process, started by the first test that uses it."""
    shared = SharedBrowser()
    yield shared
    shared.close()


@pytest.fixture
def browser(shared_browser: SharedBrowser) -> Generator[Browser]:
    """The system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: run `apt-get install chromium`, or put one on the PATH")
    with shared_browser.use() as browser:
        yield browser
        for context in browser.contexts:
            context.close()


@pytest.fixture
def tabs(browser: Browser) -> Generator[Tabs]:
    """Tabs of one profile; an error in any of them fails the test."""
    with profile(browser) as tabs:
        yield tabs
        assert tabs.errors == []


@pytest.fixture
def page(tabs: Tabs) -> Page:
    """A new tab."""
    return tabs.context.new_page()
