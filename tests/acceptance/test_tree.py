"""Trees through the API: folders, deletions with receipts, and reindexing without downtime."""

from pathlib import Path

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import (
    add_items,
    assert_healthy,
    assert_problem,
    item_titles,
    make_base,
    search,
    wait_for_job,
    wait_until_ended,
)
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """docs/{intro.md, deep/{a.md, b.md}, broken.bin, .hidden.md}."""
    top = tmp_path / "docs"
    (top / "deep").mkdir(parents=True)
    (top / "intro.md").write_text("Introduction to milling.")
    (top / "deep/a.md").write_text("Alpha grain.")
    (top / "deep/b.md").write_text("Beta grain.")
    (top / "broken.bin").write_bytes(b"\0\0")
    (top / ".hidden.md").write_text("Hidden grain.")
    return top


async def test_a_folder_becomes_a_tree_and_a_bad_file_fails_alone(
    http: httpx.AsyncClient, folder: Path
) -> None:
    """S1-09, S4-31, S4-57, C9, C10; S4-03."""
    base = await make_base(http)
    (root,) = (await add_items(http, base, {"type": "directory", "path": str(folder)}))["created"]
    assert root["status"] == "preparing"
    root = await wait_until_ended(http, root["id"])
    assert (root["status"], root["warnings"]) == ("completed", ["some_failed"])
    assert await item_titles(http, base) == ["docs"]
    assert await item_titles(http, base, parentId=root["id"]) == ["broken.bin", "deep", "intro.md"]
    assert await item_titles(http, base, parentId="*", status="failed") == ["broken.bin"]
    assert {hit["title"] for hit in await search(http, base, "grain", mode="text")} == {"a.md", "b.md"}
    await assert_healthy(http)


async def test_deleting_a_folder_hides_it_at_once_and_leaves_nothing(
    http: httpx.AsyncClient, folder: Path
) -> None:
    """S0-28, S0-32, S1-04, S1-12, promise 3; S4-40."""
    base = await make_base(http)
    (root,) = (await add_items(http, base, {"type": "directory", "path": str(folder)}))["created"]
    await wait_until_ended(http, root["id"])
    response = await http.delete(f"/api/knowledge-items/{root['id']}")
    assert response.status_code == 202
    assert response.json()["rootIds"] == [root["id"]]
    assert await item_titles(http, base, parentId="*") == []
    assert await search(http, base, "grain") == []
    assert_problem(await http.get(f"/api/knowledge-items/{root['id']}"), 404, "item_not_found")
    receipt = (await wait_for_job(http, response.json()["jobId"]))["result"]
    assert receipt == {"items": 6, "chunks": 3, "contents": 3, "blobs": 0}
    assert await item_titles(http, base, parentId="*", includeDeleting=True) == []
    await assert_healthy(http)


async def test_reindexing_a_folder_follows_its_source(http: httpx.AsyncClient, folder: Path) -> None:
    """S0-38, S0-44, C5b: existing files stay searchable throughout, removed files disappear, and new files appear."""
    base = await make_base(http)
    (root,) = (await add_items(http, base, {"type": "directory", "path": str(folder)}))["created"]
    await wait_until_ended(http, root["id"])
    (folder / "deep/a.md").write_text("Gamma grain.")
    (folder / "deep/b.md").unlink()
    (folder / "new.md").write_text("Delta grain.")
    response = await http.post(f"/api/knowledge-bases/{base}/items/reindex", json={"itemIds": [root["id"]]})
    assert response.status_code == 202, response.text
    assert (await wait_for_job(http, response.json()["jobId"]))["state"] == "done"
    assert (await wait_until_ended(http, root["id"]))["status"] == "completed"

    async def is_settled() -> bool:
        return await item_titles(http, base, parentId="*", includeDeleting=True) == [
            "a.md", "broken.bin", "deep", "docs", "intro.md", "new.md",
        ]  # fmt: skip

    await wait_until(is_settled)
    texts = {hit["text"] for hit in await search(http, base, "grain", mode="text")}
    assert texts == {"Gamma grain.", "Delta grain."}
    await assert_healthy(http)


