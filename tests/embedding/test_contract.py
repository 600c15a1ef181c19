"""What every embedder guarantees."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from gristmill.embedding import Embedder, LocalEmbedder, OpenAIEmbedder
from gristmill.embedding.local_models import UNIVERSAL
from gristmill.settings import EmbedderSettings
from tests.embedding.endpoint import Endpoint
from tests.embedding.hashed import HashedEmbedder

pytestmark = pytest.mark.slow

RELATED = "The cat sat on the mat and slept."
QUESTION = "Where did the cat sleep on the mat?"
UNRELATED = "Quarterly revenue of 2019 grew by eleven percent."


@pytest.fixture(params=["local", "multilingual", "openai", "hashed"])
async def embedder(
    request: pytest.FixtureRequest, model_cache: Path, endpoint: Endpoint
) -> AsyncGenerator[Embedder]:
    new_embedder: Embedder
    if request.param == "local":
        new_embedder = LocalEmbedder(model_cache, threads=2)
    elif request.param == "multilingual":
        new_embedder = LocalEmbedder(model_cache, threads=2, model=UNIVERSAL)
    elif request.param == "openai":
        new_embedder = OpenAIEmbedder(
            "remote",
            EmbedderSettings.model_validate(
                {"url": endpoint.url, "model": "hashed", "dimensions": 64, "batch_size": 3}
            ),
        )
    else:
        new_embedder = HashedEmbedder()
    yield new_embedder
    await new_embedder.close()


def mixed_texts() -> list[str]:
    """Of very different lengths, none equal, in no order of length."""
    return [f"number {n} " + "and so on " * (n * 7 % 40) for n in range(25)]


async def test_every_vector_has_the_dimensions_and_length_one(embedder: Embedder) -> None:
    vectors = await embedder.embed_documents([RELATED, "", "中文的句子。", "😀"])
    assert vectors.shape == (4, embedder.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert (await embedder.embed_documents([])).shape == (0, embedder.dimensions)


async def test_a_query_is_one_vector(embedder: Embedder) -> None:
    vector = await embedder.embed_query(QUESTION)
    assert vector.shape == (embedder.dimensions,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_a_related_text_is_nearer_than_an_unrelated_one(embedder: Embedder) -> None:
    related, unrelated = await embedder.embed_documents([RELATED, UNRELATED])
    query = await embedder.embed_query(QUESTION)
    assert query @ related > query @ unrelated + 0.1


async def test_order_is_kept_however_the_work_is_cut(embedder: Embedder) -> None:
    texts = mixed_texts()
    together = await embedder.embed_documents(texts)
    alone = [(await embedder.embed_documents([text]))[0] for text in texts]
    np.testing.assert_array_equal(together, np.stack(alone))


async def test_calls_at_once_do_not_mix(embedder: Embedder) -> None:
    texts = mixed_texts()
    together = await asyncio.gather(*(embedder.embed_documents(texts[n::5]) for n in range(5)))
    expected = await embedder.embed_documents(texts)
    for n, vectors in enumerate(together):
        np.testing.assert_array_equal(vectors, expected[n::5])


async def test_properties_stay_the_same_after_loading(embedder: Embedder) -> None:
    before = (embedder.name, embedder.identity, embedder.dimensions, embedder.max_tokens)
    await asyncio.gather(embedder.load(), embedder.load())
    await embedder.load()
    assert (embedder.name, embedder.identity, embedder.dimensions, embedder.max_tokens) == before


async def test_the_tokenizer_neither_cuts_nor_pads(embedder: Embedder) -> None:
    rules = json.loads(embedder.tokenizer.to_str())
    assert (rules["truncation"], rules["padding"]) == (None, None)
    assert embedder.count_tokens("") == 0
    assert embedder.count_tokens("word " * 2000) >= 2000
    assert embedder.count_tokens("中文字") >= 1


async def test_a_cancelled_call_leaves_a_working_embedder(embedder: Embedder) -> None:
    await embedder.load()
    for yields in range(4):
        task = asyncio.create_task(embedder.embed_documents(mixed_texts()))
        for _ in range(yields):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (await embedder.embed_documents([RELATED])).shape == (1, embedder.dimensions)


async def test_closing_twice_is_fine(embedder: Embedder) -> None:
    await embedder.embed_query(QUESTION)
    await embedder.close()
    await embedder.close()
