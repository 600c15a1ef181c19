"""How many requests a first run takes: lists bring bodies, attachments, restrictions and ancestors with them."""

from collections.abc import Mapping
from typing import Any

import pytest

from gristmill.connectors.port import Audience, Batch, Checkpoints, ConnectorLimits, Document
from gristmill.connectors.registry import KINDS
from gristmill.connectors.testing import open_temporarily
from tests.connectors.fakes.confluence import Content, FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.tool import serve_fake

PAGES = 240


def fill(fake: FakeConfluence, count: int = PAGES) -> None:
    """A space with nested pages, attachments, restrictions and comments; children may be older than their parents."""
    fake.page_size, fake.inline_limit, fake.has_whole_index = 100, 5, True
    fake.contents.clear()
    space = fake.spaces[0].id
    pages = [
        Content(fake.new_id(), "page", f"Title {fake.new_word()}", f"Text {fake.new_word()}", fake.now, space)
        for _ in range(count)
    ]
    fake.contents += pages
    for number, page in enumerate(pages):
        fake.advance_clock(20)
        page.updated = fake.now
        if number % 4:
            page.parent = pages[number - 1 if number % 3 else min(number + 4 - number % 4, count - 4)].id
        for file in range(7 if number % 120 == 7 else number % 3):
            page.files[fake.new_id()] = (f"words {file}".encode(), page.updated)
        if number % 9 == 0:
            page.restricted_to = ["@all"] if number % 2 else ["a:1", "c:3"]
        if number % 6 == 0:
            fake.add_comment(page)
    if fake.cloud:
        folder = Content(fake.new_id(), "folder", "Folder", "", fake.now, space, None, restricted_to=["b:2"])
        fake.contents.append(folder)
        pages[40].parent = pages[24].parent = folder.id
    fake.advance_clock(100)


async def read_all(fake: FakeConfluence) -> tuple[dict[str, Document], dict[str, Audience]]:
    """All documents of a first run and who may see them, without storing them."""
    kind = KINDS["confluence"]
    connector = kind.open(
        kind.config.model_validate(fake.config()),
        kind.credentials.model_validate(fake.credentials()),
        ConnectorLimits(allow_private=True),
    )
    checkpoints: Checkpoints = {}
    batches: list[Batch] = [batch async for batch in connector.sync(checkpoints)]
    await connector.close()
    assert [batch.failures for batch in batches if batch.failures] == []
    documents = {document.ref.source_id: document for batch in batches for document in batch.documents}
    return documents, {audience.key: audience for batch in batches for audience in batch.audiences}


@pytest.mark.parametrize("kind", [FakeConfluence, FakeConfluenceDataCenter])
async def test_a_first_run_takes_less_than_1_2_requests_a_page(kind: type[FakeConfluence]) -> None:
    with serve_fake(kind()) as fake:
        fill(fake)
        documents, audiences = await read_all(fake)
        requests = len(fake.calls)
        expected = fake.expected_documents()
        assert documents.keys() == expected.keys()
        for source_id, document in documents.items():
            audience = audiences[document.audience]
            assert audience.complete
            emails = audience.emails.union(*(group.emails for group in audience.tool_groups))
            acl = frozenset(f"user_email:{email}" for email in emails)
            assert acl == expected[source_id].acl, source_id
        for page in (content for content in fake.contents if content.kind == "page"):
            assert len(documents[f"page:{page.id}"].attachments) == len(page.files)
        assert requests < 0.3 * PAGES, requests


@pytest.mark.parametrize("kind", [FakeConfluence, FakeConfluenceDataCenter])
async def test_pages_that_can_not_be_read_together_are_read_one_by_one(kind: type[FakeConfluence]) -> None:
    """A page so large that no response holds it and others must not hold up the run."""
    with serve_fake(kind()) as fake:
        fill(fake, 44)
        fake.add_rule(
            lambda call: (
                "body" in call.params.get("expand", "") and call.params.get("cql", "").startswith("id in")
            ),
            lambda: fake.respond({"message": "too large"}, 413),
            times=99,
        )
        documents, _ = await read_all(fake)
        assert documents.keys() == fake.expected_documents().keys()


class FakeTerseConfluence(FakeConfluence):
    """Searches return neither restrictions nor ancestors, although they are asked for."""

    def _content_v1_json(self, content: Content, expand: list[str]) -> dict[str, Any]:
        full = super()._content_v1_json(content, expand)
        return {name: value for name, value in full.items() if name not in ("restrictions", "ancestors")}


def assert_no_one_sees_more(
    fake: FakeConfluence, audience_by_source: Mapping[str, str], audiences: Mapping[str, Audience]
) -> None:
    """Who sees each document here sees it there, too."""
    for source_id, document in fake.expected_documents().items():
        if source_id not in audience_by_source:
            continue
        audience = audiences[audience_by_source[source_id]]
        groups = [group.emails for group in audience.tool_groups if group.complete]
        emails = audience.emails.union(*groups) if audience.complete else frozenset[str]()
        assert {f"user_email:{email}" for email in emails} <= document.acl, source_id


@pytest.mark.parametrize("kind", [FakeConfluence, FakeTerseConfluence])
async def test_what_confluence_leaves_out_opens_no_page(kind: type[FakeConfluence]) -> None:
    """A response without restrictions does not say that there are none, nor one without ancestors that nothing is above."""
    with serve_fake(kind()) as fake:
        fill(fake, 44)
        fake.has_whole_index = False
        if kind is FakeConfluence:
            single = ("/ancestors", "/restriction/byOperation/read", "/v2/pages")
            fake.add_rule(lambda call: call.path.endswith(single), lambda: fake.respond({}), times=10**9)
        async with open_temporarily(KINDS["confluence"], fake.config(), fake.credentials()) as connector:
            batches = [batch async for batch in connector.sync({})]
            documents = {
                document.ref.source_id: document for batch in batches for document in batch.documents
            }
            said = {source_id: document.audience for source_id, document in documents.items()}
            audiences = {audience.key: audience for batch in batches for audience in batch.audiences}
            assert_no_one_sees_more(fake, said, audiences)
            async for update in connector.resolve_access(sorted({*said.values()})):
                audiences |= {audience.key: audience for audience in update.audiences}
                said |= update.audience_by_source
            assert_no_one_sees_more(fake, said, audiences)
