"""Metrics of ingestion in this process: durations of stages, batch sizes, waits for embedding providers.

One registry per process, which the server's `/metrics` exposes. Recording a metric never raises, and labels never contain
user input.
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
    "Duration of an attempt at a document by stage; `all` is the entire attempt.",
    ["stage"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
_batches = Histogram(
    "gristmill_batch_size",
    "Batch sizes by stage: chunks to embed, documents to write.",
    ["stage"],
    buckets=_SIZES,
    registry=REGISTRY,
)
_waits = Histogram(
    "gristmill_embedder_wait_seconds",
    "Time that a request to an embedding provider waited for its rate limit.",
    ["what"],
    buckets=_SECONDS,
    registry=REGISTRY,
)


def observe_stage(name: Stage, seconds: float) -> None:
    """Record how long an attempt at a document spent in a stage."""
    _stages.labels(name).observe(seconds)


def observe_batch(name: Literal["embed", "write"], size: int) -> None:
    """Record the size of a batch."""
    _batches.labels(name).observe(size)


@contextmanager
def time_embedder_wait(what: Literal["documents", "queries"]) -> Generator[None]:
    """Record the duration of the block as time that a request waited, even if it fails."""
    started = monotonic()
    try:
        yield
    finally:
        _waits.labels(what).observe(monotonic() - started)
