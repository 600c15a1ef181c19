"""Metrics of one server process: requests, searches, and the last known violations of invariants."""

from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from datetime import timedelta
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# Checking the invariants costs time in proportion to the number of items, so scrapes reuse the result.
VIOLATION_MAX_AGE = timedelta(minutes=5)
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """The metrics of one server process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._violations: tuple[float, Mapping[str, int]] | None = None
        self._request_metrics: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.requests = Counter(
            "gristmill_requests",
            "Requests, by method and status.",
            ["method", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "gristmill_request_seconds",
            "Time from a request to the start of its response.",
            ["method"],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.search_seconds = Histogram(
            "gristmill_search_seconds",
            "Duration of searches.",
            ["mode"],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )

        self.streams = Gauge("gristmill_streams", "Clients of the event stream.", registry=self.registry)

    def recent_violations(self) -> Mapping[str, int] | None:
        """The number of violations of each invariant; None if they must be checked again."""
        if self._violations is None or monotonic() - self._violations[0] > VIOLATION_MAX_AGE.total_seconds():
            return None
        return self._violations[1]

    def record_violations(self, invariants: Iterable[str]) -> Mapping[str, int]:
        """Store the result of a check: one entry per violation."""
        self._violations = (monotonic(), Counts(invariants))
        return self._violations[1]

    def record_request(self, method: str, status: int, seconds: float) -> None:
        """Count a request. Unknown methods share the label `other`."""
        counter, histogram = self._request_metrics.get((method, status)) or self._find_metrics(method, status)
        counter.inc()
        histogram.observe(seconds)

    def _find_metrics(self, method: str, status: int) -> tuple[Counter, Histogram]:
        """The metrics of requests like this one, remembered because finding them costs as much as counting."""
        is_known = method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        label = method if is_known else "other"
        metrics = self.requests.labels(label, str(status)), self.request_seconds.labels(label)
        if is_known:
            self._request_metrics[method, status] = metrics
        return metrics
