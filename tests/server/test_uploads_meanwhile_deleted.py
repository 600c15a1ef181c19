"""Files that are uploaded while equal bytes of a deleted document leave the store."""

from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from gristmill import app
from tests.operations.interleave import pause_at
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow
BYTES = b"rye by the sack"

Upload = Callable[[httpx.AsyncClient, str], Coroutine[Any, Any, httpx.Response]]


async def upload_to_base(http: httpx.AsyncClient, base: str) -> httpx.Response:
    return await http.post(f"/api/knowledge-bases/{base}/files", files={"files": ("new.txt", BYTES)})


async def upload_for_openai(http: httpx.AsyncClient, base: str) -> httpx.Response:
    del base
    return await http.post("/v1/files", files={"file": ("new.txt", BYTES)}, data={"purpose": "assistants"})


@pytest.mark.parametrize(("upload", "status"), [(upload_to_base, 202), (upload_for_openai, 200)])
async def test_a_file_that_was_just_deleted_can_be_uploaded_again(
    mill: app.Gristmill, http: httpx.AsyncClient, upload: Upload, status: int
) -> None:
    """The upload finds the bytes stored, and the deletion removes them before an item uses them: they are stored again."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    old = (await upload_to_base(http, base)).json()["created"][0]["id"]

    async def blobs() -> list[tuple[str]]:
        async with mill.db.connection() as tx:
            return await (await tx.execute("select name from blob")).fetchall()

    async def is_completed() -> bool:
        return (await http.get(f"/api/knowledge-items/{old}")).json()["status"] == "completed"

    async def are_no_bytes_left() -> bool:
        return not await blobs()

    await wait_until(is_completed)
    async with pause_at("remove.bytes_gone", upload(http, base)) as uploading:
        response = await http.delete(f"/api/knowledge-items/{old}")
        assert response.is_success, response.text
        await wait_until(are_no_bytes_left)
    response = await uploading
    assert response.status_code == status, response.text
    assert len(await blobs()) == 1
