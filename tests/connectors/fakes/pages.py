"""Fakes of a MediaWiki and of a site with a feed."""

import hashlib
from typing import Any
from xml.sax.saxutils import escape

from tests.connectors.fakes.tool import ExpectedDocument, FakeCall, FakeError, FakeTool, words_in
from tests.sources.site import SiteResponse

EVERYONE = frozenset({"org:*"})


class FakePages(FakeTool):
    """Numbered pages with revisions, without permissions."""

    has_permissions = False

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[int, str] = {}
        self.revisions: dict[int, int] = {}
        for _ in range(12):
            self.add()

    def add(self) -> None:
        number = self.new_id()
        self.texts[number], self.revisions[number] = f"text {self.new_word()}", self.new_id()

    def edit(self, pick: int) -> None:
        number = sorted(self.texts)[pick % len(self.texts)]
        self.texts[number], self.revisions[number] = f"text {self.new_word()}", self.new_id()

    def delete(self, pick: int) -> None:
        if len(self.texts) > 8:
            del self.texts[sorted(self.texts)[pick % len(self.texts)]]

    def check_authorization(self, call: FakeCall) -> None:
        del call  # everything is public


class FakeMediaWiki(FakePages):
    """A wiki that lists a few pages at a time."""

    kind = "mediawiki"
    requests_each = 2

    def __init__(self) -> None:
        super().__init__()
        self.route("GET", "/w/api.php", self._api)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"apiUrl": f"{self.site.url}/w/api.php"}

    def credentials(self) -> dict[str, Any]:
        return {}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"page:{number}": ExpectedDocument(words_in(text), EVERYONE)
            for number, text in self.texts.items()
        }

    def is_detail(self, call: FakeCall) -> bool:
        return "pageids" in call.params or call.params.get("action") == "parse"

    def _api(self, call: FakeCall) -> dict[str, Any]:
        params = call.params
        assert (params["format"], params["formatversion"]) == ("json", "2")
        if params["action"] == "parse":
            number = int(params["pageid"])
            if number not in self.texts:
                return {"error": {"code": "nosuchpageid"}}
            text = f"<p>{self.texts[number]}</p>"
            return {"parse": {"pageid": number, "revid": self.revisions[number], "text": text}}
        if "pageids" in params:
            number = int(params["pageids"])
            if number not in self.texts:
                return {"query": {"pages": [{"pageid": number, "missing": True}]}}
            return {"query": {"pages": [self._show(number)]}}
        if "meta" in params:
            return {
                "query": {
                    "general": {"sitename": "Grain"},
                    "userinfo": {"anon": True, "name": "::1"},
                    "namespaces": {"0": {}, "6": {}},
                    "statistics": {"articles": len(self.texts)},
                }
            }
        assert (params["generator"], params["gapnamespace"]) == ("allpages", "0")
        numbers = [number for number in sorted(self.texts) if str(number) >= params.get("gapcontinue", "")]
        page, rest = numbers[: self.page_size], numbers[self.page_size :]
        following = {"continue": {"gapcontinue": str(rest[0]), "continue": "gapcontinue||"}} if rest else {}
        return {"query": {"pages": [self._show(number) for number in page]}, **following}

    def _show(self, number: int) -> dict[str, Any]:
        return {"pageid": number, "ns": 0, "title": f"Page {number}", "lastrevid": self.revisions[number]}


class FakeFeed(FakePages):
    """A site with an RSS feed of all its entries. One that it no longer names may have been read before, and then stays."""

    kind = "feeds"
    reads_at_once = True
    keeps_deleted = True

    def __init__(self) -> None:
        super().__init__()
        self.route("GET", "/feed.xml", self._feed)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"feeds": [f"{self.site.url}/feed.xml"]}

    def credentials(self) -> dict[str, Any]:
        return {}

    def delete(self, pick: int) -> None:
        before = set(self.expected_documents())
        super().delete(pick)
        self.former_ids |= before - set(self.expected_documents())

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        assert self.site is not None
        prefix = f"{self.site.url}/feed.xml tag:"
        return {
            "entry:" + hashlib.sha256(f"{prefix}{number}".encode()).hexdigest()[:32]: ExpectedDocument(
                words_in(text), EVERYONE
            )
            for number, text in self.texts.items()
        }

    def is_detail(self, call: FakeCall) -> bool:
        # A request with a condition only asks whether the feed changed.
        return call.path == "/feed.xml" and "if-none-match" not in call.headers

    def _feed(self, call: FakeCall) -> SiteResponse:
        items = "".join(
            f"<item><title>Entry</title><guid>tag:{number}</guid><description>{escape(f'<p>{text}</p>')}</description></item>"
            for number, text in self.texts.items()
        )
        body = f"<rss version='2.0'><channel><title>Grain</title>{items}</channel></rss>".encode()
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        if call.headers.get("if-none-match") == etag:
            raise FakeError(304)
        return SiteResponse(200, body, {"ETag": etag, "Content-Type": "application/rss+xml"})
