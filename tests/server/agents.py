"""Agents for tests: the official MCP client at the addresses of a server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

READER_TOOLS = {"list_bases", "search", "get_section", "get_document", "grep", "list_items", "status"}
EDITOR_TOOLS = {"add_note", "add_url", "add_file", "delete_items", "reindex_items"}
TOOLS = READER_TOOLS | EDITOR_TOOLS | {"why_not"}


@asynccontextmanager
async def agent(
    url: str, key: str | None = None, base: str | None = None, **extra: str
) -> AsyncGenerator[ClientSession]:
    """An agent at `/mcp`, or at the address of one base."""
    address = f"{url}/mcp" if base is None else f"{url}/mcp/{quote(base, safe='')}"
    headers = ({} if key is None else {"Authorization": f"Bearer {key}"}) | extra
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False) as http,
        streamable_http_client(address, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


async def call_tool(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await session.call_tool(tool, arguments)
    assert not result.isError, result.content
    assert result.structuredContent is not None
    return result.structuredContent


async def tool_error(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    assert result.isError
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def tool_names(session: ClientSession) -> set[str]:
    return {tool.name for tool in (await session.list_tools()).tools}
