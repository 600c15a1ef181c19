"""kill -9 while files are put into stores or deleted: the request can be repeated, and nothing is half there."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import openai
import psycopg

from tests.compat.openai_clients import sync_client
from tests.gristmill_process import environment, run_serve

WHEAT = ("wheat.md", b"Wheat is ground into flour.")


def killed_request(
    env: dict[str, str], log: Path, prepare: Callable[[openai.OpenAI], Callable[[], object]]
) -> None:
    """Run a server that is killed by the request that `prepare` returns."""
    with run_serve(env, log=log) as server, sync_client(server.url) as client:
        request = prepare(client)
        with contextlib.suppress(openai.APIConnectionError):
            request()
        assert server.process.wait(120) == -9


def test_a_batch_that_was_killed_is_not_there_and_can_be_repeated(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    data, log = tmp_path / "data", tmp_path / "log"
    ids: list[str] = []

    def prepare(client: openai.OpenAI) -> Callable[[], object]:
        store = client.vector_stores.create(name="grain")
        ids.extend([store.id, client.files.create(file=WHEAT, purpose="assistants").id])
        return lambda: client.vector_stores.file_batches.create(store.id, file_ids=ids[1:])

    killed_request(environment(data, cache_dir, faults="files.batch_recorded=kill", **settings), log, prepare)
    with (
        run_serve(environment(data, cache_dir, **settings), log=log) as server,
        sync_client(server.url) as client,
    ):
        store, file = ids
        assert client.vector_stores.files.list(store).data == []
        batch = client.vector_stores.file_batches.create_and_poll(store, file_ids=[file])
        assert (batch.status, batch.file_counts.completed) == ("completed", 1)
        with server.client() as http:
            assert http.get("/api/health/invariants").json() == {"violations": []}
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from file_batch").fetchone() == (1,)


def test_a_deletion_that_was_killed_can_be_repeated_in_every_store(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    data, log = tmp_path / "data", tmp_path / "log"
    ids: list[str] = []

    def prepare(client: openai.OpenAI) -> Callable[[], object]:
        file = client.files.create(file=WHEAT, purpose="assistants")
        ids.append(file.id)
        for name in ("ours", "theirs"):
            store = client.vector_stores.create(name=name, file_ids=[file.id])
            client.vector_stores.files.poll(file.id, vector_store_id=store.id)
            ids.append(store.id)
        return lambda: client.files.delete(file.id)

    dying = environment(data, cache_dir, faults="files.removed_from_base=kill", **settings)
    killed_request(dying, log, prepare)
    with (
        run_serve(environment(data, cache_dir, **settings), log=log) as server,
        sync_client(server.url) as client,
    ):
        file, *stores = ids
        counts = [len(client.vector_stores.files.list(store).data) for store in stores]
        assert sorted(counts) == [0, 1]
        assert client.files.content(file).read() == WHEAT[1]
        client.files.delete(file)
        assert [client.vector_stores.files.list(store).data for store in stores] == [[], []]
        assert client.files.list().data == []
        with server.client() as http:
            assert http.get("/api/health/invariants").json() == {"violations": []}
