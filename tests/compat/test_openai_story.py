"""The official OpenAI client, as a program uses it: every method of files and vector stores, against `gristmill serve`."""

from collections.abc import Generator
from pathlib import Path

import httpx
import openai
import pytest

from tests.compat.openai_clients import sync_client
from tests.gristmill_process import environment, run_serve

pytestmark = pytest.mark.slow

WHEAT = b"# Wheat\n\nWheat is ground into flour between two stones."
RYE = b"# Rye\n\nRye makes a dark and heavy bread."


@pytest.fixture
def url(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path, quick_embedder: dict[str, str]
) -> Generator[str]:
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    with run_serve(env, log=tmp_path / "log") as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Generator[openai.OpenAI]:
    with sync_client(url) as client:
        yield client


def test_files_are_uploaded_listed_read_and_deleted(client: openai.OpenAI) -> None:
    wheat = client.files.create(file=("wheat.md", WHEAT), purpose="assistants")
    assert (wheat.object, wheat.bytes, wheat.filename) == ("file", len(WHEAT), "wheat.md")
    assert (wheat.purpose, wheat.status, wheat.expires_at) == ("assistants", "processed", None)
    assert wheat.id.startswith("file-")
    rye = client.files.create(
        file=("rye.md", RYE), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert rye.expires_at == rye.created_at + 3600
    assert client.files.retrieve(wheat.id) == wheat
    assert client.files.wait_for_processing(wheat.id) == wheat
    assert client.files.content(wheat.id).read() == WHEAT
    assert [file.id for file in client.files.list()] == [rye.id, wheat.id]
    assert [file.id for file in client.files.list(order="asc", limit=1)] == [wheat.id, rye.id]
    assert [file.id for file in client.files.list(purpose="assistants")] == [wheat.id]
    deletion = client.files.delete(wheat.id)
    assert (deletion.id, deletion.deleted, deletion.object) == (wheat.id, True, "file")
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(wheat.id)
    with pytest.raises(openai.NotFoundError):
        client.files.content(wheat.id)


def test_a_store_lives_from_creation_to_deletion(client: openai.OpenAI) -> None:
    wheat = client.files.create(file=("wheat.md", WHEAT), purpose="assistants")
    store = client.vector_stores.create(
        name="grain",
        description="about grain",
        file_ids=[wheat.id],
        metadata={"team": "millers"},
        expires_after={"anchor": "last_active_at", "days": 7},
    )
    assert (store.object, store.name, store.metadata) == ("vector_store", "grain", {"team": "millers"})
    assert store.expires_after is not None
    assert store.expires_after.days == 7
    assert store.last_active_at is not None
    assert store.expires_at == store.last_active_at + 7 * 86400
    assert store.file_counts.total == 1
    file = client.vector_stores.files.poll(wheat.id, vector_store_id=store.id)
    assert file.status == "completed"
    store = client.vector_stores.retrieve(store.id)
    assert (store.status, store.file_counts.completed, store.usage_bytes) == ("completed", 1, len(WHEAT))
    changed = client.vector_stores.update(
        store.id, name="all grain", metadata={"team": "bakers"}, expires_after=None
    )
    assert (changed.name, changed.metadata, changed.expires_after) == ("all grain", {"team": "bakers"}, None)
    other = client.vector_stores.create(name="all grain")
    assert other.name == "all grain (2)"
    unnamed = client.vector_stores.create()
    assert unnamed.name
    assert [entry.id for entry in client.vector_stores.list(limit=1)] == [unnamed.id, other.id, store.id]
    before = client.vector_stores.list(order="asc", before=unnamed.id, limit=1)
    assert ([entry.id for entry in before.data], before.has_more) == ([other.id], True)
    deletion = client.vector_stores.delete(store.id)
    assert (deletion.deleted, deletion.object) == (True, "vector_store.deleted")
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.retrieve(store.id)
    assert client.files.retrieve(wheat.id) == wheat


def test_store_files_have_attributes_and_chunking_of_their_own(client: openai.OpenAI) -> None:
    """One file is in two stores with different attributes; removing it from one leaves the other and the file."""
    wheat = client.files.create(file=("wheat.md", WHEAT), purpose="assistants")
    ours, theirs = client.vector_stores.create(name="ours"), client.vector_stores.create(name="theirs")
    first = client.vector_stores.files.create_and_poll(
        wheat.id, vector_store_id=ours.id, attributes={"year": 2020, "dark": False}
    )
    assert (first.id, first.status, first.last_error) == (wheat.id, "completed", None)
    assert (first.vector_store_id, first.usage_bytes) == (ours.id, len(WHEAT))
    second = client.vector_stores.files.create_and_poll(
        wheat.id,
        vector_store_id=theirs.id,
        attributes={"year": 1999},
        chunking_strategy={
            "type": "static",
            "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20},
        },
    )
    assert second.chunking_strategy is not None
    assert second.chunking_strategy.to_dict() == {
        "type": "static",
        "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20},
    }
    changed = client.vector_stores.files.update(
        wheat.id, vector_store_id=ours.id, attributes={"place": "Essen"}
    )
    assert changed.attributes == {"place": "Essen"}
    file = client.vector_stores.files.retrieve(wheat.id, vector_store_id=theirs.id)
    assert file.attributes == {"year": 1999}
    content = list(client.vector_stores.files.content(wheat.id, vector_store_id=ours.id))
    assert "".join(part.text or "" for part in content).strip() == WHEAT.decode()
    deletion = client.vector_stores.files.delete(wheat.id, vector_store_id=ours.id)
    assert (deletion.id, deletion.deleted, deletion.object) == (wheat.id, True, "vector_store.file.deleted")
    assert client.vector_stores.files.list(ours.id).data == []
    assert [file.id for file in client.vector_stores.files.list(theirs.id)] == [wheat.id]
    assert client.files.retrieve(wheat.id).id == wheat.id
    client.files.delete(wheat.id)
    assert client.vector_stores.files.list(theirs.id).data == []


def test_a_search_has_scores_attributes_filters_and_a_threshold(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="grain")
    for name, text, year in (("wheat.md", WHEAT, 2020), ("rye.md", RYE, 1990)):
        file = client.files.create(file=(name, text), purpose="assistants")
        client.vector_stores.files.create_and_poll(
            file.id, vector_store_id=store.id, attributes={"year": year, "grain": name[:-3]}
        )
    results = client.vector_stores.search(store.id, query="heavy bread").data
    assert results[0].filename == "rye.md"
    assert results[0].attributes == {"year": 1990, "grain": "rye"}
    assert results[0].content[0].type == "text"
    assert "dark and heavy" in results[0].content[0].text
    assert all(0 <= result.score <= 1 for result in results)
    newer = client.vector_stores.search(
        store.id, query=["bread", "flour"], filters={"type": "gt", "key": "year", "value": 2000}
    )
    assert {result.filename for result in newer} == {"wheat.md"}
    nested = client.vector_stores.search(
        store.id,
        query="bread",
        rewrite_query=True,
        max_num_results=1,
        filters={
            "type": "and",
            "filters": [
                {"type": "in", "key": "grain", "value": ["rye", "oats"]},
                {"type": "or", "filters": [{"type": "lt", "key": "year", "value": 2000}]},
            ],
        },
    )
    assert [result.filename for result in nested] == ["rye.md"]
    strict = client.vector_stores.search(
        store.id, query="bread", ranking_options={"ranker": "auto", "score_threshold": 1.0}
    )
    assert all(result.score == 1 for result in strict)
    with pytest.raises(openai.BadRequestError) as refused:
        client.vector_stores.search(
            store.id, query="bread", filters={"type": "gt", "key": "year", "value": ["a"]}
        )
    assert refused.value.code == "invalid_request"


def test_five_hundred_files_are_put_into_a_store_at_once(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="many")
    batch = client.vector_stores.file_batches.upload_and_poll(
        store.id, files=[(f"{n}.txt", b"grain number %d" % n) for n in range(500)], max_concurrency=4
    )
    assert (batch.status, batch.file_counts.completed, batch.file_counts.total) == ("completed", 500, 500)
    assert batch.id.startswith("vsfb_")
    assert client.vector_stores.retrieve(store.id).file_counts.completed == 500
    names = {
        file.id
        for file in client.vector_stores.file_batches.list_files(
            batch.id, vector_store_id=store.id, limit=100
        )
    }
    assert len(names) == 500
    assert names == {file.id for file in client.vector_stores.files.list(store.id, limit=100, order="asc")}


def test_a_file_that_can_not_be_read_fails_with_a_reason(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="broken")
    file = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("broken.bin", bytes(range(256)) * 20)
    )
    assert file.status == "failed"
    assert file.last_error is not None
    assert file.last_error.code in ("unsupported_file", "invalid_file")
    assert client.vector_stores.retrieve(store.id).file_counts.failed == 1
    listed = client.vector_stores.files.list(store.id, filter="failed").data
    assert [entry.id for entry in listed] == [file.id]
    assert client.vector_stores.files.list(store.id, filter="completed").data == []


