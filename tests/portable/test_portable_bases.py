"""A base goes to another installation as one archive: the same tree, texts and answers, and nothing embedded again."""

import io
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import arro3.core
import httpx
import pytest
from arro3.core import Array, DataType
from arro3.io import write_parquet
from pydantic import SecretStr

from gristmill import app, faults
from gristmill.embedding.embedder import Vectors
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base, search, wait_for_job, wait_until_ended
from tests.embedding.hashed import HashedEmbedder
from tests.portable import archives

OLD_ARCHIVE = Path(__file__).with_name("base-v1.gristmill")
QUERIES = ("millstones get hot", "flour of rye", "石磨 面粉", "the water wheel", "sack 7")
_arrow: Any = arro3.core


class CountingEmbedder(HashedEmbedder):
    """Counts the texts of documents that it embeds."""

    embedded = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.embedded += len(texts)
        return await super().embed_documents(texts)


@asynccontextmanager
async def other_installation(
    settings: Settings, url: str, tmp_path: Path, embedder: HashedEmbedder | None = None
) -> AsyncGenerator[tuple[httpx.AsyncClient, app.Gristmill]]:
    own = settings.model_copy(update={"data_dir": tmp_path / "other", "database_url": SecretStr(url)})
    async with app.gristmill(
        own, work=True, extra_embedders={"hashed": embedder or HashedEmbedder()}
    ) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client, mill


async def fill(http: httpx.AsyncClient, folder: Path) -> str:
    """A base with a folder, uploads, notes, metadata, an access list, a failed document and a pinned chunk."""
    base = await make_base(
        http,
        "The mill",
        description="Notes of a mill.",
        acl=["org:*"],
        settings={"synonyms": [["rye", "secale"]], "minScore": 0},
        chunking={"maxTokens": 64},
    )
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "bolter.md").write_text("The bolter sifts the flour of rye.")
    added = await add_items(http, base, {"type": "directory", "path": str(folder)})
    await wait_until_ended(http, added["created"][0]["id"])
    long = (
        "# Dressing\n\nThe millstones get hot when they run dry.\n\n"
        + "Dress them with a bill every week. " * 60
    )
    uploads = {"stones.md": long, "面粉.md": "# 面粉\n\n石磨磨出的面粉很细。", "empty.pdf": "%PDF-1.4 broken"}
    for name, text in uploads.items():
        response = await http.post(
            f"/api/knowledge-bases/{base}/files",
            files=[("files", (name, text.encode(), "application/octet-stream"))],
            data={"metadata": '{"year": 2026, "tags": ["stone"]}'},
        )
        assert response.status_code == 202, response.text
        await wait_until_ended(http, response.json()["created"][0]["id"])
    notes: list[dict[str, Any]] = [
        {"type": "note", "title": f"Sack {n}", "content": f"Sack {n} holds flour of rye."} for n in range(12)
    ]
    notes.append(
        {"type": "note", "title": "Wheel", "content": "The water wheel.", "acl": ["user_email:a@example.com"]}
    )
    added = await add_items(http, base, *notes)
    for item in added["created"]:
        await wait_until_ended(http, item["id"])
    item = added["created"][3]["id"]
    chunk = (await http.get(f"/api/knowledge-items/{item}/chunks")).json()["items"][0]["id"]
    assert (
        await http.patch(f"/api/knowledge-items/{item}/chunks/{chunk}", json={"mark": "pinned"})
    ).status_code == 200
    return base


async def export(http: httpx.AsyncClient, base: str) -> tuple[bytes, dict[str, Any]]:
    response = await http.post(f"/api/knowledge-bases/{base}/export")
    assert response.status_code == 202, response.text
    job = await wait_for_job(http, response.json()["jobId"])
    assert job["state"] == "done", job
    archive = (await http.get(f"/v1/files/{job['result']['fileId']}/content")).content
    assert len(archive) == job["result"]["bytes"]
    return archive, job["result"]


async def import_archive(http: httpx.AsyncClient, archive: bytes, **form: str) -> dict[str, Any]:
    response = await http.post(
        "/api/knowledge-bases/import", files={"file": ("base.gristmill", archive)}, data=form
    )
    assert response.status_code == 202, response.text
    return await wait_for_job(http, response.json()["jobId"])


async def answers(http: httpx.AsyncClient, base: str) -> list[list[tuple[Any, ...]]]:
    """What searches return, without ids."""
    return [
        [
            (
                hit["title"],
                hit["text"],
                hit["headings"],
                hit["source"],
                hit["highlights"],
                round(hit["score"], 5),
            )
            for hit in await search(http, base, query, limit=20)
        ]
        for query in QUERIES
    ]


