"""What the tests of the embedders share."""

import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from gristmill.embedding import LocalEmbedder
from gristmill.embedding.local_models import UNIVERSAL
from tests.embedding.endpoint import Endpoint, serve


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """A folder that outlives the session, so that each model is converted once."""
    return Path(tempfile.gettempdir()) / "gristmill-test-models"


@pytest.fixture
async def local(model_cache: Path) -> AsyncGenerator[LocalEmbedder]:
    """The default embedder on one thread."""
    embedder = LocalEmbedder(model_cache, threads=1)
    yield embedder
    await embedder.close()


@pytest.fixture
async def multilingual(model_cache: Path) -> AsyncGenerator[LocalEmbedder]:
    """The multilingual embedder on one thread."""
    embedder = LocalEmbedder(model_cache, threads=1, model=UNIVERSAL)
    yield embedder
    await embedder.close()


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    """A loopback endpoint that returns proper vectors unless a test changes it."""
    with serve() as endpoint:
        yield endpoint
