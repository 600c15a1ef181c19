"""A real web site whose pages link to each other and have validators, and a manual worker that crawls it."""

import hashlib
from typing import Any

from gristmill.catalog import Base, NewItem
from gristmill.operations import add
from tests.operations.manual_worker import UNLIMITED, ManualWorker
from tests.sources.site import Site, SiteRequest, SiteResponse

Links = tuple[str, ...] | list[str]


class LinkedSite:
    """Pages by path. `statuses` records the responses of each path."""

    def __init__(self, server: Site) -> None:
        self.server, self.url = server, server.url
        self.statuses: dict[str, list[int]] = {}

    def publish(self, path: str, word: str, links: Links = (), head: str = "", **headers: str) -> str:
        """Publish a page about `word` that links to other paths. Returns its address."""
        anchors = "".join(f'<p><a href="{link}">more about {link}</a></p>' for link in links)
        body = (
            f"<html><head><title>{word}</title>{head}</head><body><article><h1>{word}</h1>"
            f"<p>{word} is sold by the sack on Tuesdays.</p>{anchors}</article></body></html>"
        ).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        fields = {
            "Content-Type": "text/html",
            "ETag": tag,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }

        def respond(request: SiteRequest) -> SiteResponse:
            status = 304 if request.headers.get("If-None-Match") == tag else 200
            self.statuses.setdefault(path, []).append(status)
            return SiteResponse(status, b"" if status == 304 else body, fields)

        self.server.pages[path] = respond
        return self.url + path

    def redirect(self, path: str, target: str) -> None:
        """Redirect a path."""
        self.server.pages[path] = SiteResponse(302, b"", {"Location": target})

    def fail(self, path: str, status: int) -> None:
        """Let a path respond with an error."""
        self.server.pages[path] = SiteResponse(status)

    def list_in_sitemap(self, *paths: str) -> None:
        """Publish /sitemap.xml."""
        urls = "".join(f"<url><loc>{self.url}{path}</loc></url>" for path in paths)
        body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        self.server.add_page("/sitemap.xml", body, Content_Type="application/xml")

    def requests_since(self, count: int) -> list[str]:
        """Paths of pages that were requested after the first `count` requests."""
        paths = self.server.requested_paths()[count:]
        return sorted(path for path in paths if path not in ("/robots.txt", "/sitemap.xml"))


async def add_site(worker: ManualWorker, base: Base, url: str, **rules: Any) -> None:
    """Add a site, and crawl and index it."""
    item = NewItem("site", "site", url, source={"url": url, **rules})
    await add.add(worker.db, base.id, [add.ItemToAdd(item, None)], UNLIMITED)
    await worker.work()


async def page_paths(worker: ManualWorker, site: LinkedSite) -> dict[str, str]:
    """The status of each page in the base, by its path."""
    rows = await worker.rows("select source_key, status from item where type = 'url'")
    return {url.removeprefix(site.url): status for url, status in sorted(rows)}


async def left_out(worker: ManualWorker) -> dict[str, int]:
    """What the last listing of the site left out."""
    return await worker.value("select left_out from item where type = 'site'")
