"""Stored embedders in the processes that use them: changes are seen at the next use, limits are the organisation's."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders, StoredEmbedder
from gristmill.embedding.stored import EmbedderGone
from gristmill.errors import Permanent
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.operations.embedders import EmbedderAdmin
from gristmill.settings import EmbedderSettings, Settings
from gristmill.vault import SecretUnreadable, Vault
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, hashed_vectors
from tests.gristmill_process import environment, run_serve
from tests.server.clients import new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(None, tmp_path)


@pytest.fixture
async def embedders(db: Database, vault: Vault, tmp_path: Path) -> AsyncGenerator[Embedders]:
    registry = Embedders(Settings(data_dir=tmp_path), tmp_path, db=db, vault=vault)
    yield registry
    await registry.close()


def admin(embedders: Embedders, db: Database, vault: Vault, org: OrgId = LOCAL_ORG) -> EmbedderAdmin:
    return EmbedderAdmin(db, vault, embedders, org, is_local_user=True, allow_private=False)


def config(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    return {"url": endpoint.url, "model": "hashed", "dimensions": 64, **fields}


async def find(db: Database, embedders: Embedders, name: str = "quick", org: OrgId = LOCAL_ORG) -> Embedder:
    async with db.connection() as tx:
        return await embedders.find(tx, name, org)


def sent_key(request: EmbeddingRequest) -> str:
    return request.headers["Authorization"].removeprefix("Bearer ")


async def test_another_process_uses_a_change_at_its_next_request(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint, tmp_path: Path
) -> None:
    """Two registries are two processes: nothing but the database connects them."""
    other = Embedders(Settings(data_dir=tmp_path), tmp_path, db=db, vault=vault)
    change = admin(embedders, db, vault)
    await change.create("quick", "openai", config(endpoint), "old")
    held = await find(db, other)
    await held.embed_query("one")
    await change.change("quick", {"api_key": "new"})
    await held.embed_query("two")
    await held.embed_documents(["three"])
    assert [sent_key(request) for request in endpoint.requests] == ["old", "new", "new"]
    again = await find(db, other)
    assert again == held
    assert hash(again) == hash(held), "documents of both share batches"
    await other.close()


async def test_a_request_that_meets_a_rotated_key_is_sent_again(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    """The provider revokes the old key while a request with it is under way."""
    change = admin(embedders, db, vault)
    await change.create("quick", "openai", config(endpoint), "old")
    has_arrived, is_rotated = threading.Event(), threading.Event()

    def respond(request: EmbeddingRequest) -> CannedResponse:
        if sent_key(request) == "new":
            return hashed_vectors(request)
        has_arrived.set()
        is_rotated.wait(30)
        return CannedResponse(401, {"error": "this key was revoked"})

    endpoint.respond = respond
    held = await find(db, embedders)
    call = asyncio.create_task(held.embed_documents(["one", "two"]))
    assert await asyncio.to_thread(has_arrived.wait, 30)
    await change.change("quick", {"api_key": "new"})
    is_rotated.set()
    assert (await call).shape == (2, 64)
    assert [sent_key(request) for request in endpoint.requests] == ["old", "new"]


async def test_a_wrong_key_is_an_error_and_not_a_loop(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    await admin(embedders, db, vault).create("quick", "openai", config(endpoint), "wrong")
    endpoint.always_respond(401, {"error": "wrong key"})
    with pytest.raises(Permanent) as error:
        await (await find(db, embedders)).embed_query("one")
    assert error.value.code == "embedder_unauthorized"
    assert len(endpoint.requests) == 1


async def test_one_that_was_deleted_or_replaced_embeds_nothing_more(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    """Vectors of a new embedder of the same name would be mixed with those of the old one."""
    change = admin(embedders, db, vault)
    await change.create("quick", "openai", config(endpoint), None)
    held = await find(db, embedders)
    await held.embed_query("one")
    await change.delete("quick")
    with pytest.raises(EmbedderGone):
        await held.embed_query("two")
    await change.create("quick", "openai", config(endpoint, query_prefix="q: "), None)
    with pytest.raises(EmbedderGone):
        await held.embed_documents(["three"])
    assert (await find(db, embedders)).identity != held.identity
    assert len(endpoint.requests) == 1


async def test_limits_are_shared_within_an_organisation_and_by_no_other(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    """Two embedders of one address and key get the lowest limits; another organisation can't slow them down."""
    ours, theirs = await new_organisation(db, "ours"), await new_organisation(db, "theirs")
    await admin(embedders, db, vault, ours).create("a", "openai", config(endpoint), "k")
    await admin(embedders, db, vault, ours).create("b", "openai", config(endpoint, concurrency=2), "k")
    await admin(embedders, db, vault, theirs).create("c", "openai", config(endpoint, concurrency=1), "k")
    for name, org in (("a", ours), ("b", ours), ("c", theirs)):
        await (await find(db, embedders, name, org)).embed_query("one")
    async with db.connection() as tx:
        rows = await (await tx.execute("select key, concurrency from provider order by 2")).fetchall()
    assert [concurrency for _, concurrency in rows] == [1, 2]


