"""Form batches of the texts that wait for the device, and keep it busy: the next batch is started before the last one is read.

Texts are taken in the order in which they came, until a batch has `MAX_TOKENS`. The texts of one request may be in several batches.
If the device has too little memory for a batch, it is halved, and later batches are smaller.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gristmill.embedding.gpu.protocol import HalfVectors, Tokens

MAX_TOKENS = 1 << 18

log = logging.getLogger(__name__)


class OutOfMemory(Exception):
    """The device has too little memory for a batch."""


class DeviceModel(Protocol):
    """A model on a device."""

    dimensions: int

    def start(self, texts: Sequence[Tokens]) -> Callable[[], HalfVectors]:
        """Start to compute the vectors of these texts, at least one. Returns what waits for them. Raises OutOfMemory."""
        ...


@dataclass(eq=False)
class Request:
    """The texts of a request, at least one, and the vectors that it has so far; `done` gets all of them, in another thread."""

    model: str
    texts: Sequence[Tokens]
    dimensions: int
    done: Callable[[HalfVectors], object]
    taken: int = 0
    ready: int = 0
    vectors: HalfVectors = field(init=False)

    def __post_init__(self) -> None:
        self.vectors = np.empty((len(self.texts), self.dimensions), np.float16)


@dataclass(frozen=True)
class _RequestPart:
    """Texts of a request that are in one batch."""

    request: Request
    first: int
    texts: Sequence[Tokens]


class BatchRunner:
    """Runs requests on the device, in a thread of its own. After an error that is not about memory the device can't be used by
    this process any more: `fail` gets the error and ends the process."""

    def __init__(self, models: Mapping[str, DeviceModel], fail: Callable[[Exception], None]) -> None:
        self._models, self._fail = models, fail
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._max_tokens = MAX_TOKENS
        threading.Thread(target=self._run, name="gpu", daemon=True).start()

    def submit(self, request: Request) -> None:
        """Queue a request."""
        with self._changed:
            self._waiting.append(request)
            self._changed.notify()

    def _run(self) -> None:
        try:
            launched: tuple[list[_RequestPart], Callable[[], HalfVectors]] | None = None
            while True:
                parts = self._take(wait=launched is None)
                following = (parts, self._launch(parts)) if parts else None
                if launched is not None:
                    _deliver(launched[0], launched[1]())
                launched = following
        except Exception as error:  # PyTorch's errors have no common class
            self._fail(error)

    def _take(self, *, wait: bool) -> list[_RequestPart]:
        """The next batch; all its texts are for one model."""
        parts: list[_RequestPart] = []
        tokens = 0
        with self._changed:
            while wait and not self._waiting:
                self._changed.wait()
            while self._waiting and (not parts or parts[0].request.model == self._waiting[0].model):
                request = self._waiting[0]
                first = request.taken
                while request.taken < len(request.texts):
                    tokens += len(request.texts[request.taken])
                    if tokens > self._max_tokens and (parts or request.taken > first):
                        break
                    request.taken += 1
                if request.taken > first:
                    parts.append(_RequestPart(request, first, request.texts[first : request.taken]))
                if request.taken < len(request.texts):
                    break
                self._waiting.popleft()
        return parts

    def _launch(self, parts: Sequence[_RequestPart]) -> Callable[[], HalfVectors]:
        """Start a batch. Returns what waits for its vectors."""
        texts = [text for part in parts for text in part.texts]
        model = self._models[parts[0].request.model]
        try:
            return model.start(texts)
        except OutOfMemory:
            self._max_tokens = max(1, min(self._max_tokens, sum(map(len, texts))) // 2)
            log.warning(
                "the GPU has too little memory: batches are smaller now", extra={"tokens": self._max_tokens}
            )
        vectors = _embed_in_halves(model, texts)
        return lambda: vectors


def _embed_in_halves(model: DeviceModel, texts: Sequence[Tokens]) -> HalfVectors:
    middle = len(texts) // 2
    if middle == 0:
        return model.start(texts)()
    vectors: list[HalfVectors] = []
    for half in (texts[:middle], texts[middle:]):
        try:
            vectors.append(model.start(half)())
        except OutOfMemory:
            vectors.append(_embed_in_halves(model, half))
    return np.concatenate(vectors)


def _deliver(parts: Sequence[_RequestPart], vectors: HalfVectors) -> None:
    at = 0
    for part in parts:
        request, count = part.request, len(part.texts)
        request.vectors[part.first : part.first + count] = vectors[at : at + count]
        at += count
        request.ready += count
        if request.ready == len(request.texts):
            request.done(request.vectors)
