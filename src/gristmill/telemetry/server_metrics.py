"""What one server process counts as it goes: requests and searches; and what it last saw of broken promises."""

from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from datetime import timedelta
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Histogram

# To look costs as much as there are items: seldom, however often somebody scrapes.
VIOLATION_MAX_AGE = timedelta(minutes=5)
_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._violations: tuple[float, Mapping[str, int]] | None = None
        self.requests = Counter(
            "gristmill_requests",
            "Requests, by method and status.",
            ["method", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "gristmill_request_seconds",
            "From a request to the beginning of its answer.",
            ["method"],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.search_seconds = Histogram(
            "gristmill_search_seconds",
            "Searches.",
            ["mode"],
            buckets=_LATENCY_BUCKETS,
            registry=self.registry,
        )

    def recent_violations(self) -> Mapping[str, int] | None:
        """How many things break each promise; None when it is time to look again."""
        if self._violations is None or monotonic() - self._violations[0] > VIOLATION_MAX_AGE.total_seconds():
            return None
        return self._violations[1]

    def record_violations(self, invariants: Iterable[str]) -> Mapping[str, int]:
        """Keep what was found, one entry for each thing."""
        self._violations = (monotonic(), Counts(invariants))
        return self._violations[1]

    def record_request(self, method: str, status: int, seconds: float) -> None:
        """Count a request. A method that nobody serves is not a label of its own."""
        method_label = method if method in ("GET", "POST", "PUT", "PATCH", "DELETE") else "other"
        self.requests.labels(method_label, str(status)).inc()
        self.request_seconds.labels(method_label).observe(seconds)
