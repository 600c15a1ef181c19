"""An embedder of this machine, from the data files of an installed wheel (`local_models.py`): on the CPU in this process, and for
documents on a GPU where there is one (`gpu/`).

    embed_documents ─► 2 × threads slices of each call in flight ─► pool of `threads` ─┐
                                                                                        ├─► one session
    embed_query ──────────────────────────────────────────────────► pool of 1 ─────────┘

Each thread runs one text at a time on one core (onnx_graph.py says why). Queries have their own thread, so that they never
queue: the operating system gives them their share of the cores at once, while in a priority queue they would still wait
up to 0.1 s for a running document. A thread takes texts of one call for a slice of time, some five of them, so that the event loop
is not woken for each; then it is another call's turn. A cancelled call ends with the texts that are being embedded.

With a GPU, the pool only makes tokens of documents, and the GPU process the vectors. Queries stay here: a vector takes milliseconds, and
a search needs no GPU. Both kinds of vectors may be compared (`bench/gpu.py` measures how much they differ). If the GPU process
keeps failing or hangs, this process does its work for some minutes, and then tries it again.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from tokenizers import Tokenizer

from gristmill import faults, niceness
from gristmill.embedding import embedder
from gristmill.embedding.embedder import Vectors
from gristmill.embedding.gpu.client import GpuClient, GpuFailed, NoGpu
from gristmill.embedding.local_models import GRANITE, LocalModel
from gristmill.embedding.onnx_session import OnnxSession, load_or_convert_model, open_session
from gristmill.errors import Transient

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_SLICE_SECONDS = 0.05
_SECONDS_WITHOUT_GPU = 300.0  # after it failed: a GPU that hangs is not waited for with every batch


class LocalEmbedder:
    """A local model on `threads` threads, and on `gpu` if it is given; with `gpu_required`, never without it."""

    def __init__(
        self,
        cache_dir: Path,
        threads: int,
        *,
        model: LocalModel = GRANITE,
        gpu: GpuClient | None = None,
        gpu_required: bool = False,
    ) -> None:
        self.name, self.identity, self.dimensions = model.name, model.identity, model.dimensions
        self.max_tokens, self.strengths = model.max_tokens, model.strengths
        self._model, self._cache_dir = model, cache_dir
        self._threads = threads
        self._gpu, self._gpu_required, self._gpu_again_at = gpu, gpu_required, 0.0
        self._documents = ThreadPoolExecutor(
            threads, thread_name_prefix="embed-documents", initializer=niceness.lower_thread_priority
        )
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        self._loading = threading.Lock()
        self._session: OnnxSession | None = None
        self._closed = False

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own tokenizer."""
        return self._model.tokenizer

    def count_tokens(self, text: str) -> int:
        """Number of tokens in `text`, without the two special tokens that the model adds."""
        return embedder.count_tokens(self.tokenizer, text)

    async def load(self) -> None:
        """Convert or open the graph. Concurrent callers wait for the same load."""
        await self._run_in(self._queries, self._load_session)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in order. A text longer than `max_tokens` is truncated."""
        if self._gpu is not None and texts and (self._gpu_required or time.monotonic() >= self._gpu_again_at):
            try:
                tokens = await self._run_in(self._documents, lambda: self._all_tokens(texts))
                await faults.point("embedding.before_gpu")
                return await self._gpu.embed(self.name, tokens)
            except (NoGpu, GpuFailed) as error:
                if self._gpu_required:
                    raise
                if isinstance(error, NoGpu):
                    self._gpu = None
                self._gpu_again_at = time.monotonic() + _SECONDS_WITHOUT_GPU
                log.warning("embedding on the CPU", extra={"reason": str(error)})
        return await self._embed_here(texts)

    async def _embed_here(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        places = itertools.count()  # its next number goes to one thread only
        is_cancelled = False

        def embed_some() -> bool:
            """Embed texts for a slice of time. Returns whether there may be more."""
            end = time.monotonic() + _SLICE_SECONDS
            while not is_cancelled and (place := next(places)) < len(texts):
                vectors[place] = self._embed(texts[place])
                if time.monotonic() >= end:
                    return place + 1 < len(texts)
            return False

        async def take_turns() -> None:
            more = True
            while more:
                await faults.point("embedding.before_texts")
                more = await self._run_in(self._documents, embed_some)

        # Twice the threads: when a slice ends, the next one is already in the pool.
        turns = [asyncio.create_task(take_turns()) for _ in range(min(len(texts), 2 * self._threads))]
        try:
            await asyncio.gather(*turns)
        finally:
            is_cancelled = True
            for turn in turns:
                turn.cancel()
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query, on the thread for queries."""
        return await self._run_in(self._queries, lambda: self._embed(text))

    async def close(self) -> None:
        """Wait for the texts in progress, and stop the threads."""
        self._closed = True
        for pool in (self._documents, self._queries):
            await asyncio.to_thread(pool.shutdown)
        self._session = None

    async def _run_in(self, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise Transient("The embedder was closed; this process is stopping.", code="embedder_closed")
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def _embed(self, text: str) -> Vectors:
        session = self._load_session()
        ids = self.tokenizer.encode(self._beginning(text), add_special_tokens=False).ids
        return session.run(None, {"ids": np.array([self._with_marks(ids)], np.int64)})[0][0]

    def _all_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        beginnings = [self._beginning(text) for text in texts]
        encoded = self.tokenizer.encode_batch_fast(beginnings, add_special_tokens=False)
        return [self._with_marks(encoding.ids) for encoding in encoded]

    def _beginning(self, text: str) -> str:
        """What is beyond would be truncated anyway."""
        return text[: self.max_tokens * self._model.max_token_characters]

    def _with_marks(self, tokens: list[int]) -> list[int]:
        return [self._model.start_token, *tokens[: self.max_tokens], self._model.end_token]

    def _load_session(self) -> OnnxSession:
        with self._loading:
            if self._session is None:
                # The tokenizer first: loading it verifies the pack, which opening a cached graph does not.
                _ = self.tokenizer
                self._session = open_session(load_or_convert_model(self._cache_dir, self._model))
            return self._session
