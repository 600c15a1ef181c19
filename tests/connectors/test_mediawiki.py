"""MediaWiki: sessions that end, and pages that are closed to the account."""

from typing import Any

import pytest

from gristmill.connectors import mediawiki
from gristmill.connectors.port import DocumentRef, Stream
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.errors import Unreadable
from tests.connectors.fakes.pages import FakeMediaWiki
from tests.connectors.fakes.tool import FakeCall, fake_tool_fixture


class FakeClosedWiki(FakeMediaWiki):
    """A wiki of which only those who are signed in see more than one page; sessions end after `lifetime` requests."""

    def __init__(self) -> None:
        super().__init__()
        self.sign_ins, self.requests, self.lifetime = 0, 0, 5
        self.closed: set[str] = set()
        self.route("POST", "/w/api.php", self._sign_in)

    def credentials(self) -> dict[str, Any]:
        return {"username": "Ann@reader", "password": "s3cret"}

    def answer(self, request: Any) -> Any:
        if request.method == "POST":
            assert b"lgpassword=s3cret" in request.body
            request = type(request)(request.method, request.path, request.headers, b"")
        return super().answer(request)

    def _sign_in(self, call: FakeCall) -> dict[str, Any]:
        assert call.params["action"] == "login"
        self.sign_ins, self.requests = self.sign_ins + 1, 0
        return {"login": {"result": "Success"}}

    def _api(self, call: FakeCall) -> dict[str, Any]:
        if call.params.get("meta") == "tokens":
            return {"query": {"tokens": {"logintoken": "t"}}}
        self.requests += 1
        if self.requests > self.lifetime:
            if call.params.get("assert") == "user":
                return {"error": {"code": "assertuserfailed"}}
            return {"query": {"pages": []}}
        if call.params.get("pageid") in self.closed:
            return {"error": {"code": "permissiondenied"}}
        return super()._api(call)


tool = fake_tool_fixture(FakeClosedWiki)


async def test_a_session_that_ends_is_begun_again(tool: FakeClosedWiki) -> None:
    """Without an account the wiki shows less, and that looked like deletions."""
    documents = await read_all(open_kind(mediawiki.KIND, tool.config(), tool.credentials()))
    assert set(documents) == set(tool.expected_documents())
    assert tool.sign_ins > 2


async def test_a_page_that_is_closed_is_no_refusal_of_the_credentials(tool: FakeClosedWiki) -> None:
    """It ended every run."""
    tool.lifetime = 1000
    connector = open_kind(mediawiki.KIND, tool.config(), tool.credentials())
    (batch, *_) = [batch async for batch in connector.sync({})]
    tool.closed = {batch.present[0].ref.locator["page"]}
    with pytest.raises(Unreadable, match="can't read the page"):
        await connector.fetch(batch.present[0].ref)
    await connector.fetch(batch.present[1].ref)
    await connector.close()


async def test_a_page_of_a_file_that_is_lost_or_hidden_is_read_without_it(tool: FakeClosedWiki) -> None:
    """The wiki names neither its hash nor its address: the page was an error of every run."""
    number = next(iter(tool.texts))
    shown = {"pageid": number, "ns": 0, "title": "File:Mill.pdf", "imageinfo": [{"filemissing": True}]}
    answer = {"query": {"pages": [shown]}}
    tool.lifetime = 1000
    tool.add_rule(lambda call: "pageids" in call.params, lambda: tool.respond(answer))
    async with open_temporarily(mediawiki.KIND, tool.config(), tool.credentials()) as connector:
        ref = DocumentRef(f"page:{number}", Stream("namespace:0", "page"), {"page": str(number)})
        assert (await connector.fetch(ref)).attachments == ()
