"""What a browser is given: the page for every path that people see, and its files; everything else goes on to the API.

    GET /assets/<version>/…                    that file, to be kept for ever; 404 when there is none
    GET, accepts HTML, a path of no other door the page; it finds out by itself what the path means
    everything else                            as if this were not here

They hold nothing of anybody's, so that nobody is asked for a key: what the page shows comes by the API, which asks. Neither
needs the database: while it is away, the page comes and says so. The policy allows our own files alone: no script or style
stands in the page, and none of another site is loaded.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gristmill.server.api.access_rules import allowed_methods
from gristmill.server.api.problems import problem
from gristmill.server.ui.static_files import StaticFile, StaticFiles, load

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_ASSETS = "/assets/"
# Doors of their own, and what is below them.
_OTHER_ENDPOINTS = ("/api", "/mcp", "/docs")
_IMMUTABLE = "public, max-age=31536000, immutable"


class UiMiddleware:
    """Answers browsers, and passes on what is not for them."""

    def __init__(self, app: ASGIApp, files: StaticFiles | None = None) -> None:
        self._app, self._files = app, files or load()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass it on."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        path, headers = str(scope["path"]), Headers(scope=scope)
        if path.startswith(_ASSETS):
            await self._asset_response(path, headers)(scope, receive, send)
        elif _is_page(path) and _accepts(headers.get("accept", ""), "text/html"):
            response_headers = {"cache-control": "no-cache", "content-security-policy": POLICY}
            await _file_response(self._files.page_of(path), headers, response_headers)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _asset_response(self, path: str, headers: Headers) -> Response:
        name = path.removeprefix(self._files.prefix)
        file = None if name == path else self._files.assets.get(name)
        if file is None:
            return problem(
                404,
                "file_not_found",
                "There is no such file. Load the page again: yours is of another version.",
            )
        # A worker goes by the policy of its own file, not by that of the page.
        return _file_response(file, headers, {"cache-control": _IMMUTABLE, "content-security-policy": POLICY})


def _is_page(path: str) -> bool:
    """Whether a path is for people: no route has it, and no other door."""
    is_below_endpoint = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _OTHER_ENDPOINTS)
    return path == "/" or not (is_below_endpoint or allowed_methods(path))


def _file_response(file: StaticFile, headers: Headers, extra_headers: dict[str, str]) -> Response:
    gzipped = file.gzipped if _accepts(headers.get("accept-encoding", ""), "gzip") else None
    encoding = {} if gzipped is None else {"content-encoding": "gzip"}
    return Response(
        file.plain if gzipped is None else gzipped,
        media_type=None,
        headers={"content-type": file.type, "vary": "Accept-Encoding", **extra_headers, **encoding},
    )


def _accepts(header: str, value: str) -> bool:
    """Whether a header with choices takes `wanted`; not when it gives it no weight."""
    return any(_matches(choice.split(";"), value) for choice in header.lower().split(","))


def _matches(parts: Iterable[str], value: str) -> bool:
    name, *parameters = (part.strip() for part in parts)
    has_zero_weight = any(
        part.removeprefix("q=").strip("0.") == "" for part in parameters if part.startswith("q=")
    )
    return name == value and not has_zero_weight
