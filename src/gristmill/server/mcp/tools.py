"""The tools: each translates into requests of the REST API, and decides nothing.

So an agent may what its key may, sees what its key sees, and what it changes is written down like everybody's. A refusal is a
result that tells the agent the server's words and code.

    reader    list_bases search read_content grep list_items status
    editor    add_note add_url add_file delete_items reindex_items
    admin     why_not
"""

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, Literal
from uuid import UUID

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field

from gristmill.client import Client, Json, Refused

ClientFactory = Callable[[], Client]

INSTRUCTIONS = """Knowledge bases: search them first, cite what you use by its `citation`, read more of an item with \
read_content, look for exact words with grep. What you add is searchable once `status` says so."""

_READ_ONLY = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_ADDITIVE = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)
_DESTRUCTIVE = ToolAnnotations(
    readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False
)
_MAX_GREPPED_ITEMS = 200  # items of a base
_CONTEXT_CHARACTERS = 120  # characters of context

BaseName = Annotated[str, Field(description="Name or id of the base.", max_length=200)]
ItemIds = Annotated[list[str], Field(description="Ids of items.", min_length=1, max_length=1000)]


def create(new_client: ClientFactory) -> FastMCP[Any]:
    """The server; `reach` gives the way to the API for whoever calls."""
    server: FastMCP[Any] = FastMCP(
        "gristmill",
        instructions=INSTRUCTIONS,
        stateless_http=True,
        json_response=True,
        # The gate looks at Host and Origin for all doors.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    tools = AgentTools(new_client)
    for tool, annotations in (
        (tools.list_bases, _READ_ONLY),
        (tools.search, _READ_ONLY),
        (tools.read_content, _READ_ONLY),
        (tools.grep, _READ_ONLY),
        (tools.list_items, _READ_ONLY),
        (tools.status, _READ_ONLY),
        (tools.why_not, _READ_ONLY),
        (tools.add_note, _ADDITIVE),
        (tools.add_url, _ADDITIVE),
        (tools.add_file, _ADDITIVE),
        (tools.reindex_items, _ADDITIVE),
        (tools.delete_items, _DESTRUCTIVE),
    ):
        server.add_tool(tool, annotations=annotations, structured_output=True)
    server.resource("gristmill://items/{item_id}", name="item", mime_type="text/markdown")(tools.item)
    return server


class AgentTools:
    """What an agent can do."""

    def __init__(self, new_client: ClientFactory) -> None:
        self._new_client = new_client

    async def list_bases(self) -> Json:
        """List the knowledge bases that you can see, with the number of items by status."""
        async with self._new_client() as mill:
            return {
                "bases": [
                    {
                        "id": base["id"],
                        "name": base["name"],
                        "status": base["status"],
                        "items": base["itemCounts"],
                    }
                    for base in await _call(mill.bases())
                ]
            }

    async def search(
        self,
        query: Annotated[
            str, Field(description="What to look for, in words or as a question.", max_length=10_000)
        ],
        bases: Annotated[
            list[str] | None, Field(description="Names or ids of bases; all by default.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 8,
        mode: Literal["hybrid", "vector", "text"] = "hybrid",
    ) -> Json:
        """Search by meaning and by words. Each hit has a `citation` to quote, and the item to read more of."""
        async with self._new_client() as mill:
            ids = None if bases is None else [await _base_id(mill, name) for name in bases]
            answer = await _call(mill.search(query, ids, limit=limit, mode=mode))
        return {"hits": [_hit_with_citation(dict(hit)) for hit in answer["hits"]], "tookMs": answer["tookMs"]}

    async def read_content(
        self,
        item_id: str,
        start: Annotated[int, Field(ge=0, description="First character.")] = 0,
        length: Annotated[int, Field(ge=1, le=100_000)] = 8_000,
    ) -> Json:
        """Read an item's text by range of characters."""
        async with self._new_client() as mill:
            text = await _call(mill.content(_parse_id(item_id)))
        part = text[start : start + length]
        return {"itemId": item_id, "text": part, "start": start, "end": start + len(part), "total": len(text)}

    async def grep(
        self,
        words: Annotated[str, Field(min_length=1, max_length=500, description="Exact words, in any case.")],
        base: Annotated[str | None, Field(description="Name or id of a base.")] = None,
        item_id: Annotated[str | None, Field(description="One item.")] = None,
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> Json:
        """Find exact words in one item, or in the first 200 documents of a base, with where they stand."""
        if (base is None) == (item_id is None):
            raise ToolError("Give either base or item_id.")
        matches: list[Json] = []
        async with self._new_client() as mill:
            if item_id is not None:
                ids, has_more = [_parse_id(item_id)], False
            else:
                items = await _call(
                    mill.items(await _base_id(mill, base or ""), parentId="*", status="completed")
                )
                leaves = [item["id"] for item in items if item["chunkCount"]]
                ids, has_more = leaves[:_MAX_GREPPED_ITEMS], len(leaves) > _MAX_GREPPED_ITEMS
            for one_id in ids:
                text = await _call(mill.content(one_id))
                matches += _matches(one_id, text, words, limit - len(matches))
                if len(matches) == limit:
                    break
        return {"matches": matches, "more": has_more or len(matches) == limit}

    async def list_items(
        self,
        base: BaseName,
        parent_id: Annotated[
            str | None, Field(description="Container; * for all, none for the roots.")
        ] = None,
        status: str | None = None,
        title: Annotated[str | None, Field(description="Part of the title.")] = None,
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
        cursor: str | None = None,
    ) -> Json:
        """List items of a base, page by page."""
        filters = {"parentId": parent_id, "status": status, "q": title, "limit": limit, "cursor": cursor}
        async with self._new_client() as mill:
            base_id = await _base_id(mill, base)
            params = {name: value for name, value in filters.items() if value is not None}
            page = await _call(mill.call("GET", f"/knowledge-bases/{base_id}/items", params=params))
        return {"items": [_item_summary(item) for item in page["items"]], "nextCursor": page["nextCursor"]}

    async def status(
        self, base: Annotated[str | None, Field(description="Name or id; all by default.")] = None
    ) -> Json:
        """Tell how far bases are: items by status."""
        async with self._new_client() as mill:
            if base is None:
                shown_bases = await _call(mill.bases())
            else:
                shown_base = await _call(mill.call("GET", f"/knowledge-bases/{await _base_id(mill, base)}"))
                return {
                    "bases": [
                        {
                            "name": shown_base["name"],
                            "status": shown_base["status"],
                            "items": shown_base["itemCounts"],
                        }
                    ]
                }
        return {
            "bases": [
                {
                    "name": shown_base["name"],
                    "status": shown_base["status"],
                    "items": shown_base["itemCounts"],
                }
                for shown_base in shown_bases
            ]
        }

    async def why_not(self, item_id: str, query: str) -> Json:
        """Tell why an item is not among the hits of a question."""
        async with self._new_client() as mill:
            return await _call(mill.why_not(_parse_id(item_id), query))

    async def add_note(self, base: BaseName, content: str, title: str | None = None) -> Json:
        """Add a note to a base, which is made when there is none of that name."""
        return await self._add(
            base, {"type": "note", "content": content, **({"title": title} if title else {})}
        )

    async def add_url(self, base: BaseName, url: str) -> Json:
        """Add a web page to a base; it is fetched and indexed soon."""
        return await self._add(base, {"type": "url", "url": url})

    async def add_file(
        self,
        base: BaseName,
        name: Annotated[str, Field(max_length=255, description="Its name, with the ending.")],
        content: Annotated[str, Field(description="Its text, or its bytes in base64.")],
        encoding: Literal["text", "base64"] = "text",
    ) -> Json:
        """Add a file to a base from what you give, not from a disk."""
        try:
            data = content.encode() if encoding == "text" else base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ToolError("content is not base64.") from error
        async with self._new_client() as mill:
            base_id = (await _call(mill.base_named(base, create=True)))["id"]
            path = f"/knowledge-bases/{base_id}/files"
            return _added_summary(await _call(mill.call("POST", path, files={"files": (name, data)})))

    async def delete_items(self, base: BaseName, item_ids: ItemIds) -> Json:
        """Delete items with all that is below them; they are hidden at once."""
        async with self._new_client() as mill:
            return await _call(
                mill.delete(await _base_id(mill, base), [_parse_id(item_id) for item_id in item_ids])
            )

    async def reindex_items(self, base: BaseName, item_ids: ItemIds) -> Json:
        """Read items anew from where they come from; old answers stay until the new ones are whole."""
        async with self._new_client() as mill:
            return await _call(
                mill.reindex(await _base_id(mill, base), [_parse_id(item_id) for item_id in item_ids])
            )

    async def item(self, item_id: str) -> str:
        """The text of an item."""
        async with self._new_client() as mill:
            return await _call(mill.content(_parse_id(item_id)))

    async def _add(self, base: str, item: Json) -> Json:
        async with self._new_client() as mill:
            base_id = (await _call(mill.base_named(base, create=True)))["id"]
            return _added_summary(dict(await _call(mill.add(base_id, [item]))))


async def _call(request: Any) -> Any:
    """What the API answers; a refusal in the words that an agent can act on."""
    try:
        return await request
    except Refused as error:
        raise ToolError(f"{error.message} ({error.code})") from error


async def _base_id(mill: Client, name: str) -> str:
    try:
        return str(UUID(name))
    except ValueError:
        return (await _call(mill.base_named(name)))["id"]


def _parse_id(text: str) -> str:
    """An id, and nothing that would lead a path elsewhere."""
    try:
        return str(UUID(text))
    except ValueError:
        raise ToolError(f"{text[:100]!r} is no id.") from None


def _hit_with_citation(hit: Json) -> Json:
    source = hit["source"]
    location = source.get("url") or source.get("path") or hit["title"]
    page = f", page {source['page']}" if source.get("page") else ""
    return {
        "citation": f"{location}{page}, characters {source['start']}-{source['end']}",
        **{name: hit[name] for name in ("itemId", "baseId", "title", "text", "score", "source")},
        "resource": f"gristmill://items/{hit['itemId']}",
    }


def _matches(item_id: str, text: str, words: str, limit: int) -> list[Json]:
    matches: list[Json] = []
    haystack, needle = text.lower(), words.lower()
    start = haystack.find(needle)
    while start >= 0 and len(matches) < limit:
        end = start + len(needle)
        context = text[max(0, start - _CONTEXT_CHARACTERS) : end + _CONTEXT_CHARACTERS]
        matches.append({"itemId": item_id, "start": start, "end": end, "context": context})
        start = haystack.find(needle, end)
    return matches


def _item_summary(item: Json) -> Json:
    names = ("id", "parentId", "type", "title", "status", "error", "progress", "chunkCount", "source")
    return {name: item[name] for name in names}


def _added_summary(added: Json) -> Json:
    return {"created": [_item_summary(item) for item in added["created"]], "failed": added["failed"]}
