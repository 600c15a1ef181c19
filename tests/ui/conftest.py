"""One server for the tests of a process, and a browser for each test. What a page's console tells as an error fails the test."""

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.gristmill_process import ServeProcess, run_serve
from tests.ui.harness import CHROMIUM, ApiHelper, ServerSetup, Tabs, chromium, profile, server_setup

expect.set_options(timeout=20_000)  # that only a defect reaches, also on a busy machine


@pytest.fixture(scope="session")
def ui_surroundings(server_url: str, cache_dir: Path) -> Generator[ServerSetup]:
    """What the shared server runs on."""
    with server_setup(server_url, cache_dir) as setup:
        yield setup


@pytest.fixture(scope="session")
def mill_served(ui_surroundings: ServerSetup) -> Generator[ServeProcess]:
    """A `gristmill serve`, for all tests of this process: each makes bases of its own."""
    with run_serve(ui_surroundings.env, log=ui_surroundings.log) as server:
        yield server


@pytest.fixture(scope="session")
def mill_url(mill_served: ServeProcess) -> str:
    """Its address."""
    return mill_served.url


@pytest.fixture
def hand(mill_served: ServeProcess) -> Generator[ApiHelper]:
    """What is done by the API rather than by the page."""
    with mill_served.client() as client:
        yield ApiHelper(client)


@pytest.fixture
def browser() -> Generator[Browser]:
    """The system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: `apt-get install chromium`, or any that is on the PATH")
    with chromium() as browser:
        yield browser


@pytest.fixture
def tabs(browser: Browser) -> Generator[Tabs]:
    """Windows of one profile; an error in any of them fails the test."""
    with profile(browser) as tabs:
        yield tabs
        assert tabs.errors == []


@pytest.fixture
def page(tabs: Tabs) -> Page:
    """One of them."""
    return tabs.context.new_page()
