"""What a dry run says is what is spent: on the documents of this repository, with an embedder that counts."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest

from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.embedding.embedder import Vectors
from gristmill.ingest.estimate import Estimator
from gristmill.ingest.estimate_images import ImageCosts
from gristmill.operations import guards
from gristmill.operations.add import ItemToAdd
from gristmill.operations.estimates import CostEstimate
from gristmill.readers.pool import ReaderPool
from gristmill.settings import Settings
from tests.docs.pages import ROOT
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

DOCUMENTS = str(ROOT / "docs" / "adr")
COUNT = len(list((ROOT / "docs" / "adr").iterdir()))


class CountingEmbedder(HashedEmbedder):
    """Counts what it is given, as a provider that sends bills."""

    def __init__(self, name: str, dimensions: int) -> None:
        super().__init__(name, dimensions=dimensions)
        self.texts = 0
        self.tokens = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        self.tokens += sum(map(self.count_tokens, texts))
        return await super().embed_documents(texts)


@pytest.fixture
def embedders() -> dict[str, CountingEmbedder]:
    return {"hashed": CountingEmbedder("hashed", 64), "other": CountingEmbedder("other", 32)}


@pytest.fixture
async def mill(settings: Settings, embedders: dict[str, CountingEmbedder]) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=True, extra_embedders=embedders) as running:
        yield running


def is_near(estimate: int, actual: int) -> bool:
    return abs(estimate - actual) <= 0.1 * actual


async def estimate_from_sample(mill: app.Gristmill, base_id: BaseId) -> CostEstimate:
    """An estimate of the folder that reads some of its documents only."""
    async with mill.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
    item = NewItem("directory", "adr", DOCUMENTS, source={"path": DOCUMENTS, "local": True})
    readers = ReaderPool(1)
    estimator = Estimator(mill.db, mill.embedders, mill.sources, readers, ImageCosts("none"), max_read=20)
    try:
        return await estimator.estimate_add(base, mill.embedders.get("hashed"), [ItemToAdd(item, None)])
    finally:
        estimator.close()
        await readers.close()


async def test_an_estimate_is_within_ten_percent_of_what_is_spent(
    mill: app.Gristmill, http: httpx.AsyncClient, embedders: dict[str, CountingEmbedder]
) -> None:
    """Of an add, of a re-index, of one after another chunking, of another embedder, and from a sample."""
    base: str = (await http.post("/api/knowledge-bases", json={"name": "docs"})).json()["id"]
    url = f"/api/knowledge-bases/{base}"
    folder = {
        "items": [{"type": "directory", "path": DOCUMENTS}, {"type": "note", "content": "A sack of rye."}]
    }

    async def spend(
        body: dict[str, Any], path: str, embedder: str = "hashed"
    ) -> tuple[dict[str, Any], int, int]:
        """What a dry run says, and the texts and tokens that the embedder then counts."""
        response = await http.post(f"{url}{path}", json={**body, "dryRun": True})
        assert response.status_code == 200, response.text
        counting = embedders[embedder]
        before = counting.texts, counting.tokens
        (await http.post(f"{url}{path}", json=body)).raise_for_status()

        async def is_done() -> bool:
            queue = (await http.get(f"{url}/queue")).json()
            return queue["queueSize"] + queue["processingCount"] == 0

        await wait_until(is_done)
        return response.json(), counting.texts - before[0], counting.tokens - before[1]

    sampled = await estimate_from_sample(mill, BaseId(UUID(base)))
    estimate, texts, tokens = await spend(folder, "/items")
    assert (estimate["exact"], estimate["notes"], estimate["failed"]) == (True, [], [])
    assert (estimate["texts"], estimate["cost"]) == (texts, None)
    assert texts > 100
    assert is_near(estimate["tokens"], tokens)
    usage = (await http.get("/api/usage")).json()["totals"]
    assert (usage["texts"], is_near(usage["tokens"], tokens)) == (texts, True)
    assert (sampled.read_documents, sampled.is_exact) == (20, False)
    assert "documents were read; the others are estimated" in sampled.notes[0]
    assert is_near(sampled.tokens, tokens)
    assert 0 < sampled.uncertainty <= 0.1

    ids = [item["id"] for item in (await http.get(f"{url}/items")).json()["items"]]
    estimate, texts, _ = await spend({"itemIds": ids}, "/items/reindex")
    assert (estimate["texts"], texts) == (0, 0), "nothing has changed"

    estimate, texts, tokens = await spend({"embedder": "other", "gate": "off"}, "/embedder", "other")
    assert texts > 100
    assert (estimate["texts"], estimate["documents"]) == (texts, COUNT + 1)
    assert is_near(estimate["tokens"], tokens)