def test_both_apis_show_the_same_data(client: openai.OpenAI, url: str) -> None:
    """A base is a store and an item a store file, whichever API made them."""
    with httpx.Client(base_url=f"{url}/api", trust_env=False) as http:
        base = http.post("/knowledge-bases", json={"name": "notes"}).json()["id"]
        note = {"type": "note", "title": "Oats", "content": "Oats for horses.", "metadata": {"year": 1}}
        item = http.post(f"/knowledge-bases/{base}/items", json={"items": [note]}).json()["created"][0]["id"]
        (store,) = client.vector_stores.list().data
        assert store.name == "notes"
        (listed,) = client.vector_stores.files.list(store.id).data
        file = client.vector_stores.files.poll(listed.id, vector_store_id=store.id)
        assert (file.status, file.attributes) == ("completed", {"year": 1})
        (result,) = client.vector_stores.search(store.id, query="horses").data
        assert (result.file_id, result.filename) == (file.id, "Oats")
        assert client.files.retrieve(file.id).filename == "Oats"
        assert client.files.content(file.id).read() == b"Oats for horses."
        upload = client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=("rye.md", RYE), attributes={"year": 2}
        )
        items = http.get(f"/knowledge-bases/{base}/items").json()["items"]
        assert [entry["title"] for entry in items] == ["Oats", "rye.md"]
        assert items[1]["metadata"] == {"year": 2}
        client.vector_stores.files.delete(file.id, vector_store_id=store.id)
        assert http.get(f"/knowledge-items/{item}").status_code == 404
        http.delete(f"/knowledge-items/{items[1]['id']}")
        with pytest.raises(openai.NotFoundError):
            client.vector_stores.files.retrieve(upload.id, vector_store_id=store.id)


def test_errors_have_the_shape_that_the_client_reads(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.vector_stores.retrieve("vs_0")
    assert missing.value.body == {
        "message": "There is no vector store 'vs_0'.",
        "type": "not_found_error",
        "param": None,
        "code": "base_not_found",
    }
    with pytest.raises(openai.BadRequestError) as unknown:
        client.vector_stores.create(name="x", extra_body={"colour": "red"})
    assert (unknown.value.code, unknown.value.param) == ("invalid_request", "colour")
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.create(name="x", file_ids=["file-" + "0" * 32])
    assert client.vector_stores.list().data == []
    with sync_client(url, "gm_revoked") as stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.files.list()
    assert refused.value.code == "bad_key"