_ITEM_FIELDS = (
    "type",
    "title",
    "status",
    "metadata",
    "acl",
    "chunkCount",
    "sizeBytes",
    "createdAt",
    "source",
    "document",
    "error",
)


async def tree(http: httpx.AsyncClient, base: str) -> list[dict[str, Any]]:
    """The items of a base in their order, with the titles of their folders, texts and bytes."""
    items = (await http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 500})).json()["items"]
    titles = {item["id"]: item["title"] for item in items}
    shown: list[dict[str, Any]] = []
    for item in items:
        row = {name: item.get(name) for name in _ITEM_FIELDS}
        row["parent"] = titles.get(item["parentId"])
        if item["type"] != "directory":
            row["content"] = (await http.get(f"/api/knowledge-items/{item['id']}/content")).text.replace(
                item["id"], ""
            )
            if item["type"] == "file":
                row["original"] = (await http.get(f"/api/knowledge-items/{item['id']}/original")).content
        shown.append(row)
    return shown


async def test_an_imported_base_answers_as_the_exported_one_and_nothing_is_embedded_again(
    http: httpx.AsyncClient, settings: Settings, other_database_url: str, tmp_path: Path
) -> None:
    base = await fill(http, tmp_path / "folder")
    archive, result = await export(http, base)
    assert (result["items"], result["originals"]) == (19, 3)
    embedder = CountingEmbedder()
    async with other_installation(settings, other_database_url, tmp_path, embedder) as (other, mill):
        job = await import_archive(other, archive)
        assert job["state"] == "done", job
        imported = job["result"]["baseId"]
        assert embedder.embedded == 0
        assert await answers(other, imported) == await answers(http, base)
        assert await tree(other, imported) == await tree(http, base)
        before, after = [
            (await client.get(f"/api/knowledge-bases/{each}")).json()
            for client, each in ((http, base), (other, imported))
        ]
        for name in (
            "name",
            "description",
            "acl",
            "settings",
            "chunking",
            "embedder",
            "itemCounts",
            "status",
        ):
            assert before[name] == after[name], name
        # The pinned chunk comes first.
        pinned = (await search(other, imported, "flour of rye"))[0]["title"]
        assert pinned == "Sack 3"
        # A second one needs another name; with new vectors every text is embedded once; nobody but admins sees it if so wished.
        assert (await import_archive(other, archive))["errors"][-1]["code"] == "base_name_taken"
        embedder.embedded = 0  # searches embed a few texts to scale their scores
        again = (await import_archive(other, archive, name="Again", reEmbed="true", access="admins"))[
            "result"
        ]
        assert embedder.embedded == 0, "the vectors of equal texts are there already"
        assert await answers(other, again["baseId"]) == await answers(http, base)
        assert (await other.get(f"/api/knowledge-bases/{again['baseId']}")).json()["acl"] == []
        await assert_healthy(other)
        embedder.embedded = 0
        # What was imported is a base as any other: documents can be indexed again and deleted.
        items = (await other.get(f"/api/knowledge-bases/{imported}/items", params={"limit": 500})).json()[
            "items"
        ]
        item = next(item for item in items if item["title"] == "stones.md")
        assert (await other.post(f"/api/knowledge-items/{item['id']}/reprocess")).status_code == 202
        assert (await wait_until_ended(other, item["id"]))["status"] == "completed"
        assert embedder.embedded == 0
        for each in (imported, again["baseId"]):
            job = (await other.delete(f"/api/knowledge-bases/{each}")).json()
            assert (await wait_for_job(other, job["jobId"]))["state"] == "done"
        await assert_healthy(other)
        async with mill.db.connection() as tx:
            left = await (
                await tx.execute("select (select count(*) from content), (select count(*) from blob)")
            ).fetchone()
        assert left == (0, 0)


async def test_an_archive_of_the_first_format_is_imported(http: httpx.AsyncClient) -> None:
    """The stored file was written by an earlier release: what it lacks by now is empty, the rest is there."""
    job = await import_archive(http, OLD_ARCHIVE.read_bytes())
    assert job["state"] == "done", job
    assert (job["result"]["formatVersion"], job["result"]["documents"]) == (1, 16)
    hits = await search(http, job["result"]["baseId"], "millstones get hot")
    assert hits[0]["title"] == "stones.md"
    await assert_healthy(http)


