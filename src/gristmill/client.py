"""The Python client: async first, with a façade for programs that are not.

    async with Client("http://127.0.0.1:7373", key="gm_…") as mill:
        base = await mill.base_named("notes", create=True)
        added = await mill.add(base["id"], [{"type": "note", "content": "The wheel turns."}])
        await mill.wait(base["id"], [item["id"] for item in added["created"]])
        answer = await mill.search("wheel", [base["id"]])

A request that may not have arrived, and one that is refused for now (429, 503), is sent again, up to `retries` times. Every
change carries an `Idempotency-Key`, so that sending it again does it once. What is refused for good is raised as `Refused`, with
the server's code and words. `SyncClient` has the same methods, each waiting for its end.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, cast
from uuid import UUID, uuid4

import anyio.from_thread
import httpx

from gristmill.errors import GristmillError

Json = dict[str, Any]
Mode = Literal["hybrid", "vector", "text"]
Progress = Callable[[int, int], None]
Result = TypeVar("Result")

ENDED = ("completed", "failed")
CONTAINERS = ("directory", "sitemap", "connector")
_TIMEOUT = httpx.Timeout(120, connect=5)
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_WAIT_SECONDS = 30.0
_BLOCK_BYTES = 1 << 18


class Refused(GristmillError):
    """The server refused, in its own words; `status` is 0 when it did not answer at all."""

    code = "refused"

    def __init__(self, message: str, *, code: str | None = None, status: int = 0) -> None:
        super().__init__(message, code=code)
        self.status = status


class Problem(TypedDict):
    """Why something failed."""

    code: str
    message: str


class Item(TypedDict):
    """An item; more fields than these are there, as the API's documentation tells."""

    id: str
    baseId: str
    parentId: str | None
    type: str
    title: str
    status: str
    error: Problem | None
    progress: int
    chunkCount: int


class Added(TypedDict):
    """What was accepted, was there already, and was not accepted."""

    created: list[Item]
    skipped: list[Json]
    failed: list[Json]
    correlationId: str


class Base(TypedDict):
    """A base."""

    id: str
    name: str
    status: str
    itemCounts: dict[str, int]


class Hit(TypedDict):
    """A chunk that answers a question."""

    chunkId: str
    itemId: str
    baseId: str
    title: str
    text: str
    score: float
    source: Json


class Answer(TypedDict):
    """Hits, best first."""

    hits: list[Hit]
    tookMs: float


