"""The cost that a dry run tells is what is spent: documents of several formats with images, a priced embedder and a priced vision model."""

import random
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.ingest.estimate import Estimator
from gristmill.operations import guards
from gristmill.operations.add import ItemToAdd
from gristmill.operations.estimates import CostEstimate
from gristmill.readers.pool import ReaderPool
from gristmill.services import image_costs
from gristmill.settings import EmbedderSettings, Settings
from tests.embedding.endpoint import CannedResponse, Endpoint, serve
from tests.readers import samples
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

DESCRIPTION = "A chart of emmer prices in the years of the drought, with a line for each mill of the valley. "


@pytest.fixture
def embedder() -> Generator[Endpoint]:
    with serve() as endpoint:
        yield endpoint


@pytest.fixture
def vision_model() -> Generator[Endpoint]:
    with serve() as endpoint:
        content = {"role": "assistant", "content": DESCRIPTION * 8}
        endpoint.respond = lambda _: CannedResponse(200, {"choices": [{"message": content}]})
        yield endpoint


@pytest.fixture
def settings(settings: Settings, embedder: Endpoint, vision_model: Endpoint) -> Settings:
    priced = EmbedderSettings(
        url=embedder.url, model="hashed", dimensions=64, price_per_million_tokens=1_000.0
    )
    own = {
        "embedder": "priced",
        "embedders": {"priced": priced},
        "vision_url": vision_model.url,
        "vision_model": "seer",
        "vision_price": 0.01,
    }
    return settings.model_copy(update=own)


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=True) as running:
        yield running


def write_documents(folder: Path) -> None:
    """Files of five formats with sizes from a line to some ten pages; some of them are copies."""
    rng = random.Random(7)
    words = ["".join(rng.choices("aeiounrstlmdg", k=rng.randint(2, 11))) for _ in range(900)]

    def sentences(scale: float) -> list[str]:
        count = max(1, int(rng.lognormvariate(2.5, 1.0) * scale))
        return [" ".join(rng.choices(words, k=rng.randint(4, 22))).capitalize() + "." for _ in range(count)]

    for number in range(14):
        lines = sentences(2)
        (folder / f"{number}.txt").write_text("\n".join(lines))
        (folder / f"{number}.md").write_text(f"# {lines[0]}\n\n" + "\n\n## Part\n\n".join(sentences(2)))
        paragraphs = "".join(f"<p>{line}</p>" for line in sentences(2))
        page = f"<html><head><style>p {{ color: red }}</style></head><body>{paragraphs}</body></html>"
        (folder / f"{number}.html").write_text(page)
        pages = ["\n".join(line[:90] for line in sentences(1)) for _ in range(rng.randint(1, 4))]
        (folder / f"{number}.pdf").write_bytes(samples.pdf(pages))
        pictures = {f"word/media/image{n}.png": samples.png(10 * number + n) for n in range(number % 3)}
        body = "".join(samples.paragraph(line) for line in sentences(3))
        (folder / f"{number}.docx").write_bytes(samples.docx(body, pictures))
    for number in range(6):
        (folder / f"copy{number}.txt").write_bytes((folder / f"{number}.txt").read_bytes())


async def estimate_from_sample(mill: app.Gristmill, base_id: BaseId, folder: Path) -> CostEstimate:
    """An estimate of the folder that reads a third of its documents."""
    async with mill.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
    item = NewItem("directory", "mixed", str(folder), source={"path": str(folder), "local": True})
    readers = ReaderPool(1)
    estimator = Estimator(
        mill.db, mill.embedders, mill.sources, readers, image_costs(mill.settings), max_read=25
    )
    try:
        return await estimator.estimate_add(base, mill.embedders.get("priced"), [ItemToAdd(item, None)])
    finally:
        estimator.close()
        await readers.close()


async def test_mixed_documents_cost_what_the_dry_run_told(
    mill: app.Gristmill, http: httpx.AsyncClient, embedder: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mixed")
    write_documents(folder)
    base: str = (await http.post("/api/knowledge-bases", json={"name": "mixed"})).json()["id"]
    url = f"/api/knowledge-bases/{base}"
    note = {"type": "note", "content": "A sack of rye is ground within the hour."}
    items: dict[str, Any] = {"items": [{"type": "directory", "path": str(folder)}, note]}
    sampled = await estimate_from_sample(mill, BaseId(UUID(base)), folder)
    estimate = (await http.post(f"{url}/items", json={**items, "dryRun": True})).json()
    assert (estimate["documents"], estimate["readDocuments"], estimate["failed"]) == (77, 77, [])
    uploads = [("files", (path.name, path.read_bytes())) for path in sorted(folder.glob("1*.*"))]
    sent = await http.post(f"{url}/files", files=uploads, data={"dryRun": "true"})
    assert (sent.status_code, sent.json()["documents"], sent.json()["readDocuments"]) == (200, 25, 25)
    assert (await http.get(f"{url}/items")).json()["items"] == []
    async with mill.db.connection() as tx:
        assert (await tx.execute("select from blob")).rowcount == 0, "nothing is stored"
    assert embedder.requests == []
    (await http.post(f"{url}/items", json=items)).raise_for_status()

    async def is_done() -> bool:
        queue = (await http.get(f"{url}/queue")).json()
        async with mill.db.connection() as tx:
            waiting = await tx.execute("select from asset where state in ('waiting', 'asking')")
        return queue["queueSize"] + queue["processingCount"] + waiting.rowcount == 0

    await wait_until(is_done)
    usage = (await http.get("/api/usage")).json()
    spent = usage["totals"]
    images = sum(row["texts"] for row in usage["items"] if row["kind"] == "vision")
    assert spent["texts"] == sum(len(request.body["input"]) for request in embedder.requests)
    assert (estimate["images"], images) == (13, 13)
    for cost in (estimate["cost"], sampled.cost):
        assert cost is not None
        assert abs(cost - spent["cost"]) <= 0.1 * spent["cost"]
    assert (sampled.read_documents, sampled.is_exact) == (25, False)
    assert abs(sampled.tokens - spent["tokens"]) <= sampled.uncertainty * sampled.tokens
