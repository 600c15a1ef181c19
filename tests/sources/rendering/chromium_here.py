"""The Chromium of this machine, for tests that render pages with it."""

import tempfile
from pathlib import Path

import pytest

from gristmill.sources import Original
from gristmill.sources.rendering import BrowserLimits, Renderer, RenderSettings, find_chromium
from gristmill.sources.rendering.renderer import RenderedPage
from gristmill.stage_gate import ANYBODY, StageGate

CHROMIUM = find_chromium(None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed: run `apt-get install chromium`, or put one on the PATH",
)
LOOPBACK = "127.0.0.1"
PUBLIC = "93.184.215.14"


def create_renderer(
    *, allow_private: bool = True, scratch: Path | None = None, limits: BrowserLimits | None = None
) -> Renderer:
    """A renderer with one place."""
    settings = RenderSettings(limits=limits or BrowserLimits())
    folder = scratch or Path(tempfile.gettempdir())
    return Renderer(StageGate(1), folder, settings, allow_private=allow_private)


async def render(renderer: Renderer, html: str, url: str, peer: str = LOOPBACK) -> RenderedPage:
    """Render a page as if it had been fetched from this address."""
    original = Original(html.encode(), "page", "text/html", "utf-8", url, peer=peer)
    return await renderer.render(original, url, ANYBODY)


def rendered_text(page: RenderedPage) -> str:
    """The HTML of a rendered page."""
    assert page.original is not None
    return page.original.data.decode()
