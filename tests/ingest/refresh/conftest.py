"""The manual workers of the operations' tests, and a web site."""

from collections.abc import Generator

import pytest

from tests.operations.conftest import base, docs, ends_healthy, second_worker, worker
from tests.sources.site import Site, serve

__all__ = ["base", "docs", "ends_healthy", "second_worker", "worker"]


@pytest.fixture
def site() -> Generator[Site]:
    """A web site on a loopback port."""
    with serve() as server:
        yield server
