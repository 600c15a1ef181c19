"""The MCP Inspector's command line lists and calls every tool, with the rights of its key."""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.server.api.context import ON_BEHALF
from gristmill.server.mcp import mount
from gristmill.server.mcp.results import DATA_NOTICE
from tests.api_calls import add_items, make_base, wait_until_ended
from tests.node_packages import install_package, node, node_environment
from tests.serve_api import serve_api
from tests.server.agents import READER_TOOLS, TOOLS
from tests.server.clients import new_key

pytestmark = pytest.mark.slow

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"


async def inspect(folder: Path, address: str, *words: str, headers: Sequence[str] = ()) -> dict[str, Any]:
    """What the inspector prints for a method."""
    program = folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    options = [option for header in headers for option in ("--header", header)]
    process = await asyncio.create_subprocess_exec(
        *(node(), str(program), "--cli", address, "--transport", "http", *options, *words),
        stdout=PIPE,
        stderr=PIPE,
        env=node_environment() | {"HOME": str(folder)},
    )
    stdout, stderr = await process.communicate()
    assert stdout, stderr.decode()
    return json.loads(stdout)


async def call(
    folder: Path, address: str, tool: str, *, headers: Sequence[str] = (), **arguments: Any
) -> Any:
    pairs = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in arguments.items()
    ]
    words = [word for pair in pairs for word in ("--tool-arg", pair)]
    return await inspect(
        folder, address, "--method", "tools/call", "--tool-name", tool, *words, headers=headers
    )


@pytest.mark.thorough
async def test_the_inspector_lists_and_calls_every_tool(
    mill: app.Gristmill, http: httpx.AsyncClient, cache_dir: Path
) -> None:
    folder = await asyncio.to_thread(install_package, cache_dir, INSPECTOR)
    base = await make_base(http, "notes")
    note = {"type": "note", "title": "Wheel", "content": "# Wheel\n\nThe wheel turns.", "acl": ["team:7"]}
    (item,) = (await add_items(http, base, note, {"type": "note", "content": "Hidden wheel."}))["created"][:1]
    await wait_until_ended(http, item["id"])
    _, reader = await new_key(mill.db, LOCAL_ORG, "reader", teams=("7",))
    _, admin = await new_key(mill.db, LOCAL_ORG, "admin")
    calls: dict[str, dict[str, Any]] = {
        "list_bases": {},
        "search": {"query": "wheel", "bases": ["notes"], "mode": "text", "limit": 2},
        "get_section": {"item_id": item["id"], "heading": "Wheel"},
        "get_document": {"item_id": item["id"], "length": 5},
        "grep": {"words": "turns", "base": "notes"},
        "list_items": {"base": "notes", "limit": 1},
        "status": {"base": "notes"},
        "why_not": {"item_id": item["id"], "query": "wheel"},
        "add_note": {"base": "notes", "content": "Rye."},
        "add_url": {"base": "notes", "url": "https://example.org/"},
        "add_file": {"base": "notes", "name": "a.txt", "content": "Oats."},
        "reindex_items": {"base": "notes", "item_ids": [item["id"]]},
        "delete_items": {"base": "notes", "item_ids": [item["id"]]},
    }
    assert calls.keys() == TOOLS
    async with mount(mill.api), serve_api(mill) as url:
        address = f"{url}/mcp"
        listed = await inspect(folder, address, "--method", "tools/list")
        assert {tool["name"] for tool in listed["tools"]} == TOOLS
        for tool, arguments in calls.items():
            result = await call(folder, address, tool, **arguments)
            assert not result.get("isError"), (tool, result)
            assert result["structuredContent"]["notice"] == DATA_NOTICE, tool
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"], tool
        bearer = (f"Authorization: Bearer {reader}",)
        seen = await inspect(folder, f"{address}/notes", "--method", "tools/list", headers=bearer)
        assert {tool["name"] for tool in seen["tools"]} == READER_TOOLS - {"list_bases"}
        person = (f"Authorization: Bearer {admin}", f"{ON_BEHALF}: team:7")
        page = await call(folder, address, "list_items", headers=person, base="notes")
        assert [entry["title"] for entry in page["structuredContent"]["items"]] == ["Wheel"]
