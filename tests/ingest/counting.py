"""An embedder that records its calls, and that a test can hold or fail."""

import asyncio
from collections.abc import Callable, Sequence

from gristmill.embedding.embedder import Vectors
from tests.embedding.hashed import HashedEmbedder


class CountingEmbedder(HashedEmbedder):
    """`calls` has the texts of each call; `before` is called first and may raise; `gate` blocks every call."""

    def __init__(self, before: Callable[[Sequence[str]], None] | None = None) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.before = before
        self.gate = asyncio.Event()
        self.gate.set()
        self.first_call = asyncio.Event()
        self.cancelled_calls = 0

    @property
    def texts(self) -> list[str]:
        """Everything that was embedded."""
        return [text for call in self.calls for text in call]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        self.first_call.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled_calls += 1
            raise
        if self.before is not None:
            self.before(texts)
        return await super().embed_documents(texts)
