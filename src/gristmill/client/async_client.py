"""The asynchronous client: bases, items and search."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from gristmill.client.http import HttpClient
from gristmill.client.models import ENDED, Added, Answer, Base, Item, Json, Mode, Progress, Refused

_BLOCK_BYTES = 1 << 18


class AsyncClient(HttpClient):
    """A client of a Gristmill server."""

    # ── bases ────────────────────────────────────────────────────────────────────────────────────────────

    async def bases(self) -> list[Base]:
        """List all bases that the caller can see."""
        return [cast(Base, base) async for base in self.pages("/knowledge-bases")]

    async def create_base(self, name: str, **options: Any) -> Base:
        """Create a base."""
        return cast(Base, await self.call("POST", "/knowledge-bases", json={"name": name, **options}))

    async def base_named(self, name: str, *, create: bool = False) -> Base:
        """Find the base of this name; with `create`, create it if it does not exist."""
        page = await self.call("GET", "/knowledge-bases", params={"name": name})
        if page["items"]:
            return cast(Base, page["items"][0])
        if not create:
            raise Refused(
                f"There is no knowledge base named {name!r}. `gristmill status` lists them.",
                code="base_not_found",
                status=404,
            )
        return await self.create_base(name)

    async def delete_base(self, base_id: str) -> Json:
        """Delete a base; returns the job that removes it."""
        return await self.call("DELETE", f"/knowledge-bases/{base_id}")

    async def queue(self, base_id: str) -> Json:
        """Show the work left in a base."""
        return await self.call("GET", f"/knowledge-bases/{base_id}/queue")

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────

    async def add(self, base_id: str, items: Sequence[Mapping[str, Any]], **options: Any) -> Added:
        """Add notes, web pages, and files and folders of the server. They are durably accepted, not yet searchable."""
        body = {"items": [dict(item) for item in items], **options}
        return cast(Added, await self.call("POST", f"/knowledge-bases/{base_id}/items", json=body))

    async def upload(
        self, base_id: str, paths: Sequence[str | Path], *, progress: Progress | None = None, **options: Any
    ) -> Added:
        """Upload files of this machine, one request each. `progress` is called with the bytes sent and the total."""
        files = [Path(path) for path in paths]
        sizes = [await asyncio.to_thread(_file_size, file) for file in files]
        result: Added = {"created": [], "skipped": [], "failed": [], "correlationId": ""}
        for number, file in enumerate(files):
            before = sum(sizes[:number])

            def report(sent: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + sent, sum(sizes))

            with await asyncio.to_thread(file.open, "rb") as stream:
                added = await self.call(
                    "POST",
                    f"/knowledge-bases/{base_id}/files",
                    files={"files": (file.name, _ProgressFile(stream, report))},
                    data=options,
                )
            result["created"] += added["created"]
            result["skipped"] += added["skipped"]
            result["failed"] += added["failed"]
            result["correlationId"] = added["correlationId"]
        return result

    async def estimate_upload(self, base_id: str, paths: Sequence[str | Path]) -> Json:
        """What uploading files of this machine would embed and cost. They are sent for it, and not stored."""
        with ExitStack() as stack:
            files = [
                (
                    "files",
                    (Path(path).name, stack.enter_context(await asyncio.to_thread(Path(path).open, "rb"))),
                )
                for path in paths
            ]
            return await self.call(
                "POST", f"/knowledge-bases/{base_id}/files", files=files, data={"dryRun": "true"}
            )

    async def items(self, base_id: str, **filters: Any) -> list[Item]:
        """List items of a base: the roots, or those that match `filters`, the query parameters of the API."""
        return [cast(Item, item) async for item in self.pages(f"/knowledge-bases/{base_id}/items", **filters)]

    async def item(self, item_id: str) -> Item:
        """Get an item."""
        return cast(Item, await self.call("GET", f"/knowledge-items/{item_id}"))

    async def content(self, item_id: str) -> str:
        """Read the canonical text of an item."""
        return (await self.send("GET", f"/knowledge-items/{item_id}/content")).text

    async def chunks(self, item_id: str) -> list[Json]:
        """List the chunks of an item and of everything below it."""
        return [chunk async for chunk in self.pages(f"/knowledge-items/{item_id}/chunks")]

    async def delete(self, base_id: str, item_ids: Sequence[str]) -> Json:
        """Delete items with everything below them."""
        return await self.call(
            "POST", f"/knowledge-bases/{base_id}/items/delete", json={"itemIds": list(item_ids)}
        )

    async def reindex(self, base_id: str, item_ids: Sequence[str], **options: Any) -> Json:
        """Reindex items with everything below them."""
        body = {"itemIds": list(item_ids), **options}
        return await self.call("POST", f"/knowledge-bases/{base_id}/items/reindex", json=body)

    async def change_item(self, item_id: str, **changes: Any) -> Json:
        """Change the `title`, `metadata` or `acl` of an item, or the `content` of a note."""
        return await self.call("PATCH", f"/knowledge-items/{item_id}", json=changes)

    async def move(
        self,
        base_id: str,
        item_ids: Sequence[str],
        *,
        toBaseId: str | None = None,  # noqa: N803
        parentId: str | None = None,  # noqa: N803
    ) -> Json:
        """Move items with everything below them: under `parentId`, or to the top of a base."""
        body = {"itemIds": list(item_ids), "toBaseId": toBaseId, "parentId": parentId}
        return await self.call("POST", f"/knowledge-bases/{base_id}/items/move", json=body)

    async def tag(
        self, base_id: str, item_ids: Sequence[str], *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Json:
        """Add tags to items, and remove others."""
        body = {"itemIds": list(item_ids), "add": list(add), "remove": list(remove)}
        return await self.call("POST", f"/knowledge-bases/{base_id}/items/tag", json=body)

    async def tags(self, base_id: str) -> list[Json]:
        """List the tags of a base, and how many items have each."""
        return (await self.call("GET", f"/knowledge-bases/{base_id}/tags"))["items"]

    async def items_by_id(self, base_id: str, item_ids: Sequence[str]) -> dict[str, Item]:
        """Fetch the current state of items that were added together. A deleted item counts as failed."""
        waiting = sorted(item_ids)
        fresh: dict[str, Item] = {}
        # Ids are ordered by time, so items that were added together are one range of the list.
        cursor: str | None = str(UUID(int=UUID(waiting[0]).int - 1)) if waiting else None
        while cursor is not None and cursor < waiting[-1]:
            params = {"cursor": cursor, "limit": 500, "parentId": "*"}
            page = await self.call("GET", f"/knowledge-bases/{base_id}/items", params=params)
            fresh |= {item["id"]: item for item in page["items"]}
            cursor = page["nextCursor"]
        deleted = {
            "status": "failed",
            "progress": 0,
            "error": {"code": "deleted", "message": "The item was deleted meanwhile."},
        }
        return {
            item_id: fresh.get(item_id)
            or cast(Item, {"id": item_id, "title": item_id, "type": "", **deleted})
            for item_id in waiting
        }

    async def wait(
        self,
        base_id: str,
        item_ids: Sequence[str],
        *,
        every: float = 0.3,
        on_update: Callable[[Mapping[str, Item]], None] | None = None,
    ) -> dict[str, Item]:
        """Wait until items are completed or failed, and return them. `on_update` is called after each poll."""
        state: dict[str, Item] = {}
        waiting = list(item_ids)
        while waiting:
            state |= await self.items_by_id(base_id, waiting)
            if on_update is not None:
                on_update(state)
            waiting = [item_id for item_id in waiting if state[item_id]["status"] not in ENDED]
            if waiting:
                await asyncio.sleep(every)
        return state

    # ── search ───────────────────────────────────────────────────────────────────────────────────────────

    async def search(
        self,
        query: str,
        base_ids: Sequence[str] | None = None,
        *,
        limit: int = 10,
        mode: Mode = "hybrid",
        **options: Any,
    ) -> Answer:
        """Search bases, or all that the caller can see."""
        body: Json = {"query": query, "limit": limit, "mode": mode, **options}
        if base_ids is not None:
            body["baseIds"] = list(base_ids)
        return cast(Answer, await self.call("POST", "/search", json=body))

    async def ask(self, question: str, base_ids: Sequence[str] | None = None, **options: Any) -> Json:
        """Answer a question from bases, or from all that the caller can see: `answer`, `citations`, `retrieved`."""
        return await self.call("POST", "/ask", json=_ask_body(question, base_ids, options))

    async def ask_stream(
        self, question: str, base_ids: Sequence[str] | None = None, **options: Any
    ) -> AsyncGenerator[tuple[str, Json]]:
        """The same while it is written: events `retrieved`, `text` (repeated) and `end`. Raises Refused if the model fails."""
        body = {**_ask_body(question, base_ids, options), "stream": True}
        async with aclosing(self.events("/ask", body)) as events:
            async for name, data in events:
                if name == "error":
                    raise Refused(data["detail"], code=data["code"])
                yield name, data

    async def why_not(self, item_id: str, query: str, **options: Any) -> Json:
        """Explain why an item is missing from the hits of a query."""
        return await self.call(
            "POST", f"/knowledge-items/{item_id}/why-not", json={"query": query, **options}
        )


class _ProgressFile:
    """A file that reports its position after each read."""

    def __init__(self, file: Any, on_read: Callable[[int], None]) -> None:
        self._file, self._on_read = file, on_read

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(min(size, _BLOCK_BYTES) if size > 0 else size)
        self._on_read(self._file.tell())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        return self._file.fileno()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read(_BLOCK_BYTES):
            yield data


def _file_size(file: Path) -> int:
    return file.stat().st_size


def _ask_body(question: str, base_ids: Sequence[str] | None, options: Json) -> Json:
    return {"question": question, **options, **({} if base_ids is None else {"baseIds": list(base_ids)})}
