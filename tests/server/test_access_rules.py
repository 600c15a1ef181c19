"""Every route, for every role, of two organisations: generated from the application's routes and the access rules.

A route without a rule, a rule without a route, and a path parameter without an ownership check fail here.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.server.api.access_rules import RULES, Rule
from gristmill.server.api.authorise import PATH_PARAMETER_CHECKS, require_authorisation
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

REFUSED = (401, 403)
ROLES = ("reader", "editor", "admin")
ACTIONS_WITHOUT_BODY = [
    "reprocess",
    "analyse",
    "retry",
    "cancel",
    "recover",
    "dismiss",
    "test",
    "redrive",
    "skip",
    "check",
    "pause",
    "resume",
    "sign-in",
    "sample-base",
]
PARTS = {
    "event_id": "1",
    "asset_hash": "00" * 32,
    "user_id": "u1",
    "exclusion_id": "00000000-0000-7000-8000-000000000001",
    "hold_id": "00000000-0000-7000-8000-000000000001",
    "version": "1",
    "chunk_id": "00000000-0000-7000-8000-000000000001",
    "page": "1",
    "member_id": "00000000-0000-7000-8000-000000000001",
}  # parts of the resource that the rest of the path names


@dataclass(frozen=True)
class World:
    """Two organisations besides the local one: `owners` have one of every resource, `strangers` ask for them."""

    mill: app.Gristmill
    owners: dict[str, httpx.AsyncClient]
    strangers: dict[str, httpx.AsyncClient]
    anonymous: httpx.AsyncClient
    local_admin: httpx.AsyncClient
    ids: dict[str, str]


@pytest.fixture
async def world(mill: app.Gristmill, http: httpx.AsyncClient) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        people: dict[str, dict[str, httpx.AsyncClient]] = {}
        for name in ("ours", "theirs"):
            org = await new_organisation(mill.db, name)
            people[name] = {
                role: await stack.enter_async_context(
                    client_with_key(mill, (await new_key(mill.db, org, role))[1])
                )
                for role in ROLES
            }
        anonymous = await stack.enter_async_context(client_with_key(mill, None))
        ids = await create_one_of_each(people["ours"]["admin"])
        yield World(mill, people["ours"], people["theirs"], anonymous, http, ids)


async def create_one_of_each(admin: httpx.AsyncClient) -> dict[str, str]:
    """One of every resource that a path can name."""
    base = (await admin.post("/api/knowledge-bases", json={"name": "mill", "acl": ["org:*"]})).json()["id"]
    response = await admin.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "a wheel"}]}
    )
    item = response.json()["created"][0]["id"]
    job = (await admin.get(f"/api/jobs?itemId={item}")).json()["items"][0]["id"]
    hook = (await admin.post("/api/webhooks", json={"url": "https://example.org/x"})).json()["id"]
    key = (await admin.post("/api/api-keys", json={"name": "one more", "role": "reader"})).json()["id"]
    tool = (await admin.post("/api/connectors", json=connector_body(base))).json()["id"]
    run = (await admin.post(f"/api/connectors/{tool}/sync", json={"dryRun": True})).json()["runId"]
    model = {"name": "ours", "url": "https://example.org/v1", "model": "m", "dimensions": 8}
    embedder = (await admin.post("/api/embedders", json=model)).json()["name"]
    limit = {"kind": "quota", "measure": "items", "amount": 100}
    limit_id = (await admin.post("/api/limits", json=limit)).json()["id"]
    saved = (await admin.post("/api/saved-searches", json={"name": "w", "search": {"query": "wheel"}})).json()

    user = (await admin.post("/api/users", json={"email": "ann@x.org"})).json()
    group = (await admin.post("/api/groups", json={"name": "research"})).json()

    async def is_done() -> bool:
        return (await admin.get(f"/api/knowledge-items/{item}")).json()["status"] == "completed"

    await wait_until(is_done)
    return {
        "base_id": base,
        "item_id": item,
        "job_id": job,
        "webhook_id": hook,
        "key_id": key,
        "connector_id": tool,
        "run_id": run,
        "embedder_name": embedder,
        "search_id": saved["id"],
        "limit_id": limit_id,
        "account_id": user["id"],
        "group_id": group["id"],
        "scim_user_id": user["id"],
        "scim_group_id": group["id"],
        **await create_store(admin, base),
        **PARTS,
    }


async def create_store(admin: httpx.AsyncClient, base: str) -> dict[str, str]:
    """A file, a batch with it and the base, as OpenAI's clients name them."""
    upload = await admin.post("/v1/files", data={"purpose": "assistants"}, files={"file": ("a.txt", b"a")})
    file = upload.json()["id"]
    store = f"vs_{base.replace('-', '')}"
    batch = await admin.post(f"/v1/vector_stores/{store}/file_batches", json={"file_ids": [file]})
    return {"store_id": store, "file_id": file, "store_file_id": file, "batch_id": batch.json()["id"]}