async def test_a_failed_reindex_keeps_the_old_version_searchable_and_shows_the_error(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Promise 2; S4-50."""
    path = tmp_path / "a.md"
    path.write_text("Old rye.")
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "file", "path": str(path)}))["created"]
    await wait_until_ended(http, item["id"])
    path.write_bytes(b"\0\0\0")
    again = await http.post(f"/api/knowledge-items/{item['id']}/reprocess")
    await wait_for_job(http, again.json()["jobId"])
    item = await wait_until_ended(http, item["id"])
    assert (item["status"], item["error"]["code"], item["version"]) == ("failed", "unsupported_type", 1)
    assert [hit["text"] for hit in await search(http, base, "rye")] == ["Old rye."]
    path.unlink()
    assert_problem(await http.post(f"/api/knowledge-items/{item['id']}/reprocess"), 409, "source_unavailable")
    assert [hit["text"] for hit in await search(http, base, "rye")] == ["Old rye."]
    await assert_healthy(http)


@pytest.mark.parametrize(
    ("on_conflict", "expected"), [("rename", ["n", "n (2)", "n (3)"]), ("skip", ["n"]), ("replace", ["n"])]
)
async def test_a_duplicate_is_renamed_skipped_or_replaced(
    http: httpx.AsyncClient, on_conflict: str, expected: list[str]
) -> None:
    base = await make_base(http)
    (old,) = (await add_items(http, base, {"type": "note", "title": "n", "content": "old barley"}))["created"]
    await wait_until_ended(http, old["id"])
    notes = [{"type": "note", "title": "n", "content": f"new barley {n}"} for n in (1, 2)]
    response = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": notes, "onConflict": on_conflict}
    )
    result = response.json()
    for item in result["created"]:
        await wait_until_ended(http, item["id"])
    assert await item_titles(http, base) == expected
    texts = {hit["text"] for hit in await search(http, base, "barley", mode="text")}
    match on_conflict:
        case "rename":
            assert texts == {"old barley", "new barley 1", "new barley 2"}
        case "skip":
            assert texts == {"old barley"}
            assert [entry["itemId"] for entry in result["skipped"]] == [old["id"], old["id"]]
        case _:
            assert texts == {"new barley 2"}
            assert [item["id"] for item in result["created"]] == [old["id"]]
    await assert_healthy(http)


async def test_identical_uploads_share_a_blob_that_is_removed_with_the_last_item(
    http: httpx.AsyncClient,
) -> None:
    """S3-22, C6; S0-12."""
    base = await make_base(http)
    data = b"# Upload\n\nOats and more oats.\n"
    files = [("files", ("a.md", data, "text/markdown")), ("files", ("b.md", data, "text/markdown"))]
    response = await http.post(f"/api/knowledge-bases/{base}/files", files=files)
    assert response.status_code == 202, response.text
    first, second = response.json()["created"]
    for item in (first, second):
        assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
    original = await http.get(f"/api/knowledge-items/{first['id']}/original")
    assert original.content == data
    deletion = await http.delete(f"/api/knowledge-items/{first['id']}")
    job = await wait_for_job(http, deletion.json()["jobId"])
    assert job["result"] == {"items": 1, "chunks": 1, "contents": 0, "blobs": 0}
    assert len(await search(http, base, "oats")) == 1
    deletion = await http.delete(f"/api/knowledge-items/{second['id']}")
    job = await wait_for_job(http, deletion.json()["jobId"])
    assert job["result"] == {"items": 1, "chunks": 1, "contents": 1, "blobs": 1}
    await assert_healthy(http)


async def test_uploads_that_no_item_uses_are_removed(http: httpx.AsyncClient, mill: app.Gristmill) -> None:
    """Skipped, replaced and rejected uploads leave no blob behind."""

    async def upload(data: bytes, **form: str) -> httpx.Response:
        files = [("files", ("a.md", data, "text/markdown"))]
        return await http.post(f"/api/knowledge-bases/{base}/files", files=files, data=form)

    async def count_blobs() -> int:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select count(*) from blob")).fetchone()
        blobs = [blob async for blob in mill.sources.blobs.list()]
        assert row == (len(blobs),)
        return len(blobs)

    base = await make_base(http)
    (item,) = (await upload(b"First oats.")).json()["created"]
    await wait_until_ended(http, item["id"])
    assert len((await upload(b"Second oats.", onConflict="skip")).json()["skipped"]) == 1
    assert await count_blobs() == 1
    assert [
        again["id"] for again in (await upload(b"Third oats.", onConflict="replace")).json()["created"]
    ] == [item["id"]]
    assert await count_blobs() == 1
    assert_problem(await upload(b"Fourth oats.", parentId=item["id"]), 422, "not_a_container")
    assert await count_blobs() == 1
    await wait_until_ended(http, item["id"])
    assert [hit["text"] for hit in await search(http, base, "oats")] == ["Third oats."]


async def test_an_upload_that_is_too_large_is_rejected_alone(settings: Settings) -> None:
    """S4-56: nothing of it is stored."""
    small = settings.model_copy(update={"max_document_mb": 1})
    async with app.gristmill(small, work=True, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            base = await make_base(http)
            files = [
                ("files", (name, data, "text/markdown"))
                for name, data in (("large.md", b"x" * (2**20 + 1)), ("a.md", b"Oats."))
            ]
            answer = await http.post(f"/api/knowledge-bases/{base}/files", files=files)
            assert answer.status_code == 202, answer.text
            (refusal,) = answer.json()["failed"]
            assert (refusal["index"], refusal["path"], refusal["error"]["code"]) == (
                0,
                "large.md",
                "document_too_large",
            )
            (item,) = answer.json()["created"]
            assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
            assert [blob.size async for blob in mill.sources.blobs.list()] == [5]


async def test_chunks_are_listed_for_completed_items_only(http: httpx.AsyncClient, folder: Path) -> None:
    """S0-16 to S0-19."""
    base = await make_base(http)
    (root,) = (await add_items(http, base, {"type": "directory", "path": str(folder)}))["created"]
    await wait_until_ended(http, root["id"])
    chunks = (await http.get(f"/api/knowledge-items/{root['id']}/chunks")).json()["items"]
    assert sorted(chunk["text"] for chunk in chunks) == [
        "Alpha grain.",
        "Beta grain.",
        "Introduction to milling.",
    ]
    (broken,) = (
        await http.get(f"/api/knowledge-bases/{base}/items", params={"parentId": "*", "status": "failed"})
    ).json()["items"]
    assert_problem(await http.get(f"/api/knowledge-items/{broken['id']}/chunks"), 409, "item_not_completed")


async def test_a_deleted_base_is_gone_at_once_and_its_name_is_free(
    http: httpx.AsyncClient, folder: Path
) -> None:
    base = await make_base(http, "grain")
    await add_items(
        http, base, {"type": "directory", "path": str(folder)}, {"type": "note", "content": "rye"}
    )
    response = await http.delete(f"/api/knowledge-bases/{base}")
    assert response.status_code == 202
    assert_problem(await http.get(f"/api/knowledge-bases/{base}"), 404, "base_not_found")
    await make_base(http, "grain")
    assert (await wait_for_job(http, response.json()["jobId"]))["state"] == "done"
    await assert_healthy(http)


async def test_chunks_longer_than_the_embedder_takes_are_refused(http: httpx.AsyncClient) -> None:
    """When a base is created, and when its chunking is changed; the longest chunk that the embedder accepts is allowed."""
    url = "/api/knowledge-bases"
    embedders = (await http.get("/api/embedders")).json()["items"]
    longest = next(embedder["maxTokens"] for embedder in embedders if embedder["isDefault"])
    too_long, fitting = {"maxTokens": longest + 1}, {"maxTokens": longest}
    response = await http.post(url, json={"name": "long", "chunking": too_long})
    assert_problem(response, 422, "chunk_too_long")
    assert f"{longest:,}" in response.json()["detail"]
    assert [error["field"] for error in response.json()["errors"]] == ["chunking.maxTokens"]
    base = (await http.post(url, json={"name": "long", "chunking": fitting})).json()["id"]
    assert_problem(await http.patch(f"{url}/{base}", json={"chunking": too_long}), 422, "chunk_too_long")
    assert (await http.get(f"{url}/{base}")).json()["chunking"] == fitting
    assert (
        await http.patch(f"{url}/{base}", json={"name": "renamed", "chunking": fitting})
    ).status_code == 200


async def test_a_base_can_be_changed_while_its_jobs_continue(http: httpx.AsyncClient) -> None:
    """S4-10."""
    base = await make_base(http, "old")
    await make_base(http, "taken")
    response = await http.patch(
        f"/api/knowledge-bases/{base}", json={"name": "new", "chunking": {"maxTokens": 64}}
    )
    assert (response.json()["name"], response.json()["chunking"]) == ("new", {"maxTokens": 64})
    assert_problem(
        await http.patch(f"/api/knowledge-bases/{base}", json={"name": "taken"}), 409, "base_name_taken"
    )
    assert (await http.get(f"/api/knowledge-bases/{base}")).json()["name"] == "new"


async def test_uploads_can_have_an_access_list_and_metadata(http: httpx.AsyncClient) -> None:
    base = await make_base(http)
    form = {"acl": ["team:millers", "user_email:ada@example.com"], "metadata": '{"year": 1786}'}
    answer = await http.post(
        f"/api/knowledge-bases/{base}/files", files=[("files", ("a.txt", b"stone"))], data=form
    )
    (item,) = answer.json()["created"]
    assert (item["acl"], item["metadata"]) == (form["acl"], {"year": 1786})
    for wrong in ({"metadata": "no json"}, {"acl": ["anybody"]}, {"metadata": "[1]"}):
        rejection = await http.post(
            f"/api/knowledge-bases/{base}/files", files=[("files", ("b.txt", b"stone"))], data=wrong
        )
        assert rejection.status_code == 422, wrong
        assert rejection.json()["code"]
    assert len((await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]) == 1
