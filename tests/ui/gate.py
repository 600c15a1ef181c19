"""An embedder that waits: texts that say so are answered when the test lets them, so that indexing can be looked at midway."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.embedding.endpoint import Answer, Asked, Endpoint, hashed_vectors

HELD = "until the gate opens"
_LIMIT = 60.0  # that only a defect reaches


@contextmanager
def closed(embedder: Endpoint) -> Generator[threading.Event]:
    """Hold every text that says `HELD` until the event is set, or the block ends."""
    opened = threading.Event()

    def answer(asked: Asked) -> Answer:
        if any(HELD in text for text in asked.body["input"]):
            opened.wait(_LIMIT)
        return hashed_vectors(asked)

    embedder.answer = answer
    try:
        yield opened
    finally:
        opened.set()
        embedder.answer = hashed_vectors
