"""The client for programs without an event loop."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio.from_thread

from gristmill.client.async_client import AsyncClient
from gristmill.client.models import Added, Answer, Base, Item, Json

Result = TypeVar("Result")


class Client:
    """A synchronous facade of `AsyncClient`, with an event loop in its own thread; use it as a context manager.

    It has the same methods. An operation of several steps runs as one: `client.run(lambda mill: …)`.
    """

    def __init__(self, url: str = "http://127.0.0.1:7373", key: str | None = None, **options: Any) -> None:
        self._new_client = lambda: AsyncClient(url, key, **options)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the event loop."""
        self._portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal())
        client_context: AbstractContextManager[AsyncClient] = self._portal.wrap_async_context_manager(
            self._portal.call(self._new_client)
        )
        self._client = self._stack.enter_context(client_context)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the connections and stop the event loop."""
        self._stack.close()

    def run(self, operation: Callable[[AsyncClient], Coroutine[Any, Any, Result]]) -> Result:
        """Run an operation of the asynchronous client, and return its result."""
        return self._portal.call(operation, self._client)

    def call(self, method: str, path: str, **options: Any) -> Json:
        """Send a request to a path below `/api` and return the JSON of the response."""
        return self.run(lambda mill: mill.call(method, path, **options))

    def pages(self, path: str, **params: Any) -> Iterator[Json]:
        """Yield every entry of a list, fetched page by page."""
        entries = self._client.pages(path, **params)
        while True:
            try:
                yield self._portal.call(entries.__anext__)
            except StopAsyncIteration:
                return

    # ── bases ────────────────────────────────────────────────────────────────────────────────────────────

    def bases(self) -> list[Base]:
        """List all bases that the caller can see."""
        return self.run(lambda mill: mill.bases())

    def create_base(self, name: str, **options: Any) -> Base:
        """Create a base."""
        return self.run(lambda mill: mill.create_base(name, **options))

    def base_named(self, name: str, *, create: bool = False) -> Base:
        """Find the base of this name; with `create`, create it if it does not exist."""
        return self.run(lambda mill: mill.base_named(name, create=create))

    def delete_base(self, base_id: str) -> Json:
        """Delete a base; returns the job that removes it."""
        return self.run(lambda mill: mill.delete_base(base_id))

    def queue(self, base_id: str) -> Json:
        """Show the work left in a base."""
        return self.run(lambda mill: mill.queue(base_id))

    # ── items ────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, base_id: str, items: Sequence[Mapping[str, Any]], **options: Any) -> Added:
        """Add notes, web pages, and files and folders of the server."""
        return self.run(lambda mill: mill.add(base_id, items, **options))

    def upload(self, base_id: str, paths: Sequence[str | Path], **options: Any) -> Added:
        """Upload files of this machine."""
        return self.run(lambda mill: mill.upload(base_id, paths, **options))

    def estimate_upload(self, base_id: str, paths: Sequence[str | Path]) -> Json:
        """What uploading files of this machine would embed and cost; they are not stored."""
        return self.run(lambda mill: mill.estimate_upload(base_id, paths))

    def wait(self, base_id: str, item_ids: Sequence[str], **options: Any) -> dict[str, Item]:
        """Wait until items are completed or failed, and return them."""
        return self.run(lambda mill: mill.wait(base_id, item_ids, **options))

    def items(self, base_id: str, **filters: Any) -> list[Item]:
        """List items of a base: the roots, or those that match `filters`, the query parameters of the API."""
        return self.run(lambda mill: mill.items(base_id, **filters))

    def items_by_id(self, base_id: str, item_ids: Sequence[str]) -> dict[str, Item]:
        """Fetch the current state of items that were added together."""
        return self.run(lambda mill: mill.items_by_id(base_id, item_ids))

    def item(self, item_id: str) -> Item:
        """Get an item."""
        return self.run(lambda mill: mill.item(item_id))

    def content(self, item_id: str) -> str:
        """Read the canonical text of an item."""
        return self.run(lambda mill: mill.content(item_id))

    def chunks(self, item_id: str) -> list[Json]:
        """List the chunks of an item and of everything below it."""
        return self.run(lambda mill: mill.chunks(item_id))

    def delete(self, base_id: str, item_ids: Sequence[str]) -> Json:
        """Delete items with everything below them."""
        return self.run(lambda mill: mill.delete(base_id, item_ids))

    def reindex(self, base_id: str, item_ids: Sequence[str], **options: Any) -> Json:
        """Reindex items with everything below them."""
        return self.run(lambda mill: mill.reindex(base_id, item_ids, **options))

    def change_item(self, item_id: str, **changes: Any) -> Json:
        """Change the `title`, `metadata` or `acl` of an item, or the `content` of a note."""
        return self.run(lambda mill: mill.change_item(item_id, **changes))

    def move(self, base_id: str, item_ids: Sequence[str], **options: Any) -> Json:
        """Move items with everything below them: under `parentId`, or to the top of a base (`toBaseId`)."""
        return self.run(lambda mill: mill.move(base_id, item_ids, **options))

    def tag(self, base_id: str, item_ids: Sequence[str], **options: Any) -> Json:
        """Add tags to items (`add`), and remove others (`remove`)."""
        return self.run(lambda mill: mill.tag(base_id, item_ids, **options))

    def tags(self, base_id: str) -> list[Json]:
        """List the tags of a base, and how many items have each."""
        return self.run(lambda mill: mill.tags(base_id))

    # ── search ───────────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: str, base_ids: Sequence[str] | None = None, **options: Any) -> Answer:
        """Search bases, or all that the caller can see."""
        return self.run(lambda mill: mill.search(query, base_ids, **options))

    def ask(self, question: str, base_ids: Sequence[str] | None = None, **options: Any) -> Json:
        """Answer a question from bases, or from all that the caller can see."""
        return self.run(lambda mill: mill.ask(question, base_ids, **options))

    def why_not(self, item_id: str, query: str, **options: Any) -> Json:
        """Explain why an item is missing from the hits of a query."""
        return self.run(lambda mill: mill.why_not(item_id, query, **options))
