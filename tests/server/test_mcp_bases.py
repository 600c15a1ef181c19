"""The MCP tools at the address of one base, sections of documents, and what tools say about themselves."""

from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

from gristmill import app
from gristmill.server.mcp import mount
from tests.api_calls import add_items, make_base, wait_until_ended
from tests.serve_api import serve_api
from tests.server.agents import READER_TOOLS, TOOLS, agent, call_tool, tool_error

pytestmark = pytest.mark.slow

GUIDE = """Before all headings.

# Guide

The mill has a wheel.

## Stones

Both stones are dressed in spring.

### Tools

A mill bill is used.

```sh
# no heading
```

## Grain

Boats bring it.
"""


async def test_sections_are_read_by_place_and_by_heading(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A section has its subsections, and says what comes before and after it."""
    base = await make_base(http, "notes")
    (item,) = (await add_items(http, base, {"type": "note", "title": "Guide", "content": GUIDE}))["created"]
    await wait_until_ended(http, item["id"])
    async with mount(mill.api), serve_api(mill) as url, agent(url) as session:
        document = await call_tool(session, "get_document", item_id=item["id"])
        assert (document["title"], document["text"]) == ("Guide", GUIDE)
        names = [section["headings"] for section in document["sections"]]
        assert [name[-1] for name in names] == ["Guide", "Stones", "Tools", "Grain"]
        assert names[2] == ["Guide", "Stones", "Tools"]
        stones = await call_tool(session, "get_section", item_id=item["id"], heading="STONES")
        assert stones["text"].startswith("## Stones")
        assert "A mill bill is used." in stones["text"]
        assert "Boats" not in stones["text"]
        assert "# no heading" in stones["text"]
        assert GUIDE[stones["start"] : stones["end"]] == stones["text"]
        assert stones["next"]["headings"] == ["Guide", "Grain"]
        grain = await call_tool(session, "get_section", item_id=item["id"], at=stones["next"]["start"])
        assert (grain["headings"], grain["next"]) == (["Guide", "Grain"], None)
        assert grain["previous"]["headings"] == ["Guide", "Stones", "Tools"]
        first = await call_tool(session, "get_section", item_id=item["id"], at=0)
        assert (first["headings"], first["text"].strip()) == ([], "Before all headings.")
        contradictions: list[dict[str, Any]] = [{}, {"at": 1, "heading": "Stones"}]
        for arguments in contradictions:
            assert "either at or heading" in await tool_error(
                session, "get_section", item_id=item["id"], **arguments
            )
        absent: list[dict[str, Any]] = [{"at": 10_000}, {"heading": "Water"}]
        for arguments in absent:
            assert "(section_not_found)" in await tool_error(
                session, "get_section", item_id=item["id"], **arguments
            )


async def test_at_the_address_of_one_base_all_tools_are_about_that_base(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """By its name or its id. Items of others are not found, and no base is created."""
    name = "mill / notes & more"
    base = await make_base(http, name)
    (note,) = (await add_items(http, base, {"type": "note", "content": "The wheel turns."}))["created"]
    other = await make_base(http, "other")
    (foreign,) = (await add_items(http, other, {"type": "note", "content": "Another wheel."}))["created"]
    for item in (note, foreign):
        await wait_until_ended(http, item["id"])
    async with mount(mill.api), serve_api(mill) as url:
        for address in (name, base):
            async with agent(url, base=address) as session:
                tools = (await session.list_tools()).tools
                assert {tool.name for tool in tools} == TOOLS - {"list_bases"}
                for tool in tools:
                    assert not {"base", "bases"} & set(tool.inputSchema["properties"]), tool.name
                (hit,) = (await call_tool(session, "search", query="wheel", mode="text"))["hits"]
                assert hit["itemId"] == note["id"]
        async with agent(url, base=name) as session:
            assert "has no argument 'bases'" in await tool_error(
                session, "search", query="x", bases=["other"]
            )
            reading: list[tuple[str, dict[str, Any]]] = [
                ("get_document", {}),
                ("get_section", {"at": 0}),
                ("grep", {"words": "wheel"}),
                ("why_not", {"query": "wheel"}),
            ]
            for tool, arguments in reading:
                error = await tool_error(session, tool, item_id=foreign["id"], **arguments)
                assert error.endswith("in this base. (item_not_found)"), tool
                assert await call_tool(session, tool, item_id=note["id"], **arguments)
            with pytest.raises(McpError):
                await session.read_resource(AnyUrl(f"gristmill://items/{foreign['id']}"))
            assert len((await call_tool(session, "grep", words="wheel"))["matches"]) == 1
            assert len((await call_tool(session, "list_items"))["items"]) == 1
            (shown,) = (await call_tool(session, "status"))["bases"]
            assert shown["name"] == name
            for tool in ("delete_items", "reindex_items"):
                assert await tool_error(session, tool, item_ids=[foreign["id"]]), tool
            assert (await call_tool(session, "add_note", content="Rye."))["created"]
            assert (await call_tool(session, "add_url", url="https://example.org/"))["created"]
            assert (await call_tool(session, "add_file", name="a.txt", content="x"))["created"]
            assert (await call_tool(session, "reindex_items", item_ids=[note["id"]]))["rootIds"]
            preview = await call_tool(session, "delete_items", item_ids=[note["id"]])
            assert (
                await call_tool(
                    session, "delete_items", item_ids=[note["id"]], confirmation=preview["confirmation"]
                )
            )["deleted"]
        async with agent(url, base="nowhere") as session:
            for tool, arguments in (("search", {"query": "x"}), ("add_note", {"content": "x"})):
                assert "(base_not_found)" in await tool_error(session, tool, **arguments)
    assert len((await http.get("/api/knowledge-bases")).json()["items"]) == 2


async def test_tools_describe_themselves_and_their_results(mill: app.Gristmill) -> None:
    """So that an agent understands them at first reading: every tool, argument and result."""
    async with mount(mill.api), serve_api(mill) as url:
        for base in (None, "notes"):
            async with agent(url, base=base) as session:
                for tool in (await session.list_tools()).tools:
                    assert tool.description
                    assert "\n" not in tool.description
                    for name, argument in tool.inputSchema["properties"].items():
                        assert argument.get("description"), (tool.name, name)
                    assert tool.outputSchema
                    assert tool.outputSchema["properties"], tool.name
                    assert tool.annotations is not None
                    is_reading = tool.name in READER_TOOLS | {"why_not"}
                    assert tool.annotations.readOnlyHint is is_reading
                    assert bool(tool.annotations.destructiveHint) is (tool.name == "delete_items")
