"""kill -9 between the blob store and the table: no bytes of an item are lost, and no unused bytes remain."""

import contextlib
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.gristmill_process import ServeProcess, environment, run_serve
from tests.wait_until import wait_until

RYE = b"Rye by the sack."


def upload(server: ServeProcess, base: str) -> httpx.Response:
    with server.client() as http:
        files = [("files", ("rye.md", RYE, "text/markdown"))]
        return http.post(f"/api/knowledge-bases/{base}/files", files=files)


def stored_names(data: Path) -> list[str]:
    """The names in the store, and `tmp` for each temporary."""
    files = (path.relative_to(data / "blobs") for path in (data / "blobs").rglob("*") if path.is_file())
    return sorted("tmp" if path.parts[0] == "tmp" else "".join(path.parts) for path in files)


@pytest.mark.parametrize("point", ["uploads.announced", "uploads.stored"])
async def test_an_upload_that_was_killed_can_be_repeated(
    point: str, database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """Promise 3: the table lists everything that is in the store afterwards."""
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    data = tmp_path / "data"
    with run_serve(
        environment(data, cache_dir, faults=f"{point}=kill", **settings), log=tmp_path / "log"
    ) as server:
        with server.client() as http:
            base = http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]
        with contextlib.suppress(httpx.HTTPError):
            upload(server, base)
        assert server.process.wait(120) == -9
    (leftover,) = stored_names(data)
    with psycopg.connect(database_url, autocommit=True) as connection:
        names = connection.execute("select name from pending_blob_name where not deleting").fetchall()
        assert leftover in ("tmp", names[0][0])
        connection.execute("update pending_blob_name set due_at = clock_now() - interval '1 second'")
        with run_serve(environment(data, cache_dir, **settings), log=tmp_path / "log") as server:
            (item,) = upload(server, base).json()["created"]
            with server.client() as http:
                assert http.get(f"/api/knowledge-items/{item['id']}/original").content == RYE
            assert server.stop() == 0
        blob_names = connection.execute("select name from blob").fetchall()
        assert connection.execute("select count(*) from pending_blob_name").fetchone() == (0,)
    assert stored_names(data) == sorted(["tmp"] * (leftover == "tmp") + [blob_names[0][0]])


@pytest.mark.parametrize("point", ["remove.names_found", "remove.bytes_gone"])
async def test_a_removal_that_was_killed_is_finished_and_keeps_new_uploads(
    point: str, database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """Promise 3: the bytes are removed; equal bytes uploaded meanwhile stay."""
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    data = tmp_path / "data"
    # The server itself passes this point once when it starts.
    dying = environment(data, cache_dir, faults=f"{point}=kill@2", **settings)
    with run_serve(dying, log=tmp_path / "log") as server, server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]
        (item,) = upload(server, base).json()["created"]
        with contextlib.suppress(httpx.HTTPError):
            http.delete(f"/api/knowledge-items/{item['id']}")
        assert server.process.wait(120) == -9
    with (
        run_serve(environment(data, cache_dir, **settings), log=tmp_path / "log") as server,
        server.client() as http,
    ):
        (item,) = upload(server, base).json()["created"]

        async def is_removed() -> bool:
            jobs = http.get("/api/jobs", params={"kind": "delete_subtree"}).json()["items"]
            return [job["state"] for job in jobs] == ["done"]

        await wait_until(is_removed)
        assert http.get(f"/api/knowledge-items/{item['id']}/original").content == RYE
        assert http.get("/api/health/invariants").json() == {"violations": []}
        assert server.stop() == 0
    with psycopg.connect(database_url) as connection:
        blob_names = connection.execute("select name from blob").fetchall()
        assert connection.execute("select count(*) from pending_blob_name").fetchone() == (0,)
    assert stored_names(data) == [blob_names[0][0]]
