"""What one server process counts as it goes: requests and searches."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_FINE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meters:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
            buckets=_FINE,
            registry=self.registry,
        )
        self.search_seconds = Histogram(
            "gristmill_search_seconds", "Searches.", ["mode"], buckets=_FINE, registry=self.registry
        )

    def request(self, method: str, status: int, seconds: float) -> None:
        """Count a request. A method that nobody serves is not a label of its own."""
        known = method if method in ("GET", "POST", "PATCH", "DELETE") else "other"
        self.requests.labels(known, str(status)).inc()
        self.request_seconds.labels(known).observe(seconds)
