"""The client for programs without an event loop."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio.from_thread

from gristmill.client.async_client import Client
from gristmill.client.models import Added, Answer, Base, Item, Json

Result = TypeVar("Result")


class SyncClient:
    """A synchronous facade of `Client`, with an event loop in its own thread; use it as a context manager.

    The most used methods have the same names. Others: `mill.run(lambda client: client.chunks(item_id))`.
    """

    def __init__(self, url: str = "http://127.0.0.1:7373", key: str | None = None, **options: Any) -> None:
        self._new_client = lambda: Client(url, key, **options)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the event loop."""
        self._portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal())
        client_context: AbstractContextManager[Client] = self._portal.wrap_async_context_manager(
            self._portal.call(self._new_client)
        )
        self._client = self._stack.enter_context(client_context)
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the connections and stop the event loop."""
        self._stack.close()

    def run(self, operation: Callable[[Client], Coroutine[Any, Any, Result]]) -> Result:
        """Run an operation of the asynchronous client, and return its result."""
        return self._portal.call(operation, self._client)

    def call(self, method: str, path: str, **options: Any) -> Json:
        """Send a request to a path below `/api` and return the JSON of the response."""
        return self.run(lambda mill: mill.call(method, path, **options))

    def base_named(self, name: str, *, create: bool = False) -> Base:
        """Find the base of this name; with `create`, create it if it does not exist."""
        return self.run(lambda mill: mill.base_named(name, create=create))

    def add(self, base_id: str, items: Sequence[Mapping[str, Any]], **options: Any) -> Added:
        """Add items to a base."""
        return self.run(lambda mill: mill.add(base_id, items, **options))

    def upload(self, base_id: str, paths: Sequence[str | Path], **options: Any) -> Added:
        """Upload files of this machine to a base."""
        return self.run(lambda mill: mill.upload(base_id, paths, **options))

    def wait(self, base_id: str, item_ids: Sequence[str], **options: Any) -> dict[str, Item]:
        """Wait until items are completed or failed."""
        return self.run(lambda mill: mill.wait(base_id, item_ids, **options))

    def ask(self, question: str, base_ids: Sequence[str] | None = None, **options: Any) -> Json:
        """Answer a question from bases, or from all that the caller can see."""
        return self.run(lambda mill: mill.ask(question, base_ids, **options))

    def search(self, query: str, base_ids: Sequence[str] | None = None, **options: Any) -> Answer:
        """Search bases."""
        return self.run(lambda mill: mill.search(query, base_ids, **options))
