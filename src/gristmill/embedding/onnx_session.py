"""The graph of a local model in onnxruntime, and its cache.

The weights are converted once to a graph for onnxruntime and cached in the cache folder, in a file named after the model's
identity that starts with the graph's SHA-256. A damaged cache file is replaced. If the file can't be written, the
next start converts again. Two processes that write at once both leave the same complete file.
"""

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gristmill.embedding.embedder import Vectors
from gristmill.embedding.local_models import LocalModel
from gristmill.errors import SetupError

log = logging.getLogger(__name__)


class OnnxSession(Protocol):
    """The part of onnxruntime's session that is used here; onnxruntime has no types."""

    def run(self, output_names: None, input_feed: dict[str, NDArray[np.int64]], /) -> list[Vectors]:
        """Run the graph. Thread-safe."""
        ...


def open_session(model: bytes, *, threads: int = 1) -> OnnxSession:
    """A session that runs on its callers' threads."""
    import onnxruntime  # slow to import, and not needed with other embedders

    ort = cast(Any, onnxruntime)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads must sleep, not spin: the rest of the pipeline needs the cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The graph is in its final form; a fusion would only reintroduce what was measured to be slower.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class; the model's bytes are verified
        message = (
            f"onnxruntime {ort.__version__} can't run the local embedders. Install another version. ({error})"
        )
        raise SetupError(message, code="model_not_runnable") from error


def load_or_convert_model(cache_dir: Path, model: LocalModel) -> bytes:
    """The converted model, from the cache or converted now."""
    path = cache_dir / f"{model.cache_name}.model"
    graph = _read_cached(path)
    if graph is None:
        graph = model.convert()
        _write_cached(path, graph)
    return graph


def _read_cached(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.warning("can't read the cached model", extra={"path": str(path), "error": str(error)})
        return None
    digest, model = data[:32], data[32:]
    if hashlib.sha256(model).digest() == digest:
        return model
    log.warning("the cached model is damaged: converting it again", extra={"path": str(path)})
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
        # Harmless: the next start converts again.
        log.warning("can't cache the converted model", extra={"path": str(path), "error": str(error)})
