"""Serves the UI: the index page for every path that people visit, and its files. All other requests go on to the API.

    GET /assets/<version>/…                    that file, cached without expiry; 404 if there is none
    GET, accepts HTML, not an API path         the index page; its script shows what the path names
    everything else                            passed on

The files contain no user data, so no key is needed for them: the page loads its data from the API, which checks the key.
Serving them does not need the database: during an outage the page loads and reports it. The content security policy allows
only our own files: the page contains no inline script or style, and loads nothing from another site.
"""

import re
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
# These paths, and all paths below them, are not pages.
_OTHER_ENDPOINTS = ("/api", "/mcp", "/docs", "/scim")
# What every page asks for first, and what the page of a base does; as `session.js`, `bases.js` and `tree/model.js` ask for it. Only
# what every caller may read: a refused request is in the audit log.
_DATA = ("/api/session", "/api/knowledge-bases?limit=500")
_BASE_PAGE = re.compile(r"/b/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_BASE_DATA = ("tree?offset=0&limit=100",)
_IMMUTABLE = "public, max-age=31536000, immutable"


class UiMiddleware:
    """Serves pages and assets, and passes other requests on."""

    def __init__(self, app: ASGIApp, files: StaticFiles | None = None) -> None:
        self._app, self._files = app, files or load()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond, or pass the request on."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        path, headers = str(scope["path"]), Headers(scope=scope)
        if path.startswith(_ASSETS):
            await self._asset_response(path, headers)(scope, receive, send)
        elif _is_page(path) and _accepts(headers.get("accept", ""), "text/html"):
            response_headers = {
                "cache-control": "no-cache",
                "content-security-policy": POLICY,
                "link": _data_links(path, has_query=bool(scope["query_string"])),
            }
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
                "File not found. Your page is from another version: reload it.",
            )
        # A web worker has the policy of its own file, not that of the page.
        return _file_response(file, headers, {"cache-control": _IMMUTABLE, "content-security-policy": POLICY})


def _data_links(path: str, *, has_query: bool) -> str:
    """The data that the page will ask for. The browser fetches it while it loads the modules, under the caller's cookie."""
    paths = [*_DATA]
    if (base := _BASE_PAGE.fullmatch(path)) and not has_query:  # with a query, the tree may be filtered
        paths += [f"/api/knowledge-bases/{base[1]}/{name}" for name in _BASE_DATA]
    return ", ".join(f"<{path}>; rel=preload; as=fetch; crossorigin=anonymous" for path in paths)


def _is_page(path: str) -> bool:
    """Whether a path is a page: no API route and no other endpoint has it."""
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
    """Whether an Accept header lists `value` with a weight above zero."""
    return any(_matches(choice.split(";"), value) for choice in header.lower().split(","))


def _matches(parts: Iterable[str], value: str) -> bool:
    name, *parameters = (part.strip() for part in parts)
    has_zero_weight = any(
        part.removeprefix("q=").strip("0.") == "" for part in parameters if part.startswith("q=")
    )
    return name == value and not has_zero_weight
