"""What this process measures of its work: times in stages, sizes of batches, waits for providers.

One registry a process, which `/metrics` of a server tells. Measuring never fails the work, and no label is made of what
somebody typed.
"""

from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

from prometheus_client import CollectorRegistry, Histogram

REGISTRY = CollectorRegistry()

Stage = Literal["read", "embed", "write", "all"]
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 200)

_stages = Histogram(
    "gristmill_stage_seconds",
    "What an attempt at a document took, by stage; `all` is from its opening to its end.",
    ["stage"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_batches = Histogram(
    "gristmill_batch_size",
    "What went through a stage together: pieces to embed, documents to write.",
    ["stage"],
    buckets=_SIZES,
    registry=REGISTRY,
)
_waits = Histogram(
    "gristmill_embedder_wait_seconds",
    "How long a request to a provider waited for its turn.",
    ["what"],
    buckets=_SECONDS,
    registry=REGISTRY,
)


def observe_stage(name: Stage, seconds: float) -> None:
    """An attempt at a document spent this long in a stage."""
    _stages.labels(name).observe(seconds)


def observe_batch(name: Literal["embed", "write"], size: int) -> None:
    """So many went through a stage together."""
    _batches.labels(name).observe(size)


@contextmanager
def time_embedder_wait(what: Literal["documents", "queries"]) -> Generator[None]:
    """Whatever is waited for in the block is a request's turn, whether it comes or not."""
    started = monotonic()
    try:
        yield
    finally:
        _waits.labels(what).observe(monotonic() - started)
