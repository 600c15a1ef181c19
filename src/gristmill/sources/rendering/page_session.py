"""One page in a browser: load it, wait until it is quiet, and take its text as HTML.

    loading       until the `load` event
    waiting       until no request has been sent for `QUIET`; after `MAX_WAIT_FOR_QUIET`, until those under way by then are
                  answered: a page that polls is taken as it is
    taking        scripts, styles and drawings are removed, open shadow trees put in their place, and links made absolute

What takes longer than the limit is taken as it is by then, if the page has been parsed; else it raises Transient `render_timeout`.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from gristmill import clock
from gristmill.errors import Permanent, Transient
from gristmill.sources.fetch import display_url
from gristmill.sources.rendering import devtools
from gristmill.sources.rendering.devtools import BrowserGone, DevToolsError, DevToolsPipe
from gristmill.sources.rendering.page_requests import PageRequests, PausedRequest

QUIET = timedelta(milliseconds=500)
MAX_WAIT_FOR_QUIET = timedelta(seconds=5)
_TAKING_SECONDS = 5.0
MAX_HTML = 32 << 20  # characters

_TAKE_PAGE = """(() => {
  const unfold = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) {
        unfold(element.shadowRoot);
        const content = document.createElement("div");
        content.append(...element.shadowRoot.childNodes);
        element.append(content);
      }
    }
  };
  try { unfold(document); } catch { /* the rest of the page is worth having */ }
  const dropped = 'script:not([type="application/ld+json"]),style,noscript,template,iframe,frame,object,embed,svg,canvas,video,audio,'
    + 'link:not([rel~="canonical"])';
  for (const element of document.querySelectorAll(dropped)) element.remove();
  for (const link of document.querySelectorAll('a[href],area[href],link[href]')) link.setAttribute("href", link.href);
  for (const base of document.querySelectorAll("base")) base.remove();
  const html = "<!DOCTYPE html>" + document.documentElement.outerHTML;
  return html.length > MAX_HTML ? null : html;
})()""".replace("MAX_HTML", str(MAX_HTML))


class PageSession:
    """Renders one page in a browser that was just started. `on_event` has to be called with the browser's events."""

    def __init__(self, requests: PageRequests) -> None:
        self._requests = requests
        self._pipe: DevToolsPipe | None = None
        self._session = self._frame = ""
        self._answers: set[asyncio.Task[None]] = set()
        self._sent, self._has_crashed, self._is_gone = 0, False, False
        self._idle, self._parsed, self._loaded = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()

    def on_event(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Note an event of the browser, and answer what the page requests."""
        match name:
            case "Fetch.requestPaused":
                task = asyncio.create_task(self._answer(PausedRequest.of(parameters, self._frame)))
                self._answers.add(task)
                self._sent += 1
                self._idle.clear()
                task.add_done_callback(self._forget)
            case "Page.domContentEventFired" if self._requests.is_served:  # else it is that of the empty page
                self._parsed.set()
            case "Page.loadEventFired" if self._requests.is_served:
                self._loaded.set()
            case "Inspector.targetCrashed" | devtools.GONE:
                self._has_crashed, self._is_gone = True, name == devtools.GONE
                self._parsed.set()
                self._loaded.set()
            case "Page.javascriptDialogOpening":
                self._answers.add(task := asyncio.create_task(self._close_dialog()))
                task.add_done_callback(self._forget)
            case _:
                pass

    async def render(self, pipe: DevToolsPipe, seconds: float) -> str | None:
        """The page as HTML; None if its scripts lead to another address."""
        self._pipe = pipe
        try:
            async with asyncio.timeout(seconds):
                await self._load(pipe)
                await self._wait_until_quiet()
        except TimeoutError:
            if not self._parsed.is_set():
                raise self._timeout_error(seconds) from None
        if self._is_gone:
            raise BrowserGone
        if self._has_crashed:
            raise DevToolsError("the page crashed, most often because it needs too much memory")
        if self._requests.location is not None:
            return None
        try:
            async with asyncio.timeout(_TAKING_SECONDS):
                return await self._take(pipe)
        except TimeoutError:  # a script that never ends
            raise self._timeout_error(seconds) from None

    async def close(self) -> None:
        """Stop answering."""
        await clock.cancel_tasks(self._answers)

    async def _load(self, pipe: DevToolsPipe) -> None:
        await pipe.call("Browser.setDownloadBehavior", behavior="deny")
        target = await pipe.call("Target.createTarget", url="about:blank")
        attached = await pipe.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        await self._call("Inspector.enable")
        await self._call("Page.enable")
        tree = await self._call("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        await self._call("Network.enable")
        await self._call("Network.setBypassServiceWorker", bypass=True)
        await self._call("Network.setCacheDisabled", cacheDisabled=True)
        await self._call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        result = await self._call("Page.navigate", url=self._requests.url)
        if result.get("errorText") and self._requests.location is None:
            raise DevToolsError(str(result["errorText"]))
        await self._loaded.wait()

    async def _wait_until_quiet(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT_FOR_QUIET.total_seconds()):
                while self._requests.location is None:
                    await self._idle.wait()
                    sent = self._sent
                    await clock.pause(QUIET)
                    if sent == self._sent and self._idle.is_set():
                        return
        if self._answers and self._requests.location is None:
            await asyncio.wait(self._answers)
            await clock.pause(QUIET)  # for the page to show what it got

    async def _take(self, pipe: DevToolsPipe) -> str:
        """Read the page in a world of its own, where its scripts have changed nothing."""
        world = await self._call("Page.createIsolatedWorld", frameId=self._frame)
        result = await pipe.call(
            "Runtime.evaluate",
            self._session,
            expression=_TAKE_PAGE,
            contextId=world["executionContextId"],
            returnByValue=True,
        )
        html = result.get("result", {}).get("value")
        if not isinstance(html, str):
            if "exceptionDetails" in result:
                raise DevToolsError(json.dumps(result["exceptionDetails"])[:500])
            raise Permanent(
                f"{display_url(self._requests.url)} is larger than {MAX_HTML:,} characters when it is rendered.",
                code="document_too_large",
            )
        return html

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        assert self._pipe is not None
        return await self._pipe.call(method, self._session, **parameters)

    async def _answer(self, request: PausedRequest) -> None:
        answer = await self._requests.answer(request)
        if self._requests.location is not None:  # there is nothing more to wait for
            self._parsed.set()
            self._loaded.set()
        method, parameters = answer.to_call(request.id)
        with suppress(BrowserGone, DevToolsError):  # the page may have withdrawn the request
            await self._call(method, **parameters)

    async def _close_dialog(self) -> None:
        with suppress(BrowserGone, DevToolsError):
            await self._call("Page.handleJavaScriptDialog", accept=False)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if not task.cancelled():
            task.exception()
        if not self._answers:
            self._idle.set()

    def _timeout_error(self, seconds: float) -> Transient:
        return Transient(
            f"{display_url(self._requests.url)} was not rendered within {seconds:g} seconds. Raise `render_timeout` if the page is"
            " slow, or don't render it.",
            code="render_timeout",
            max_attempts=3,
        )
