"""A fake of Notion's API (version 2025-09-03), written from its published reference. Times are rounded to the minute."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.connectors.fakes.tool import ExpectedDocument, FakeCall, FakeError, FakeTool, words_in
from tests.sources.site import SiteResponse

EVERYONE = frozenset({"org:*"})
SOURCE = "ds-1"


@dataclass
class NotionPage:
    """A page with two paragraphs, one of them inside a toggle; in a database if it has a source."""

    id: str
    text: str
    inner: str
    edited: datetime
    source: str | None = None
    created: str = "2026-02-01T10:00:00.000Z"
    in_trash: bool = False
    blocks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def rich(text: str, **more: Any) -> list[dict[str, Any]]:
    """A text as a list of rich texts."""
    return [{"type": "text", "plain_text": text, "annotations": {}, **more}]


class FakeNotion(FakeTool):
    """A workspace with pages inside and outside a database."""

    kind = "notion"
    requests_each = 3
    has_permissions = False

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, NotionPage] = {}
        self.files: dict[str, bytes] = {}
        self.max_results = 10_000  # of one query
        self.advance_clock(-3600)
        for _ in range(12):
            self.add()
        self.advance_clock(3600)
        self.route("GET", "/v1/users/me", self._me)
        self.route("POST", "/v1/search", self._search)
        self.route("POST", f"/v1/data_sources/{SOURCE}/query", self._query)
        self.route("GET", "/v1/pages/{page}", self._page)
        self.route("GET", "/v1/blocks/{block}/children", self._children)
        self.route("GET", "/v1/blocks/{block}", self._block)
        self.route("GET", "/signed/{name}", self._file)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url}

    def followed(self) -> list[NotionPage]:
        """The pages that are not in the trash."""
        return [page for page in self.pages.values() if not page.in_trash]

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"page:{page.id}": ExpectedDocument(words_in(f"{page.text} {page.inner}"), EVERYONE)
            for page in self.followed()
        }

    def add(self) -> None:
        number = self.new_id()
        source = SOURCE if len(self.pages) % 3 == 0 else None
        page = NotionPage(
            f"p{number}", f"text {self.new_word()}", f"inner {self.new_word()}", self.now, source
        )
        self.pages[page.id] = page

    def edit(self, pick: int) -> None:
        page = self.followed()[pick % len(self.followed())]
        if pick % 2:
            page.inner = f"inner {self.new_word()}"
        else:
            page.text = f"text {self.new_word()}"
        page.edited = self.now

    def delete(self, pick: int) -> None:
        if len(self.followed()) > 8:
            page = self.followed()[pick % len(self.followed())]
            if pick % 2:
                page.in_trash = True
            else:
                del self.pages[page.id]

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.startswith(("/v1/pages/", "/v1/blocks/"))

    def check_authorization(self, call: FakeCall) -> None:
        if call.path.startswith("/signed/"):
            assert "authorization" not in call.headers
            return
        super().check_authorization(call)
        assert call.headers["notion-version"] == "2025-09-03"

    def _me(self, call: FakeCall) -> dict[str, Any]:
        del call
        return {"object": "user", "type": "bot", "name": "Reader", "bot": {"workspace_name": "Acme"}}

    def _search(self, call: FakeCall) -> dict[str, Any]:
        kind = call.body["filter"]["value"]
        assert call.body["filter"] == {"property": "object", "value": kind}
        if kind == "data_source":
            return self._page_of(call, [{"object": "data_source", "id": SOURCE}])
        pages = sorted(
            self.followed(),
            key=lambda page: (page.edited.replace(second=0, microsecond=0), page.id),
            reverse=call.body["sort"]["direction"] == "descending",
        )
        return self._page_of(call, [self.show(page) for page in pages])

    def _query(self, call: FakeCall) -> dict[str, Any]:
        by_creation = [{"timestamp": "created_time", "direction": "ascending"}]
        assert call.body.get("sorts", by_creation) == by_creation
        created = call.body.get("filter", {"timestamp": "created_time", "created_time": {"on_or_after": ""}})
        assert created["timestamp"] == "created_time"
        pages = sorted((page.created, page.id, page) for page in self.followed() if page.source == SOURCE)
        since = created["created_time"]["on_or_after"]
        return self._page_of(call, [self.show(page) for at, _, page in pages if at >= since])

    def _page_of(self, call: FakeCall, rows: list[dict[str, Any]]) -> dict[str, Any]:
        start = int((call.body or call.params).get("start_cursor") or 0)
        end = start + self.page_size
        status = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
        is_cut_off, rows = len(rows) > self.max_results, rows[: self.max_results]
        has_more = end < len(rows)
        return {
            "object": "list",
            "results": rows[start:end],
            "has_more": has_more,
            "next_cursor": str(end) if has_more else None,
            **({"request_status": status} if is_cut_off else {}),
        }

    def _find(self, page_id: str) -> NotionPage:
        if page_id not in self.pages:
            raise FakeError(404, {"code": "object_not_found"})
        return self.pages[page_id]

    def _page(self, call: FakeCall, page: str) -> dict[str, Any]:
        del call
        return self.show(self._find(page))

    def _children(self, call: FakeCall, block: str) -> dict[str, Any]:
        page = self._find(block.removeprefix("toggle-"))
        if block.startswith("toggle-"):
            return self._page_of(call, [_paragraph(page.inner)])
        toggle = {"object": "block", "id": f"toggle-{block}", "type": "toggle", "has_children": True}
        return self._page_of(
            call, [_paragraph(page.text), {**toggle, "toggle": {"rich_text": rich("more")}}, *page.blocks]
        )

    def _block(self, call: FakeCall, block: str) -> dict[str, Any]:
        del call
        for page in self.followed():
            for entry in page.blocks:
                if entry["id"] == block:
                    return entry
        raise FakeError(404)

    def _file(self, call: FakeCall, name: str) -> SiteResponse:
        del call
        return SiteResponse(200, self.files[name])

    def show(self, page: NotionPage) -> dict[str, Any]:
        """As the API returns it."""
        parent = {"type": "workspace", "workspace": True}
        if page.source:
            parent = {"type": "data_source_id", "data_source_id": page.source, "database_id": "db-1"}
        return {
            "object": "page",
            "id": page.id,
            "created_time": page.created,
            "last_edited_time": f"{page.edited:%Y-%m-%dT%H:%M}:00.000Z",
            "in_trash": page.in_trash,
            "parent": parent,
            "url": f"https://www.notion.so/{page.id}",
            "properties": {
                "Name": {"type": "title", "title": rich(f"Page {page.id}")},
                "State": {"type": "status", "status": {"name": "Open"}},
            },
        }


def _paragraph(text: str) -> dict[str, Any]:
    return {"object": "block", "id": "b", "type": "paragraph", "paragraph": {"rich_text": rich(text)}}
