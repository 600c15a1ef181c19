"""Makes the fake embedder wait on marked texts until the test releases them, so that tests can look at indexing midway."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors

HELD_MARKER = "until it is released"
_LIMIT = 60.0  # only a defect takes this long


@contextmanager
def hold_embedding(embedder: Endpoint) -> Generator[threading.Event]:
    """Hold every text that contains `HELD_MARKER` until the event is set, or the block ends."""
    release = threading.Event()

    def answer(request: EmbeddingRequest) -> CannedResponse:
        if any(HELD_MARKER in text for text in request.body["input"]):
            release.wait(_LIMIT)
        return hashed_vectors(request)

    embedder.respond = answer
    try:
        yield release
    finally:
        release.set()
        embedder.respond = hashed_vectors
