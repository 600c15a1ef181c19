"""Metrics of search engines, of the sweep that compares them with the tables. In the registry of `pipeline_metrics`."""

from prometheus_client import Counter

from gristmill.telemetry.pipeline_metrics import REGISTRY

_orphans = Counter(
    "gristmill_index_orphans",
    "Points in the search engine that belonged to no chunk, and were removed.",
    registry=REGISTRY,
)
_missing = Counter(
    "gristmill_index_missing",
    "Versions of which the search engine had lost chunks, and got them again.",
    registry=REGISTRY,
)


def count_orphans(points: int) -> None:
    """Count points that were removed."""
    _orphans.inc(points)


def count_missing(versions: int) -> None:
    """Count versions that had lost chunks."""
    _missing.inc(versions)