def _bomb(archive: bytes) -> bytes:
    """Rows that take a hundred thousand times their size."""
    count = 100_000
    text = Array(["x" * 2000] * count, DataType.utf8())
    batch = _arrow.Table.from_pydict(
        {
            "content": Array(["0" * 64] * count, DataType.utf8()),
            "start": Array([0] * count, DataType.int64()),
            "text": text,
            "page": Array([None] * count, DataType.int64()),
            "boxes": Array([None] * count, DataType.binary()),
        }
    )
    target = io.BytesIO()
    write_parquet(batch, target, compression="zstd(3)")
    return archives.replace_member(archive, "tables/content_parts-00001.parquet", target.getvalue())


def _hostile(archive: bytes) -> dict[str, tuple[bytes, str]]:
    """Archives that must be refused, and why."""
    members = archives.unpack(archive)
    name = next(name for name in members if name.startswith("originals/"))
    chunks = members["tables/chunks-00001.parquet"]
    damaged = archive.replace(members[name][:20], b"\0" * len(members[name][:20]))
    assert damaged != archive

    def later(manifest: dict[str, Any]) -> None:
        manifest["version"] = 99

    def other_base(manifest: dict[str, Any]) -> None:
        manifest["base"]["embedder_identity"] = "another/embedder"

    def malformed(manifest: dict[str, Any]) -> None:
        manifest["base"]["dimensions"] = "many"

    return {
        "no zip": (b"not an archive", "archive_damaged"),
        "truncated": (archive[: len(archive) // 2], "archive_damaged"),
        "damaged": (damaged, "archive_damaged"),
        "another zip": (archives.pack({"manifest.json": b"{}"}), "not_an_archive"),
        "later format": (archives.change_manifest(archive, later), "archive_format"),
        "malformed": (archives.change_manifest(archive, malformed), "archive_damaged"),
        "other embedder": (archives.change_manifest(archive, other_base), "embedder_differs"),
        "a path": (archives.replace_member(archive, "../../outside", b"x"), "archive_damaged"),
        "not in the manifest": (archives.pack({**members, "originals/" + "0" * 64: b"x"}), "archive_damaged"),
        "zip bomb": (
            archives.replace_member(
                archive, "tables/chunks-00002.parquet", b"\0" * (80 << 20), compress=True
            ),
            "archive_damaged",
        ),
        "many rows": (_bomb(archive), "archive_damaged"),
        "cut table": (
            archives.replace_member(archive, "tables/chunks-00001.parquet", chunks[:-9]),
            "archive_damaged",
        ),
    }


async def test_a_hostile_or_damaged_archive_is_refused_with_nothing_changed(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    for case, (archive, code) in _hostile(OLD_ARCHIVE.read_bytes()).items():
        job = await import_archive(http, archive)
        assert (job["state"], job["errors"][-1]["code"]) == ("dead", code), (case, job["errors"])
        assert job["attempt"] == 1, case
    assert (await http.get("/api/knowledge-bases")).json()["items"] == []
    async with mill.db.connection() as tx:
        counts = await (
            await tx.execute(
                "select (select count(*) from base), (select count(*) from item), (select count(*) from content)"
            )
        ).fetchone()
    assert counts == (0, 0, 0)


async def test_an_import_that_ends_early_leaves_nothing_to_see_and_a_job_that_removes_it(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """Ended before its last transaction, as by kill -9: no request shows the base, its removal waits, and a second attempt with
    another base succeeds; then only that one is there."""
    with faults.watch("import.filled", hold=True) as reveal:
        response = await http.post(
            "/api/knowledge-bases/import", files={"file": ("a.gristmill", OLD_ARCHIVE.read_bytes())}
        )
        await reveal.passed.wait()
        assert (await http.get("/api/knowledge-bases")).json()["items"] == []
        assert (await http.post("/api/search", json={"query": "millstones"})).json()["hits"] == []
        async with mill.db.connection() as tx:
            hidden = await (
                await tx.execute(
                    "select b.status, j.state from base b join job j on j.subject = b.id and j.kind = 'delete_base'"
                )
            ).fetchall()
            assert hidden == [("deleting", "delayed")]
            # The lease is taken away, as from a worker that has died.
            await tx.execute("update job set lease = gen_random_uuid() where kind = 'import_base'")
        await assert_healthy(http)
    job_id = response.json()["jobId"]
    job = await wait_for_job(http, job_id)
    assert job["state"] == "done", job
    (base,) = (await http.get("/api/knowledge-bases")).json()["items"]
    assert base["id"] == job["result"]["baseId"]
    await assert_healthy(http)


@pytest.mark.skipif("WRITE_ARCHIVE" not in os.environ, reason="writes the stored archive")
async def test_write_the_stored_archive(http: httpx.AsyncClient, tmp_path: Path) -> None:
    archive, _ = await export(http, await fill(http, tmp_path / "folder"))
    OLD_ARCHIVE.write_bytes(archives.to_version_1(archive))
