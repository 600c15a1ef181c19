"""Notion's blocks as markdown and its files; Linear's errors and uploads."""

from typing import Any

import pytest

from gristmill import app
from gristmill.connectors import linear
from gristmill.connectors.notion import blocks
from gristmill.connectors.notion import connector as notion
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import SourceGone, Unreadable
from tests.connectors.fakes.linear import FakeLinear
from tests.connectors.fakes.notion import SOURCE, FakeNotion, NotionPage, rich
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness


def block(
    kind: str, text: str = "", children: list[dict[str, Any]] | None = None, **data: Any
) -> dict[str, Any]:
    return {"type": kind, kind: {"rich_text": rich(text), **data}, "children": children or []}


def test_blocks_become_markdown() -> None:
    row: dict[str, Any] = {"type": "table_row", "table_row": {"cells": [rich("a|b"), rich("c")]}}
    external = {"external": {"url": "https://a.example/p.png"}, "caption": rich("Fields")}
    page: list[dict[str, Any]] = [
        block("heading_2", "Plan"),
        block("paragraph", "rye", annotations={}),
        block("bulleted_list_item", "one", [block("to_do", "inner", checked=True)]),
        block("bulleted_list_item", "two"),
        block("numbered_list_item", "first"),
        block("numbered_list_item", "second"),
        block("code", "x = 1", language="python"),
        {"type": "table", "table": {}, "children": [row, row]},
        {
            "type": "column_list",
            "column_list": {},
            "children": [{"type": "column", "children": [block("quote", "left")]}],
        },
        {"type": "image", "image": external},
        block("unheard_of", "kept"),
    ]
    assert blocks.to_markdown(page) == (
        "### Plan\n\nrye\n\n- one\n    - [x] inner\n- two\n\n1. first\n2. second\n\n```python\nx = 1\n```\n\n"
        "| a\\|b | c |\n| --- | --- |\n| a\\|b | c |\n\n> left\n\n[Fields](https://a.example/p.png)\n\nkept"
    )
    styled = [{"plain_text": "go ", "annotations": {"bold": True}, "href": "https://a.example"}, *rich("on")]
    assert blocks.rich_markdown(styled) == "[**go**](https://a.example) on"


async def test_pages_of_notion_have_properties_files_and_marks_that_settle() -> None:
    with serve_fake(FakeNotion()) as tool:
        assert tool.site is not None
        page = next(page for page in tool.followed() if page.source)
        tool.files["plan.pdf"] = b"wheat"
        file = {"name": "plan.pdf", "file": {"url": f"{tool.site.elsewhere}/signed/plan.pdf"}}
        page.blocks.append({"id": "f1", "type": "file", "last_edited_time": "2026-03-01", "file": file})
        documents = await read_all(open_kind(notion.KIND, tool.config(), tool.credentials()))
        read = documents[f"page:{page.id}"]
        assert read.attachments == {"plan.pdf": b"wheat"}
        assert read.text.startswith(f"# Page {page.id}\n\n- State: Open\n\n{page.text}")
        assert "signed" not in read.text
        outside = next(entry for entry in tool.followed() if not entry.source)
        assert "State" not in documents[f"page:{outside.id}"].text
        # A page that changed in this minute may change once more within it: its mark is not that of the listing.
        page.edited = tool.now
        async with open_temporarily(notion.KIND, tool.config(), tool.credentials()) as connector:
            listed = tool.show(page)["last_edited_time"]
            assert (await connector.fetch(read.document.ref)).mark == f"{listed} unstable"
            tool.advance_clock(200)
            assert (await connector.fetch(read.document.ref)).mark == listed
            page.in_trash = True
            with pytest.raises(SourceGone):
                await connector.fetch(read.document.ref)
        tool.pages.clear()
        tool.add_rule(lambda call: call.path == "/v1/search", lambda: tool.respond({"results": []}), times=2)
        async with open_temporarily(notion.KIND, tool.config(), tool.credentials()) as connector:
            assert "Nothing is followed" in (await connector.find_problems())[0]


