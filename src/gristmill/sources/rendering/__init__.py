"""Render web pages that are made by scripts.

renderer.py          which pages are rendered, by how many at once, and whether their text has changed
page_session.py      one page in a browser, until it is quiet
page_requests.py     what a page gets for its requests: the only way to the network
chromium.py          start a browser without a network of its own
devtools.py          speak with it over pipes
chromium_guard.py    the process that starts it and leaves nothing of it behind
"""

from gristmill.sources.rendering.chromium import BrowserLimits, find_chromium
from gristmill.sources.rendering.renderer import Renderer, RenderRule, RenderSettings

__all__ = ["BrowserLimits", "RenderRule", "RenderSettings", "Renderer", "find_chromium"]
