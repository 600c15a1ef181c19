"""The manual workers of the operations' tests, and a web site with links."""

from collections.abc import Generator

import pytest

from tests.ingest.crawl.linked_site import LinkedSite
from tests.operations.conftest import base, docs, ends_healthy, second_worker, worker
from tests.sources.site import serve

__all__ = ["base", "docs", "ends_healthy", "second_worker", "worker"]


@pytest.fixture
def site() -> Generator[LinkedSite]:
    """A web site on a loopback port."""
    with serve() as server:
        yield LinkedSite(server)