class Client:
    """A Gristmill server, spoken to by HTTP."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7373",
        key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        retries: int = 4,
    ) -> None:
        request_headers = dict(headers or {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        self.http = httpx.AsyncClient(
            base_url=url, headers=request_headers, timeout=_TIMEOUT, transport=transport, trust_env=False
        )
        self._retries = retries

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its connections."""
        await self.http.aclose()

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────

    async def call(self, method: str, path: str, **options: Any) -> Json:
        """The JSON of an answer below `/api`; empty for one without a body."""
        return _parse_json(await self.send(method, path, **options))

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """An answer that is no refusal. What may not have arrived is sent again; a change is done once all the same."""
        headers = dict(options.pop("headers", {}))
        if method not in ("GET", "HEAD"):
            headers.setdefault("Idempotency-Key", str(uuid4()))
        for attempt in range(self._retries + 1):
            try:
                response = await self.http.request(method, f"/api{path}", headers=headers, **options)
            except httpx.TransportError as error:
                if attempt == self._retries:
                    raise Refused(
                        f"The server does not answer: {error or type(error).__name__}", code="no_answer"
                    ) from error
                await asyncio.sleep(_backoff(attempt))
                continue
            should_retry = (
                response.status_code in _RETRIED_STATUSES
                or _conflict_code(response) == "idempotency_in_progress"
            )
            if not should_retry or attempt == self._retries:
                return _check_response(response)
            await asyncio.sleep(_retry_after(response) or _backoff(attempt))
        raise AssertionError("unreachable")

    async def pages(self, path: str, **params: Any) -> AsyncGenerator[Json]:
        """Every entry of a list, page by page."""
        cursor: str | None = None
        while True:
            page = await self.call(
                "GET", path, params={**params, "limit": 500, **({"cursor": cursor} if cursor else {})}
            )
            for entry in page["items"]:
                yield entry
            cursor = page["nextCursor"]
            if cursor is None:
                return

    # ── bases ────────────────────────────────────────────────────────────────────────────────────────────

    async def bases(self) -> list[Base]:
        """All bases that the caller sees."""
        return [cast(Base, base) async for base in self.pages("/knowledge-bases")]

    async def create_base(self, name: str, **options: Any) -> Base:
        """A new base."""
        return cast(Base, await self.call("POST", "/knowledge-bases", json={"name": name, **options}))

    async def base_named(self, name: str, *, create: bool = False) -> Base:
        """The base of this name; with `create`, made when there is none."""
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
        """Delete a base; the job that removes it."""
        return await self.call("DELETE", f"/knowledge-bases/{base_id}")

    async def queue(self, base_id: str) -> Json:
        """What a base still has to do."""
        return await self.call("GET", f"/knowledge-bases/{base_id}/queue")

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────

    async def add(self, base_id: str, items: Sequence[Mapping[str, Any]], **options: Any) -> Added:
        """Add notes, pages, files and folders of the server; durably accepted, not yet searchable."""
        body = {"items": [dict(item) for item in items], **options}
        return cast(Added, await self.call("POST", f"/knowledge-bases/{base_id}/items", json=body))

    async def upload(
        self, base_id: str, paths: Sequence[str | Path], *, progress: Progress | None = None, **options: Any
    ) -> Added:
        """Upload files of this machine, one request each; `progress` is told the bytes sent and those in all."""
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

    async def items(self, base_id: str, **filters: Any) -> list[Item]:
        """Items of a base: the roots, or what the filters say, by the names that the API has for them."""
        return [cast(Item, item) async for item in self.pages(f"/knowledge-bases/{base_id}/items", **filters)]

    async def item(self, item_id: str) -> Item:
        """One item."""
        return cast(Item, await self.call("GET", f"/knowledge-items/{item_id}"))

    async def content(self, item_id: str) -> str:
        """The canonical text of an item."""
        return (await self.send("GET", f"/knowledge-items/{item_id}/content")).text

    async def chunks(self, item_id: str) -> list[Json]:
        """The chunks of an item and all below it."""
        return [chunk async for chunk in self.pages(f"/knowledge-items/{item_id}/chunks")]

    async def delete(self, base_id: str, item_ids: Sequence[str]) -> Json:
        """Delete items with all that is below them."""
        return await self.call(
            "POST", f"/knowledge-bases/{base_id}/items/delete", json={"itemIds": list(item_ids)}
        )

    async def reindex(self, base_id: str, item_ids: Sequence[str], **options: Any) -> Json:
        """Rebuild items with all that is below them."""
        body = {"itemIds": list(item_ids), **options}
        return await self.call("POST", f"/knowledge-bases/{base_id}/items/reindex", json=body)

    async def items_by_id(self, base_id: str, item_ids: Sequence[str]) -> dict[str, Item]:
        """The present state of items that were added together; one that was deleted meanwhile has failed."""
        waiting = sorted(item_ids)
        fresh: dict[str, Item] = {}
        # Ids are ordered by time: these are one stretch of the list.
        cursor: str | None = str(UUID(int=UUID(waiting[0]).int - 1)) if waiting else None
        while cursor is not None and cursor < waiting[-1]:
            params = {"cursor": cursor, "limit": 500, "parentId": "*"}
            page = await self.call("GET", f"/knowledge-bases/{base_id}/items", params=params)
            fresh |= {item["id"]: item for item in page["items"]}
            cursor = page["nextCursor"]
        deleted = {
            "status": "failed",
            "progress": 0,
            "error": {"code": "deleted", "message": "Deleted meanwhile."},
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
        """Wait until items are completed or failed; how each ended. `told` hears how far they are."""
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
        """Search bases, or all that the caller sees."""
        body: Json = {"query": query, "limit": limit, "mode": mode, **options}
        if base_ids is not None:
            body["baseIds"] = list(base_ids)
        return cast(Answer, await self.call("POST", "/search", json=body))

    async def why_not(self, item_id: str, query: str, **options: Any) -> Json:
        """Why an item is not among the hits of a question."""
        return await self.call(
            "POST", f"/knowledge-items/{item_id}/why-not", json={"query": query, **options}
        )


class SyncClient:
    """The same for programs without an event loop: `mill.run(lambda mill: mill.search("wheel"))`, and the most wanted by
    name. It keeps a loop in a thread of its own; use it as a context."""

    def __init__(self, url: str = "http://127.0.0.1:7373", key: str | None = None, **options: Any) -> None:
        self._new_client = lambda: Client(url, key, **options)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the loop."""
        self._portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal())
        client_context: AbstractContextManager[Client] = self._portal.wrap_async_context_manager(
            self._portal.call(self._new_client)
        )
        self._client = self._stack.enter_context(client_context)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the connections, and end the loop."""
        self._stack.close()

    def run(self, operation: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """What the async client gives."""
        return self._portal.call(operation, self._client)

    def call(self, method: str, path: str, **options: Any) -> Json:
        """The JSON of an answer below `/api`."""
        return self.run(lambda mill: mill.call(method, path, **options))

    def base_named(self, name: str, *, create: bool = False) -> Base:
        """The base of this name."""
        return self.run(lambda mill: mill.base_named(name, create=create))

    def add(self, base_id: str, items: Sequence[Mapping[str, Any]], **options: Any) -> Added:
        """Add items."""
        return self.run(lambda mill: mill.add(base_id, items, **options))

    def upload(self, base_id: str, paths: Sequence[str | Path], **options: Any) -> Added:
        """Upload files."""
        return self.run(lambda mill: mill.upload(base_id, paths, **options))

    def wait(self, base_id: str, item_ids: Sequence[str], **options: Any) -> dict[str, Item]:
        """Wait until items have ended."""
        return self.run(lambda mill: mill.wait(base_id, item_ids, **options))

    def search(self, query: str, base_ids: Sequence[str] | None = None, **options: Any) -> Answer:
        """Search."""
        return self.run(lambda mill: mill.search(query, base_ids, **options))


class _ProgressFile:
    """A file that tells how far it was read."""

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


def _check_response(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        body = response.json()
        detail, code = body["detail"], body["code"]
    except (ValueError, KeyError, TypeError):
        raise Refused(
            f"What answers at {response.request.url.copy_with(path='/')} is not Gristmill ({response.status_code}).",
            code="no_answer",
            status=response.status_code,
        ) from None
    raise Refused(detail, code=code, status=response.status_code)


def _parse_json(response: httpx.Response) -> Json:
    if not response.content:
        return {}
    try:
        return response.json()
    except ValueError:
        raise Refused("The answer is not JSON: that is no Gristmill.", code="no_answer") from None


def _conflict_code(response: httpx.Response) -> str | None:
    if response.status_code != HTTPStatus.CONFLICT:
        return None
    try:
        return response.json().get("code")
    except (ValueError, AttributeError):
        return None


def _file_size(file: Path) -> int:
    return file.stat().st_size


def _backoff(attempt: int) -> float:
    return random.uniform(0, 0.2 * 2**attempt)  # noqa: S311


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return min(_MAX_WAIT_SECONDS, float(text)) if text.isdigit() else None
