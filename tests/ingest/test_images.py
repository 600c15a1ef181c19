"""Images inside documents: described once, searchable at their place, and never paid for twice because of us."""

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.ingest import ReaderPool
from gristmill.ingest.image_describers import VisionConfig, VisionDescriber
from gristmill.operations import assets, bases, delete
from gristmill.settings import Settings
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, serve
from tests.ingest.test_attachments import event_data, upload
from tests.operations.manual_worker import ManualWorker
from tests.readers import samples

pytestmark = pytest.mark.slow


@pytest.fixture
def vision_model() -> Generator[Endpoint]:
    """A vision model that says the same of every image."""
    with serve() as endpoint:
        endpoint.respond = lambda _: vision_response("A chart of emmer prices.")
        yield endpoint


def vision_response(text: str) -> CannedResponse:
    return CannedResponse(200, {"choices": [{"message": {"role": "assistant", "content": text}}]})


@pytest.fixture
async def worker(db: Database, settings: Settings, vision_model: Endpoint) -> AsyncGenerator[ManualWorker]:
    """A manual worker that reads all formats, and has images described by a vision model."""
    analyst = VisionDescriber(VisionConfig(vision_model.url, "seer", "k3y"))
    async with ReaderPool(1) as pool:
        yield await ManualWorker.start(db, settings, pool=pool, analyst=analyst)
    await analyst.close()


def document(text: str, *shades: int) -> bytes:
    """A Word document with so many images."""
    pictures = {f"word/media/image{shade}.png": samples.png(shade) for shade in shades}
    return samples.docx(samples.paragraph(text), {**pictures, "word/media/dot.png": samples.png(7, 8)})


async def chunks(worker: ManualWorker, base: Base) -> list[str]:
    rows = await worker.rows(
        "select c.text from chunk c join item i on i.id = c.item_id and i.live_version = c.version"
        " where c.set_id = %s order by c.index",
        base.id,
    )
    return [row[0] for row in rows]


async def states(worker: ManualWorker) -> list[str]:
    return [row[0] for row in await worker.rows("select state from asset order by item_id, version, hash")]


async def events(worker: ManualWorker) -> list[tuple[int, int]]:
    return [(data["assets"], data["failed"]) for data in await event_data(worker, "AllAssetsAnalyzed")]


async def test_what_an_image_shows_is_searchable_in_its_document(
    worker: ManualWorker, base: Base, vision_model: Endpoint
) -> None:
    """S3-07, S3-19, S3-21, S3-23: the text answers first, then the images; a dot is no image to describe. The base is ready to be
    evaluated when both can be found."""
    await upload(worker, base, "a.docx", document("Spelt today.", 1, 2))
    job = await worker.take("index_document")
    await worker.run(job)
    assert await worker.value("select status from item") == "completed"
    assert await chunks(worker, base) == ["Spelt today."]
    assert await event_data(worker, "DocumentIngestionCompleted") == []
    assert await event_data(worker, "KnowledgeSpaceAllDocumentsIngested") == []
    await worker.assert_healthy()
    await worker.work()
    assert await chunks(worker, base) == [
        "Spelt today.",
        "A chart of emmer prices.",
        "A chart of emmer prices.",
    ]
    assert len(vision_model.requests) == 2
    assert await events(worker) == [(2, 0)]
    assert len(await event_data(worker, "DocumentIngestionCompleted")) == 1
    assert await event_data(worker, "KnowledgeSpaceAllDocumentsIngested") == [{"completed": 1, "failed": 0}]
    await worker.assert_healthy()


async def test_an_equal_image_is_described_once(
    worker: ManualWorker, base: Base, vision_model: Endpoint
) -> None:
    """Promise 4: in another document, and in the next version, where what it says answers from the first moment."""
    await upload(worker, base, "a.docx", document("Spelt today.", 1))
    await worker.work()
    await upload(worker, base, "b.docx", document("Rye today.", 1))
    await worker.work()
    await upload(worker, base, "a.docx", document("Oats today.", 1))
    await worker.run(await worker.take("index_document"))
    assert "A chart of emmer prices." in await chunks(worker, base)
    await worker.work()
    assert len(vision_model.requests) == 1
    assert await events(worker) == [(1, 0)] * 3
    await worker.assert_healthy()


