"""Start a Chromium that renders one page: headless, with a new profile, and without a network of its own.

Whatever a page requests is answered over the DevTools pipe (`page_requests.py`). What does not go through there finds no network: a
name is never resolved, a connection goes to a proxy that does not exist, and where the kernel allows it there is no interface either.
So a WebSocket, WebRTC, a service worker or a look-up by Chromium itself reaches nothing.

The process is started and ended by its guard (`chromium_guard.py`). Chromium's own sandbox stays on, except for root, for whom
Chromium does not start with it.
"""

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gristmill.errors import Permanent, Transient
from gristmill.sources.rendering import chromium_guard
from gristmill.sources.rendering.devtools import BrowserGone, DevToolsPipe, EventHandler

log = logging.getLogger(__name__)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAX_STDERR = 4_000  # bytes that are logged
_STOP_SECONDS = 15.0
FOLDER_PREFIX = "gristmill-render-"
# Chromium puts a socket below the folder, whose path may have 107 characters, and ends if it is longer.
_MAX_SCRATCH_LENGTH = 35
_SHORT_SCRATCH = "/tmp"  # noqa: S108  -- the folder below it has a random name, and belongs to its user alone
_NO_PROXY_AT_ALL = "127.0.0.1:1"  # nothing listens there: the port is reserved, and needs root
_UNUSED_FEATURES = (
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "GlobalMediaControls",
    "HttpsFirstBalancedMode",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "Prerender2",
    "SpareRendererForSitePerProcess",
    "Translate",
)
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--mute-audio",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    # Nothing is loaded but the page.
    "--blink-settings=imagesEnabled=false",
    "--deny-permission-prompts",
    "--disable-notifications",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-pings",
    f"--disable-features={','.join(_UNUSED_FEATURES)}",
    # No network besides the pipe.
    f"--proxy-server={_NO_PROXY_AT_ALL}",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
)


@dataclass(frozen=True)
class BrowserLimits:
    """What rendering one page may cost."""

    memory: int = 1 << 30  # bytes of all processes of the browser
    seconds: float = 30.0


def find_chromium(path: Path | None) -> str | None:
    """The program of `path`, else the Chromium on the PATH; None if there is none."""
    if path is not None:
        return str(path) if os.access(path, os.X_OK) and path.is_file() else None
    return next(filter(None, map(shutil.which, NAMES)), None)


@asynccontextmanager
async def start_chromium(
    program: str, limits: BrowserLimits, scratch: Path, on_event: EventHandler
) -> AsyncGenerator[DevToolsPipe]:
    """Run a Chromium during the block; afterwards nothing of it is left. Raises BrowserGone within the block if it ends early, and
    translates that to Transient `render_failed`, or Permanent `render_too_large` if it took too much memory."""
    parent = scratch if len(str(scratch)) <= _MAX_SCRATCH_LENGTH else None
    folder = await asyncio.to_thread(tempfile.mkdtemp, dir=parent or _SHORT_SCRATCH, prefix=FOLDER_PREFIX)
    pipe = DevToolsPipe(on_event)
    to_browser, from_browser = os.pipe(), os.pipe()
    theirs = [to_browser[0], from_browser[1]]
    try:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-I",
                "-S",
                chromium_guard.__file__,
                str(limits.memory),
                folder,
                *map(str, theirs),
            ),
            *_command(program, folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=theirs,
            env=_environment(folder),
        )
    except BaseException:
        os.close(to_browser[1])
        os.close(from_browser[0])
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    await pipe.open(from_browser[0], to_browser[1])
    errors = asyncio.create_task(_read_end(process.stderr), name="chromium errors")
    is_early = False
    try:
        yield pipe
    except BrowserGone:
        is_early = True
    finally:
        await pipe.close()
        code = await _stop(process)
        message = await _text_of(errors)
    if is_early:
        raise _end_error(code, message)


def _command(program: str, folder: str) -> list[str]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return [program, *FLAGS, *sandbox, f"--user-data-dir={folder}/profile", "--no-startup-window"]


def _environment(folder: str) -> dict[str, str]:
    """Only what Chromium needs: no credentials, no proxies, no desktop."""
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {**variables, "HOME": folder, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder}


async def _stop(process: asyncio.subprocess.Process) -> int:
    """End the guard, which ends everything else; its exit code."""
    if process.stdin is not None:
        process.stdin.close()
    waiting = asyncio.ensure_future(process.wait())
    try:
        # Shielded: whoever is cancelled here must not leave processes behind.
        return await asyncio.shield(asyncio.wait_for(waiting, _STOP_SECONDS))
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return await process.wait()


async def _read_end(stream: asyncio.StreamReader | None) -> bytes:
    """The last bytes of a stream."""
    end = b""
    while stream is not None and (block := await stream.read(65_536)):
        end = (end + block)[-_MAX_STDERR:]
    return end


async def _text_of(errors: asyncio.Task[bytes]) -> str:
    try:
        return (await asyncio.wait_for(errors, 1.0)).decode("utf-8", "replace")
    except TimeoutError:
        return ""


def _end_error(code: int, stderr: str) -> Permanent | Transient:
    if code == chromium_guard.OUT_OF_MEMORY:
        return Permanent(
            "Rendering the page takes more memory than `render_memory_mb` allows. Raise it, or don't render this page.",
            code="render_too_large",
        )
    log.warning("chromium ended early", extra={"exit_code": code, "stderr": stderr[-1_000:]})
    return Transient(
        "Chromium ended while it rendered the page. The log of the worker says why. If it never starts, its sandbox may be"
        " forbidden on that machine: see the how-to on crawling.",
        code="render_failed",
        max_attempts=3,
    )