def connector_body(*bases: str) -> dict[str, Any]:
    """A connector whose source is never reached: its address is private, so fetching it is not allowed."""
    return {
        "name": "tool",
        "type": "github",
        "config": {"baseUrl": "http://127.0.0.1:1", "repositories": ["acme/mill"]},
        "credentials": {"token": "t"},
        "knowledgeBaseIds": list(bases),
    }


def fill_path(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: ids[match.group(1)], path)


async def send_probe(
    client: httpx.AsyncClient, method: str, path: str, ids: dict[str, str]
) -> httpx.Response:
    """Send a body that no route accepts: an authorised caller gets 422, and nothing changes. The stream gets an unknown
    event type."""
    if path.endswith("/stream"):
        return await client.get(path, params={"types": "none of them"})
    return await client.request(
        method, fill_path(path, ids), json={"no such field": 1} if method != "GET" else None
    )


def code_of(answer: httpx.Response) -> str:
    """The code of a problem document, or of an error below `/v1` or `/dify`."""
    problem = answer.json()
    if "error_code" in problem:
        return {1002: "no_key", 2001: "base_not_found"}[problem["error_code"]]
    return problem["error"]["code"] if "error" in problem else problem["code"]


def is_allowed(rule: Rule, role: str) -> bool:
    if rule.audience == "scim":
        return role == "admin"
    return rule.audience == "anyone" or (
        rule.audience in ROLES and ROLES.index(role) >= ROLES.index(rule.audience)
    )


def changes_without_body(method: str, path: str) -> bool:
    """Whether the route needs no body, so that the probe would really change something."""
    return method == "DELETE" or path.rpartition("/")[2] in ACTIONS_WITHOUT_BODY


