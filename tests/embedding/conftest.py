"""What the tests of the embedders share."""

import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from gristmill.embedding import LocalEmbedder
from gristmill.embedding.local import RECIPE
from tests.embedding.endpoint import Endpoint, serve


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """A folder that outlives the session, so that the model is converted once per recipe."""
    return Path(tempfile.gettempdir()) / f"gristmill-test-models-{RECIPE}"


@pytest.fixture
async def local(model_cache: Path) -> AsyncGenerator[LocalEmbedder]:
    """The default embedder on one thread."""
    embedder = LocalEmbedder(model_cache, threads=1)
    yield embedder
    await embedder.close()


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    """A loopback endpoint that returns proper vectors unless a test changes it."""
    with serve() as endpoint:
        yield endpoint
