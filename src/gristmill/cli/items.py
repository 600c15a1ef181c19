"""What `gristmill item …` does."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rich.table import Table
from rich.text import Text

from gristmill.cli.add import CommandResult, base_id_by_name
from gristmill.cli.client_session import ClientSession
from gristmill.cli.output import new_table
from gristmill.errors import Invalid

_BATCH = 1_000
_STYLES = {"completed": "green", "failed": "red"}


def parse_id(text: str) -> str:
    """The id of an item, checked: free text could change the path of the request."""
    try:
        return str(UUID(text))
    except ValueError:
        raise Invalid(
            f"{text!r} is not the id of an item. `gristmill item list BASE` shows the ids.",
            code="invalid_request",
        ) from None


async def find_items(
    session: ClientSession, base: str, filters: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """The items of a base that match the filters, the query parameters of the API."""
    base_id = await base_id_by_name(session, base, create=False)
    params = {name: value for name, value in filters.items() if value is not None}
    return [dict(item) for item in await session.client.items(base_id, **params)]


async def find_item(session: ClientSession, item_id: str) -> dict[str, Any]:
    """One item, with all its fields."""
    return await session.call("GET", f"/knowledge-items/{parse_id(item_id)}")


async def find_all(session: ClientSession, item_ids: Sequence[str]) -> list[dict[str, Any]]:
    """These items; an error if one does not exist."""
    return [await find_item(session, item_id) for item_id in dict.fromkeys(item_ids)]


async def delete(session: ClientSession, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Delete items with everything below them; returns the API's response for each base."""
    return [
        await session.client.delete(base_id, [item["id"] for item in items if item["baseId"] == base_id])
        for base_id in dict.fromkeys(item["baseId"] for item in items)
    ]


async def move(
    session: ClientSession, item_ids: Sequence[str], to: str | None, folder: str | None
) -> list[dict[str, Any]]:
    """Move items into a folder, to the top of their base, or to another base; the API's response for each base."""
    items = await find_all(session, item_ids)
    options = {
        "toBaseId": None if to is None else await base_id_by_name(session, to, create=False),
        "parentId": None if folder is None else parse_id(folder),
    }
    if to is None and folder is not None:
        options["toBaseId"] = (await find_item(session, folder))["baseId"]
    return [
        await session.client.move(
            base_id, [item["id"] for item in items if item["baseId"] == base_id], **options
        )
        for base_id in dict.fromkeys(item["baseId"] for item in items)
    ]


async def tag(
    session: ClientSession, item_ids: Sequence[str], added: Sequence[str], removed: Sequence[str]
) -> dict[str, Any]:
    """Add tags to items and remove others; the items that changed."""
    items = await find_all(session, item_ids)
    changed: list[str] = []
    for base_id in dict.fromkeys(item["baseId"] for item in items):
        ids = [item["id"] for item in items if item["baseId"] == base_id]
        changed += (await session.client.tag(base_id, ids, add=added, remove=removed))["itemIds"]
    return {"itemIds": changed}


async def retry(session: ClientSession, item_ids: Sequence[str], base: str | None) -> CommandResult:
    """Reindex failed items: these, or all of a base."""
    if base is None:
        items = await find_all(session, item_ids)
    else:
        items = await find_items(session, base, {"parentId": "*", "status": "failed"})
    failed: list[dict[str, Any]] = [
        {
            "itemId": item["id"],
            "error": {
                "code": "item_not_failed",
                "message": f"It is {item['status']}. Use `gristmill reindex`.",
            },
        }
        for item in items
        if item["status"] != "failed"
    ]
    by_base: dict[str, list[str]] = {}
    for item in items:
        if item["status"] == "failed":
            by_base.setdefault(item["baseId"], []).append(item["id"])
    root_ids: list[str] = []
    for base_id, ids in by_base.items():
        for start in range(0, len(ids), _BATCH):
            response = await session.client.reindex(base_id, ids[start : start + _BATCH], onActive="skip")
            root_ids += response["rootIds"]
            failed += response["failed"]
    return CommandResult({"rootIds": root_ids, "failed": failed}, succeeded=not failed)


def item_table(items: Sequence[Mapping[str, Any]]) -> Table | Text:
    """A table of items, with the errors of those that failed."""
    if not items:
        return Text("No such items.")
    table = new_table("id", "title", "type", "status", "chunks", right=("chunks",))
    for item in items:
        status = Text(item["status"], _STYLES.get(item["status"], "yellow"))
        if item["error"]:
            status.append(f": {item['error']['message']} ({item['error']['code']})")
        elif item["status"] not in _STYLES and item["progress"]:
            status.append(f" {item['progress']}%")
        table.add_row(item["id"], Text(item["title"]), item["type"], status, str(item["chunkCount"]))
    return table
