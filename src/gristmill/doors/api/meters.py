"""What one server process counts as it goes: requests and searches; and what it last saw of broken promises."""

from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from datetime import timedelta
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Histogram

# To look costs as much as there are items: seldom, however often somebody scrapes.
LOOK = timedelta(minutes=5)
_FINE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meters:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._broken: tuple[float, Mapping[str, int]] | None = None
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

    def broken(self) -> Mapping[str, int] | None:
        """How many things break each promise; None when it is time to look again."""
        if self._broken is None or monotonic() - self._broken[0] > LOOK.total_seconds():
            return None
        return self._broken[1]

    def saw_broken(self, promises: Iterable[str]) -> Mapping[str, int]:
        """Keep what was found, one entry for each thing."""
        self._broken = (monotonic(), Counts(promises))
        return self._broken[1]

    def request(self, method: str, status: int, seconds: float) -> None:
        """Count a request. A method that nobody serves is not a label of its own."""
        known = method if method in ("GET", "POST", "PUT", "PATCH", "DELETE") else "other"
        self.requests.labels(known, str(status)).inc()
        self.request_seconds.labels(known).observe(seconds)
