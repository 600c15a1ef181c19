"""An embedder that waits: texts that say so are answered when the test lets them, so that indexing can be looked at midway."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors

HELD_MARKER = "until the gate opens"
_LIMIT = 60.0  # that only a defect reaches


@contextmanager
def hold_embedding(embedder: Endpoint) -> Generator[threading.Event]:
    """Hold every text that says `HELD` until the event is set, or the block ends."""
    released = threading.Event()

    def answer(request: EmbeddingRequest) -> CannedResponse:
        if any(HELD_MARKER in text for text in request.body["input"]):
            released.wait(_LIMIT)
        return hashed_vectors(request)

    embedder.respond = answer
    try:
        yield released
    finally:
        released.set()
        embedder.respond = hashed_vectors