@pytest.mark.parametrize(("reuse", "requests"), [("any", 1), ("document", 2), ("force", 3)])
async def test_how_far_descriptions_are_used_again_is_the_bases(
    worker: ManualWorker, base: Base, vision_model: Endpoint, reuse: str, requests: int
) -> None:
    """One image in two documents, one of which gets a second version."""
    await bases.patch(worker.db, base.id, settings={"assetReuse": reuse})
    for name, text in (("a.docx", "Rye."), ("b.docx", "Oats."), ("b.docx", "Oats and rye.")):
        await upload(worker, base, name, document(text, 1))
        await worker.work()
    assert len(vision_model.requests) == requests
    await worker.assert_healthy()


async def test_a_request_that_may_have_been_charged_is_not_repeated_automatically(
    worker: ManualWorker, base: Base, vision_model: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C26: an attempt that ended between asking and writing; then it is requested."""
    monkeypatch.setattr(faults, "_armed", {})
    item = await upload(worker, base, "a.docx", document("Spelt.", 1))
    await worker.run(await worker.take("index_document"))
    faults.arm("assets.before_commit=fail")
    await worker.work()
    assert await states(worker) == ["asking"]
    await worker.make_due()
    await worker.work()
    assert len(vision_model.requests) == 1
    assert await states(worker) == ["failed"]
    assert await worker.value("select error_code from asset") == "vision_uncertain"
    assert await events(worker) == [(1, 1)]
    assert await assets.analyse(worker.db, item) is not None
    await worker.work()
    assert await states(worker) == ["described"]
    assert await events(worker) == [(1, 1)]  # once a version
    await worker.assert_healthy()


async def test_a_busy_model_is_asked_again_and_one_that_refuses_is_not(
    worker: ManualWorker, base: Base, vision_model: Endpoint
) -> None:
    def answer(requests: EmbeddingRequest) -> CannedResponse:
        return (
            CannedResponse(503, {})
            if len(vision_model.requests) == 1
            else CannedResponse(400, {"error": "no such picture"})
        )

    vision_model.respond = answer
    await upload(worker, base, "a.docx", document("Spelt.", 1))
    await worker.work()
    assert await states(worker) == ["waiting"]
    await worker.make_due()
    await worker.work()
    assert len(vision_model.requests) == 2
    assert await worker.value("select error_code from asset") == "vision_refused"
    assert await events(worker) == [(1, 1)]
    assert len(await event_data(worker, "KnowledgeSpaceAllDocumentsIngested")) == 1
    await worker.assert_healthy()


async def test_a_newer_version_or_a_deletion_ends_the_analysis(
    worker: ManualWorker, base: Base, vision_model: Endpoint
) -> None:
    """Delete wins: nothing is written for what is gone, and nothing is left of it."""
    await upload(worker, base, "a.docx", document("Spelt.", 1))
    await worker.run(await worker.take("index_document"))
    old = await worker.take("analyse_assets")
    item = await upload(worker, base, "a.docx", document("Rye.", 2))
    await worker.run(await worker.take("index_document"))
    await worker.run(old)
    assert await chunks(worker, base) == ["Rye."]
    assert vision_model.requests == []
    newer = await worker.take("analyse_assets")
    await delete.delete(worker.db, base.id, [item])
    await worker.run(newer)
    await worker.work()
    assert vision_model.requests == []
    for table in ("asset", "content_asset", "blob", "pending_blob_name", "chunk", "content"):
        assert await worker.value(f"select count(*) from {table}") == 0, table
    await worker.assert_healthy()


async def test_images_without_a_job_are_found(
    worker: ManualWorker, base: Base, vision_model: Endpoint
) -> None:
    """Promise 1: a job that was deleted is enqueued again."""
    await upload(worker, base, "a.docx", document("Spelt.", 1))
    await worker.run(await worker.take("index_document"))
    await worker.rows("delete from job returning 1")
    assert await worker.reconcile() == {"items": 1}
    await worker.work()
    assert await states(worker) == ["described"]


async def test_tables_are_assets_that_stand_in_the_content(worker: ManualWorker, base: Base) -> None:
    """S3-23."""
    item = await upload(worker, base, "a.xlsx", samples.xlsx({"Prices": [["corn", "price"], ["rye", "3"]]}))
    await worker.work()
    rows: list[Any] = await worker.rows(
        'select c.kind, substr(p.text, c.start::int + 1, (c."end" - c.start)::int) from content_asset c'
        " join item_version v on v.content_hash = c.content_hash join content_part p on p.content_hash = c.content_hash"
        " where v.item_id = %s",
        item,
    )
    assert [kind for kind, _ in rows] == ["table"]
    assert rows[0][1].startswith("| corn")
    assert "rye" in rows[0][1]