async def test_every_route_has_a_rule_and_every_parameter_an_owner(mill: app.Gristmill) -> None:
    """A new route without a rule fails here, and rejects every request."""
    routes = {
        (method, route.path)
        for route in mill.api.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert routes | {("GET", "/openapi.json")} == set(RULES)
    for _, path in routes:
        assert set(re.findall(r"\{(\w+)\}", path)) <= set(PATH_PARAMETER_CHECKS), path


async def test_every_route_checks_its_rule(mill: app.Gristmill) -> None:
    for route in mill.api.routes:
        if isinstance(route, APIRoute):
            checks = [dependency.call for dependency in route.dependant.dependencies]
            assert require_authorisation in checks, route.path


async def test_every_role_gets_what_the_rules_allow(world: World) -> None:
    for (method, path), rule in RULES.items():
        for role in ROLES:
            if is_allowed(rule, role) and changes_without_body(method, path):
                continue  # its effect is tested elsewhere; here, that others are rejected
            answer = await send_probe(world.owners[role], method, path, world.ids)
            assert (answer.status_code not in REFUSED) is is_allowed(rule, role), (
                method,
                path,
                role,
                answer.text,
            )
            if rule.audience == "operator":
                assert code_of(answer) == "operator_only"


async def test_remote_requests_without_a_key_are_rejected(world: World) -> None:
    for (method, path), rule in RULES.items():
        answer = await send_probe(world.anonymous, method, path, world.ids)
        assert (answer.status_code == 401) is (rule.audience != "anyone"), (method, path, answer.text)
        if rule.audience != "anyone":
            assert answer.headers["www-authenticate"] == "Bearer"
            assert code_of(answer) == "no_key"


async def test_resources_in_paths_are_not_found_for_another_organisation(world: World) -> None:
    """An admin of another organisation gets the same response as for an unknown id."""
    unknown = dict.fromkeys(world.ids, "00000000-0000-7000-8000-0000000000ff") | PARTS
    for (method, path), rule in RULES.items():
        if "{" not in path:
            continue
        for stranger in (world.strangers["admin"], world.local_admin):
            body: dict[str, Any] = (
                {"query": "wheel"}
                if path.endswith(("/search", "/why-not"))
                else {"attributes": {}}
                if path.endswith("{store_file_id}")
                else {"file_id": world.ids["file_id"]}
                if path.endswith("/files")
                else {"file_ids": [world.ids["file_id"]]}
                if path.endswith("/file_batches")
                else {}
            )
            real, none = [
                await stranger.request(method, fill_path(path, ids), json=body if method != "GET" else None)
                for ids in (world.ids, unknown)
            ]
            assert real.status_code == none.status_code == 404, (method, path, rule, real.text)
            assert code_of(real) == code_of(none)


async def test_lists_searches_and_counts_contain_nothing_of_another_organisation(world: World) -> None:
    for path, where in (
        ("/api/knowledge-bases", "items"),
        ("/api/knowledge-bases?name=mill", "items"),
        ("/api/jobs", "items"),
        ("/api/events", "items"),
        ("/api/webhooks", "items"),
        ("/api/connectors", "items"),
        ("/api/connectors?name=tool", "items"),
        ("/api/audit", "items"),
        ("/api/health/invariants", "violations"),
    ):
        own_page, foreign_page = [
            await client.get(path) for client in (world.owners["admin"], world.strangers["admin"])
        ]
        assert own_page.status_code == foreign_page.status_code == 200
        assert foreign_page.json()[where] == [], path
        assert own_page.json()[where] or where == "violations", path
    ours_keys = {key["id"] for key in (await world.owners["admin"].get("/api/api-keys")).json()["items"]}
    their_keys = {key["id"] for key in (await world.strangers["admin"].get("/api/api-keys")).json()["items"]}
    assert len(their_keys) == 3
    assert not ours_keys & their_keys
    hits = (await world.owners["admin"].post("/api/search", json={"query": "wheel"})).json()["hits"]
    assert "a wheel" in {hit["title"] for hit in hits}
    assert (await world.strangers["admin"].post("/api/search", json={"query": "wheel"})).json()["hits"] == []
    response = await world.strangers["admin"].post(
        "/api/search", json={"query": "wheel", "baseIds": [world.ids["base_id"]]}
    )
    assert (response.status_code, response.json()["code"]) == (404, "base_not_found")


async def test_resources_in_bodies_are_not_found_for_another_organisation(world: World) -> None:
    """Requests for a base of the strangers that name items of the owners."""
    admin = world.strangers["admin"]
    creation = await admin.post("/api/knowledge-bases", json={"name": "mill"})
    assert creation.status_code == 201, "a name that only another organisation has is free"
    base = creation.json()["id"]
    owners_item = world.ids["item_id"]
    requests: list[tuple[str, dict[str, Any]]] = [
        ("items/delete", {"itemIds": [owners_item]}),
        ("items/reindex", {"itemIds": [owners_item]}),
        ("items", {"items": [{"type": "note", "content": "x"}], "parentId": owners_item}),
    ]
    for path, body in requests:
        answer = await admin.post(f"/api/knowledge-bases/{base}/{path}", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "item_not_found"), path
    hook = await admin.post("/api/webhooks", json={"url": "https://x.org", "baseId": world.ids["base_id"]})
    assert (hook.status_code, hook.json()["code"]) == (404, "base_not_found")
    response = await admin.get(f"/api/connectors?baseId={world.ids['base_id']}")
    assert response.json()["items"] == []
    response = await admin.get(f"/api/jobs?baseId={world.ids['base_id']}")
    assert response.json()["items"] == []
    response = await admin.get(f"/api/events?baseId={world.ids['base_id']}")
    assert response.json()["items"] == []
    under = await admin.get(f"/api/knowledge-bases/{base}/items?parentId={owners_item}")
    assert under.json()["items"] == []
    under = await admin.get(f"/api/knowledge-bases/{base}/items?under={owners_item}")
    assert under.json()["items"] == []


async def test_a_connector_is_neither_visible_nor_countable_from_another_organisation(world: World) -> None:
    """Its name is free there, its jobs and runs are not listed, and it can only feed bases of its own organisation."""
    owner, stranger = world.owners["admin"], world.strangers["admin"]
    rejection = await stranger.post("/api/connectors", json=connector_body(world.ids["base_id"]))
    assert (rejection.status_code, rejection.json()["code"]) == (404, "base_not_found")
    assert (await stranger.get("/api/connectors")).json()["items"] == []
    creation = await stranger.post("/api/connectors", json=connector_body())
    assert creation.status_code == 201, "a name that only another organisation has is free"
    own_path = f"/api/connectors/{creation.json()['id']}"
    duplicate = await stranger.post("/api/connectors", json=connector_body())
    assert (duplicate.status_code, duplicate.json()["code"]) == (409, "connector_name_taken")
    fed = await stranger.patch(own_path, json={"knowledgeBaseIds": [world.ids["base_id"]]})
    assert (fed.status_code, fed.json()["code"]) == (404, "base_not_found")
    for admin, connector in ((owner, world.ids["connector_id"]), (stranger, creation.json()["id"])):
        assert [item["id"] for item in (await admin.get("/api/connectors")).json()["items"]] == [connector]
    assert (await stranger.get(f"{own_path}/runs")).json()["items"] == []
    kind = {"kind": "sync_connector"}
    assert (await stranger.get("/api/jobs", params=kind)).json()["items"] == []
    job = (await owner.get(f"/api/connector-runs/{world.ids['run_id']}")).json()["taskId"]
    assert (await stranger.get(f"/api/jobs/{job}")).status_code == 404
    assert (await owner.get(f"/api/jobs/{job}")).status_code == 200


async def test_of_two_changes_of_a_connector_one_is_rejected(world: World) -> None:
    path = f"/api/connectors/{world.ids['connector_id']}"
    admin = world.owners["admin"]
    await admin.patch(path, json={"enabled": False})

    async def at_rest() -> bool:
        run = (await admin.get(f"/api/connector-runs/{world.ids['run_id']}")).json()
        return run["completedAt"] is not None

    await wait_until(at_rest)
    etag = (await admin.get(path)).headers["etag"]
    first, second = [
        await admin.patch(path, json={"name": name}, headers={"If-Match": etag}) for name in ("one", "two")
    ]
    assert (first.status_code, second.status_code) == (200, 412)
    assert (await admin.get(path)).json()["name"] == "one"


async def test_events_are_numbered_for_each_organisation(world: World) -> None:
    """Shared numbers would reveal how much other organisations do."""
    before = len((await world.owners["admin"].get("/api/events?limit=500")).json()["items"])
    await world.strangers["admin"].post("/api/knowledge-bases", json={"name": "theirs"})

    async def first_page() -> dict[str, Any] | None:
        page = (await world.strangers["admin"].get("/api/events")).json()
        return page if page["items"] else None  # another process may be sequencing it right now

    first = await wait_until(first_page)
    assert [event["id"] for event in first["items"]] == ["1"]
    assert first["nextCursor"] == "1"
    assert before > 1
    assert LOCAL_ORG not in {event["baseId"] for event in first["items"]}


async def test_identical_uploads_of_two_organisations_stay_separate(world: World) -> None:
    """The receipt of a deletion counts removed blobs: with shared blobs it would reveal that others have the same file."""
    receipts: list[dict[str, int]] = []
    bases: dict[str, str] = {}
    for name, admin in (("ours", world.owners["admin"]), ("theirs", world.strangers["admin"])):
        creation = await admin.post("/api/knowledge-bases", json={"name": "twins"})
        bases[name] = creation.json()["id"]
        upload = await admin.post(
            f"/api/knowledge-bases/{bases[name]}/files", files={"files": ("same.txt", b"the same bytes")}
        )
        item = upload.json()["created"][0]["id"]

        async def is_done(admin: httpx.AsyncClient = admin, item: str = item) -> bool:
            return (await admin.get(f"/api/knowledge-items/{item}")).json()["status"] == "completed"

        await wait_until(is_done)
    for name, admin in (("ours", world.owners["admin"]), ("theirs", world.strangers["admin"])):
        job = (await admin.delete(f"/api/knowledge-bases/{bases[name]}")).json()["jobId"]

        async def is_gone(admin: httpx.AsyncClient = admin, job: str = job) -> bool:
            return (await admin.get(f"/api/jobs/{job}")).json()["state"] == "done"

        await wait_until(is_gone)
        receipts.append((await admin.get(f"/api/jobs/{job}")).json()["result"])
    assert receipts[0] == receipts[1]
    assert receipts[0]["blobs"] == receipts[0]["contents"] == 1