async def test_a_change_of_one_that_shares_limits_reaches_the_other(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    change = admin(embedders, db, vault)
    await change.create("a", "openai", config(endpoint), "k")
    await change.create("b", "openai", config(endpoint), "k")
    held = await find(db, embedders, "a")
    await held.embed_query("one")
    await change.change("b", {"requests_per_minute": 600})
    await held.embed_query("two")
    async with db.connection() as tx:
        rows = await (await tx.execute("select requests from provider")).fetchall()
    assert len(rows) == 1
    assert rows[0][0] < 600


async def test_a_key_that_cannot_be_decrypted_is_reported_and_can_be_entered_again(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint, tmp_path: Path
) -> None:
    await admin(embedders, db, vault).create("quick", "openai", config(endpoint), "k")
    await admin(embedders, db, vault).create("open", "openai", config(endpoint), None)
    other_vault = Vault(None, tmp_path / "other")
    other = Embedders(Settings(data_dir=tmp_path), tmp_path, db=db, vault=other_vault)
    broken = await find(db, other)
    assert broken.dimensions == 64
    with pytest.raises(SecretUnreadable, match="enter the key of the embedder again"):
        await broken.embed_query("one")
    await (await find(db, other, "open")).embed_query("two")
    await admin(other, db, other_vault).change("quick", {"api_key": "entered again"})
    await broken.embed_query("three")
    assert sent_key(endpoint.requests[-1]) == "entered again"
    await other.close()


async def test_a_key_belongs_to_its_row(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    """A sealed key that is copied to another row can't be used there."""
    change = admin(embedders, db, vault)
    await change.create("a", "openai", config(endpoint), "k")
    await change.create("b", "openai", config(endpoint), "l")
    async with db.transaction() as tx:
        await tx.execute(
            "update embedder set api_key = (select api_key from embedder where name = 'a'), revision = 2 where name = 'b'"
        )
    with pytest.raises(SecretUnreadable):
        await (await find(db, embedders, "b")).embed_query("one")
    assert endpoint.requests == []


async def test_connections_of_a_replaced_revision_are_closed_after_their_last_call(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint
) -> None:
    change = admin(embedders, db, vault)
    await change.create("quick", "openai", config(endpoint), "old")
    held = await find(db, embedders)
    assert isinstance(held, StoredEmbedder)
    has_arrived, may_answer = threading.Event(), threading.Event()

    def respond(request: EmbeddingRequest) -> CannedResponse:
        if sent_key(request) == "old":
            has_arrived.set()
            may_answer.wait(30)
        return hashed_vectors(request)

    endpoint.respond = respond
    call = asyncio.create_task(held.embed_documents(["one"]))
    assert await asyncio.to_thread(has_arrived.wait, 30)
    await change.change("quick", {"api_key": "new"})
    await held.embed_query("two")
    may_answer.set()
    assert (await call).shape == (1, 64), "a change does not break what is under way"


async def test_the_settings_hide_a_stored_embedder_of_the_same_name(
    db: Database, vault: Vault, embedders: Embedders, endpoint: Endpoint, tmp_path: Path
) -> None:
    await admin(embedders, db, vault).create("quick", "openai", config(endpoint), "k")
    quick = EmbedderSettings.model_validate(config(endpoint, model="configured"))
    later = Embedders(Settings(data_dir=tmp_path, embedders={"quick": quick}), tmp_path, db=db, vault=vault)
    async with db.connection() as tx:
        assert await later.report_hidden(tx) == ["quick"]
        assert later.origin_of(await later.find(tx, "quick", LOCAL_ORG)) == "settings"
    await later.close()


def test_processes_see_a_change_and_a_kill_leaves_all_or_nothing(
    database_url: str, tmp_path: Path, cache_dir: Path, endpoint: Endpoint
) -> None:
    """`gristmill serve` is a server and a worker process. The worker never hears of the embedder but by the database."""
    env = environment(tmp_path / "data", cache_dir, database_url=database_url)
    new = {"name": "quick", "url": endpoint.url, "model": "hashed", "apiKey": "old"}
    dying = {**env, "GRISTMILL_FAULTS": "embedder.before_commit=kill"}
    with run_serve(dying, log=tmp_path / "log") as serve, serve.client() as http, pytest.raises(Exception):  # noqa: B017
        http.post("/api/embedders", json=new)
    with run_serve(env, log=tmp_path / "log") as serve, serve.client() as http:
        assert "quick" not in http.get("/api/embedders").text
        assert http.post("/api/embedders", json=new).status_code == 201
        base = http.post("/api/knowledge-bases", json={"name": "b", "embedder": "quick"}).json()["id"]

        def index(content: str) -> None:
            note = {"items": [{"type": "note", "content": content}]}
            item = http.post(f"/api/knowledge-bases/{base}/items", json=note).json()["created"][0]["id"]

            async def is_completed() -> bool:
                return http.get(f"/api/knowledge-items/{item}").json()["status"] == "completed"

            asyncio.run(wait_until(is_completed))

        index("rye")
        assert http.patch("/api/embedders/quick", json={"apiKey": "new"}).status_code == 200
        endpoint.respond = lambda request: (
            hashed_vectors(request)
            if sent_key(request) == "new"
            else CannedResponse(401, {"error": "revoked"})
        )
        index("wheat")
        keys = [sent_key(request) for request in endpoint.requests if "wheat" in json.dumps(request.body)]
        assert keys == ["new"]
    assert "old" not in (tmp_path / "log").read_text().split()
