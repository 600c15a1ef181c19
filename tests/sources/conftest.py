"""A web site for the tests of sources."""

from collections.abc import Generator

import pytest

from tests.sources.site import Site, serve


@pytest.fixture
def site() -> Generator[Site]:
    with serve() as site:
        yield site
