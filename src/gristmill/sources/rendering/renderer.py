"""Render web pages that are made by scripts, with the Chromium that is installed.

    never     a page is what its server sends
    auto      a page with scripts and hardly any text is rendered
    always    every page is rendered

A rendered page is stored as the HTML of its elements, without scripts and styles. Whether it has changed is decided by its title and
text: marks that scripts write, such as a time or a number, are often others each time. So it has no validators of the server, and is
fetched and rendered at every check.

    no Chromium                              Permanent   render_unavailable
    it ends early, or can't start            Transient   render_failed, given up after three attempts
    not rendered in time                     Transient   render_timeout, given up after three attempts
    too much memory                          Permanent   render_too_large
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from gristmill import faults, net
from gristmill.errors import Permanent, Transient, Unreadable
from gristmill.sources import threads
from gristmill.sources.fetch import display_url
from gristmill.sources.page import PAGE_TYPES, decode_page, is_made_by_scripts, to_markdown
from gristmill.sources.rendering.chromium import BrowserLimits, find_chromium, start_chromium
from gristmill.sources.rendering.devtools import DevToolsError
from gristmill.sources.rendering.page_requests import Allows, PageRequests, may_use_private
from gristmill.sources.rendering.page_session import PageSession
from gristmill.sources.source import Original
from gristmill.sources.url import UrlSource
from gristmill.stage_gate import Requester, StageGate

RenderRule = Literal["never", "auto", "always"]
DIGEST = "rendered"  # the validator of a rendered page: a hash of its title and text
MAX_REDIRECTS = 5  # by scripts, of one page


@dataclass(frozen=True)
class RenderedPage:
    """A page as a browser has it, or the address that its scripts lead to."""

    original: Original | None = None
    location: str | None = None


@dataclass(frozen=True)
class RenderSettings:
    """Which browser renders, and what one page may cost."""

    chromium: Path | None = None  # None: the one on the PATH
    limits: BrowserLimits = field(default_factory=BrowserLimits)


class Renderer:
    """Renders pages, as many at once as there are places in its stage."""

    def __init__(
        self, places: StageGate, scratch: Path, settings: RenderSettings, *, allow_private: bool
    ) -> None:
        self._places, self._scratch, self._settings = places, scratch, settings
        self._allow_private = allow_private

    async def must_render(self, original: Original, rule: RenderRule) -> bool:
        """Whether a response is a page that is to be rendered."""
        if rule == "never" or original.unchanged or original.media_type not in PAGE_TYPES:
            return False
        work = partial(is_made_by_scripts, original.data, original.charset)
        return rule == "always" or await threads.run_blocking(work)

    async def render(
        self, original: Original, url: str, requester: Requester, allows: Allows = lambda _: True
    ) -> RenderedPage:
        """Render the page that was fetched from `url`. `allows` says what robots.txt lets a page of its site request."""
        program = find_chromium(self._settings.chromium)
        if program is None:
            raise Permanent(
                f"{display_url(url)} is made by scripts and has to be rendered, but no Chromium was found. Install Chromium where"
                " the worker runs, or set `chromium_path`; or set `render` to `never`.",
                code="render_unavailable",
            )
        async with self._places.place(requester):
            await faults.point("render.begun")
            html, location = await self._run(program, original, url, allows)
        if html is None:
            return RenderedPage(location=location)
        data = html.encode("utf-8", "replace")
        page = await threads.run_blocking(partial(to_markdown, data, url, "utf-8"))
        digest = hashlib.sha256(f"{page.title}\0{page.text}".encode()).hexdigest()
        return RenderedPage(
            replace(original, data=data, media_type="text/html", charset="utf-8", metadata={DIGEST: digest})
        )

    async def _run(
        self, program: str, original: Original, url: str, allows: Allows
    ) -> tuple[str | None, str | None]:
        settings = self._settings
        decoded = await threads.run_blocking(partial(decode_page, original.data, original.charset))
        text = decoded.removeprefix("\ufeff")
        private = may_use_private(original, allow_private=self._allow_private)
        async with net.client(allow_private=private) as client:
            client.follow_redirects = False
            seconds = settings.limits.seconds / 3
            requests = PageRequests(url.partition("#")[0], text.encode(), client, allows, seconds)
            session = PageSession(requests)
            try:
                async with start_chromium(program, settings.limits, self._scratch, session.on_event) as pipe:
                    try:
                        return await session.render(pipe, settings.limits.seconds), requests.location
                    finally:
                        await session.close()
            except DevToolsError as error:
                raise Transient(
                    f"Chromium could not render {display_url(url)}: {str(error).rstrip('.')}. It is tried three times; if it goes on,"
                    " set `render` to `never` for this page.",
                    code="render_failed",
                    max_attempts=3,
                ) from error
        raise AssertionError  # `start_chromium` suppresses nothing

    async def read(
        self, source: UrlSource, rule: RenderRule, requester: Requester, sources: StageGate
    ) -> Original:
        """Read a page within a place of `sources`, and render it if it has to be. It is unchanged if the server says so, or if its
        text is that of the source's validators."""
        known = source.validators
        if rule == "always" and DIGEST not in known:
            source = replace(source, validators={})  # the server only knows about the page as it sends it
        for _ in range(MAX_REDIRECTS):
            async with sources.place(requester):
                original = await source.read()
            if not await self.must_render(original, rule):
                return original
            rendered = await self.render(original, original.final_url or source.url, requester)
            if rendered.original is not None:
                is_same = rendered.original.metadata[DIGEST] == known.get(DIGEST)
                return replace(rendered.original, data=b"", unchanged=True) if is_same else rendered.original
            source = replace(source, url=rendered.location or source.url, validators={})
        raise Unreadable(f"{display_url(source.url)} redirects in circles.", code="too_many_redirects")