async def test_more_pages_than_a_query_of_notion_lists_are_read() -> None:
    """Notion ended queries after 10,000 results, and the listing counted as complete. What can't be listed is reported."""
    with serve_fake(FakeNotion()) as tool:
        tool.page_size, tool.max_results = 3, 5
        outside = [page for page in tool.followed() if not page.source][:8]
        rows = [NotionPage(f"row{n}", "text", "inner", tool.now, SOURCE) for n in range(12)]
        for number, page in enumerate(rows):
            page.created = f"2026-02-01T10:{number // 2:02}:00.000Z"

        async def list_pages(*pages: NotionPage) -> tuple[set[str], list[str]]:
            tool.pages = {page.id: page for page in pages}
            async with open_temporarily(notion.KIND, tool.config(), tool.credentials()) as connector:
                batches = [batch async for batch in connector.sync({})]
            listed = {entry.ref.source_id.partition(":")[2] for each in batches for entry in each.present}
            return listed, [batch.stream.scope for batch in batches if batch.problem]

        assert await list_pages(*rows) == ({page.id for page in rows}, ["workspace"])
        assert await list_pages(*outside) == ({page.id for page in outside}, ["workspace"])
        for page in rows:
            page.created = "2026-02-01T10:00:00.000Z"
        listed, problems = await list_pages(*rows)
        assert (len(listed), problems) == (5, ["workspace", f"data-source:{SOURCE}"])
        tool.max_results = 50
        assert await list_pages(*rows, *outside) == ({page.id for page in [*rows, *outside]}, [])


async def test_a_block_synced_from_a_page_that_is_not_shared_leaves_the_rest_of_the_page() -> None:
    """Notion answers 404 for what is in it: the whole page counted as deleted."""
    with serve_fake(FakeNotion()) as tool:
        page = next(page for page in tool.followed() if not page.source)
        synced = {"synced_from": {"block_id": "elsewhere"}}
        page.blocks.append(
            {"id": "not-shared", "type": "synced_block", "has_children": True, "synced_block": synced}
        )
        documents = await read_all(open_kind(notion.KIND, tool.config(), tool.credentials()))
    assert page.text in documents[f"page:{page.id}"].text
    assert page.inner in documents[f"page:{page.id}"].text


def test_results_of_formulas_that_are_zero_or_false_are_kept() -> None:
    results: dict[str, dict[str, Any]] = {
        "Sum": {"type": "number", "number": 0},
        "Late": {"type": "boolean", "boolean": False},
        "Note": {"type": "string", "string": "dry"},
        "None": {"type": "string", "string": None},
        "Due": {"type": "date", "date": {"start": "2026-03-01", "end": None}},
    }
    page = {"properties": {name: {"type": "formula", "formula": value} for name, value in results.items()}}
    assert blocks.property_lines(page) == ["- Sum: 0", "- Late: no", "- Note: dry", "- Due: 2026-03-01"]


async def test_errors_and_uploads_of_linear() -> None:
    with serve_fake(FakeLinear()) as tool:
        issue = tool.followed()[0]
        issue.text = "see [plan](https://uploads.linear.app/a/b) and ![](https://uploads.linear.app/c/d)"
        async with open_temporarily(
            linear.KIND, {**tool.config(), "teams": ["eng", "nope"]}, tool.credentials()
        ) as connector:
            assert "nope does not exist" in (await connector.find_problems())[0]
            batches = [batch async for batch in connector.sync({})]
            assert {batch.stream.scope for batch in batches} == {"team:t1"}
            ref = next(
                entry.ref for batch in batches for entry in batch.present if issue.id in entry.ref.source_id
            )
            document = await connector.fetch(ref)
        assert [attachment.name for attachment in document.attachments] == ["plan", "d"]
        assert document.metadata["labels"] == ["Bug"]
        for status, code, error in (
            (400, "RATELIMITED", RateLimited),
            (200, "RATELIMITED", RateLimited),
            (200, "AUTHENTICATION_ERROR", CredentialsRejected),
            (200, "FORBIDDEN", Unreadable),
        ):
            body = {"errors": [{"message": "no", "extensions": {"code": code}}]}
            tool.add_rule(lambda _: True, lambda body=body, status=status: tool.respond(body, status))
            async with open_temporarily(linear.KIND, tool.config(), tool.credentials()) as connector:
                with pytest.raises(error):
                    await connector.check()


async def test_names_that_the_database_can_not_store_do_not_fail_a_run(mill: app.Gristmill) -> None:
    """PostgreSQL stores no NUL and no half of a surrogate pair: one such name failed every run of its connector."""
    with serve_fake(FakeLinear()) as tool:
        tool.followed()[0].assignee = "An\0n \ud83d"
        harness = await ConnectorHarness.create(mill, tool)
        run = await harness.sync()
        assert run.status == "success", await harness.log_text(run)
        assert await harness.fetch(
            "select metadata ->> 'assignee' from item where metadata ? 'assignee'"
        ) == [("Ann ?",)]
