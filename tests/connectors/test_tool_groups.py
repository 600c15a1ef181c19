"""Groups of tools stay groups in access lists: who belongs to them is looked up when somebody reads."""

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest

from gristmill import app, identity
from gristmill.connectors import admin, audience_store, group_store
from gristmill.connectors.model import NewConnector
from gristmill.connectors.port import Audience, ToolGroup
from gristmill.identity import LOCAL_ORG, NewApiKey, OrgId
from gristmill.identity.tool_groups import find_tool_groups
from gristmill.identity.users import UserFields
from gristmill.operations import bases
from gristmill.server.api.context import ON_BEHALF
from gristmill.server.mcp import mount
from tests.connectors.fakes.confluence import FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.linear import FakeLinear
from tests.connectors.fakes.slack import FakeSlack
from tests.connectors.fakes.tool import FakeTool, failing, fake_tool_fixture, serve_fake
from tests.connectors.harness import NEVER, ConnectorHarness, vault_of
from tests.embedding.hashed import HashedEmbedder
from tests.serve_api import serve_api
from tests.server.agents import agent, call_tool
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

tool = fake_tool_fixture(FakeConfluence)
ANN, BOB, CAT = "ann@example.org", "bob@example.org", "cat@example.org"


def ids_of_space(fake: FakeConfluence, number: int) -> set[str]:
    """The source ids of the documents of a space."""
    space = fake.spaces[number].id
    return {f"{content.kind}:{content.id}" for content in fake.contents if content.space == space}


async def item_versions(harness: ConnectorHarness) -> list[tuple[Any, ...]]:
    """What changes with every write of an item."""
    return await harness.fetch("select id, xmin::text, ctid::text, updated_at, acl from item order by id")


async def group_id(harness: ConnectorHarness, key: str) -> UUID:
    """The id of a group of the harness's tool."""
    rows = await harness.fetch(
        "select id from connector_group where connector_id = %s and key = %s", harness.connector.id, key
    )
    return rows[0][0]


async def follow(mill: app.Gristmill, fake: FakeTool, name: str, org: OrgId) -> ConnectorHarness:
    """Another connector with a base, in an organisation, after its first run."""
    base = await bases.create(mill.db, name, HashedEmbedder(), {}, org=org)
    config, credentials = fake.config(), fake.credentials()
    new = NewConnector(name, fake.kind, config, credentials, NEVER, NEVER, base_ids=[base.id])
    connector = await admin.create(mill.db, vault_of(mill), mill.connectors, new, org)
    harness = ConnectorHarness(mill, fake, base, connector)
    assert (await harness.sync()).status == "success"
    return harness


async def test_a_list_names_the_group_and_a_new_member_rewrites_no_record(
    mill: app.Gristmill, http: httpx.AsyncClient, harness: ConnectorHarness, tool: FakeConfluence
) -> None:
    """Lists, searches, reads and agents follow the members of a group from the next request on."""
    assert (await harness.sync()).status == "success"
    hidden, base = ids_of_space(tool, 0), harness.base.id
    entry = f"tool_group:{await group_id(harness, 'devs')}"
    rows = await harness.fetch(
        "select id, source_key, acl from item where type = 'record' and source_key = any(%s)", list(hidden)
    )
    assert [acl for _, _, acl in rows] == [[entry]] * len(
        hidden
    )  # d:4, whom the space names too, has no address
    ids = {str(item) for item, _, _ in rows}
    item = min(ids)
    async with mill.db.transaction() as tx:
        user = await identity.users.insert_user(tx, LOCAL_ORG, UserFields(CAT.title(), "Cat"))
        _, of_user = await identity.insert_key(tx, LOCAL_ORG, NewApiKey("own", "reader", user_id=user.id))
    _, by_address = await new_key(mill.db, LOCAL_ORG, "reader", CAT.title())
    words = " ".join(sorted(word for key in hidden for word in tool.expected_documents()[key].words))

    async def seen_by(client: httpx.AsyncClient, headers: dict[str, str]) -> tuple[int, set[str], set[str]]:
        read = await client.get(f"/api/knowledge-items/{item}", headers=headers)
        found = await client.post(
            f"/api/knowledge-bases/{base}/search",
            json={"query": words, "limit": 50, "mode": "text"},
            headers=headers,
        )
        listed = await client.get(
            f"/api/knowledge-bases/{base}/items", params={"parentId": "*", "limit": 100}, headers=headers
        )
        hits, items = found.json().get("hits", []), listed.json().get("items", [])
        return read.status_code, {hit["itemId"] for hit in hits} & ids, {each["id"] for each in items} & ids

    async with (
        client_with_key(mill, of_user) as owner,
        client_with_key(mill, by_address) as holder,
        mount(mill.api),
        serve_api(mill) as url,
        agent(url, by_address) as session,
    ):

        async def everyone_sees(*expected: Any) -> None:
            assert await seen_by(http, {ON_BEHALF: f"email:{CAT}"}) == expected
            assert await seen_by(owner, {}) == expected
            assert await seen_by(holder, {}) == expected
            hits = (await call_tool(session, "search", query=words, limit=50))["hits"]
            assert bool(hits) == bool(expected[1])

        await everyone_sees(404, set(), set())
        before = await item_versions(harness)
        tool.groups["devs"].append("c:3")
        await harness.refresh_permissions()
        await everyone_sees(200, ids, ids)
        explained = await http.get(f"/api/users/{user.id}/access", params={"itemId": item})
        assert explained.json()["reasons"][0]["name"] == "devs (confluence)"
        tool.groups["devs"].remove("c:3")
        await harness.refresh_permissions()
        await everyone_sees(404, set(), set())
    assert await item_versions(harness) == before


async def test_only_the_rows_of_changed_members_are_written(
    harness: ConnectorHarness, tool: FakeConfluence
) -> None:
    await harness.sync()
    members = "select email, xmin::text from connector_group_member where group_id = %s order by email"
    group = await group_id(harness, "devs")
    before = await harness.fetch(members, group)
    await harness.refresh_permissions()
    assert await harness.fetch(members, group) == before
    tool.groups["devs"] = ["a:1", "c:3"]
    await harness.refresh_permissions()
    after = await harness.fetch(members, group)
    assert [email for email, _ in after] == [ANN, CAT]
    assert after[0] == before[0]


async def test_a_group_of_one_tool_is_no_group_of_another_tool_organisation_or_key(
    mill: app.Gristmill, http: httpx.AsyncClient, harness: ConnectorHarness, tool: FakeConfluence
) -> None:
    """The same id of a group elsewhere, and a key or header that names the group, show nothing."""
    await harness.sync()
    elsewhere = await new_organisation(mill.db, "elsewhere")
    group = await group_id(harness, "devs")
    with serve_fake(FakeConfluence()) as second, serve_fake(FakeConfluence()) as third:
        assert isinstance(second, FakeConfluence)
        assert isinstance(third, FakeConfluence)
        for fake in (second, third):
            fake.groups = {"devs": ["c:3"], "all": ["c:3"]}
        same_org = await follow(mill, second, "second", LOCAL_ORG)
        other_org = await follow(mill, third, "third", elsewhere)
        assert await harness.visible_ids(CAT) == set()
        assert await same_org.visible_ids(CAT) == set(second.expected_documents())
        assert await other_org.visible_ids(CAT) == set(third.expected_documents())
        assert not await same_org.visible_ids(BOB)
        async with mill.db.connection() as tx:
            here = await find_tool_groups(tx, LOCAL_ORG, CAT)
            there = await find_tool_groups(tx, elsewhere, CAT)
        assert len(here) == len(there) == 2
        assert not {str(group), *there} & set(here)
    # A key names groups as `group:…`, whatever they are called.
    names = (str(group), f"tool_group:{group}", "devs", f"{harness.connector.id}/devs")
    async with mill.db.transaction() as tx:
        _, secret = await identity.insert_key(
            tx, LOCAL_ORG, NewApiKey("claims", "reader", groups=names, teams=names)
        )
        _, foreign = await identity.insert_key(tx, elsewhere, NewApiKey("ann", "reader", email=ANN))
    path = f"/api/knowledge-bases/{harness.base.id}/items"
    for key in (secret, foreign):
        async with client_with_key(mill, key) as client:
            assert (await client.get(path)).status_code == 404
    for name in names:
        headers = {ON_BEHALF: f"group:{name}"}
        assert (await http.get(path, headers=headers)).status_code == 404
    headers = {ON_BEHALF: f"tool_group:{group}"}
    assert (await http.get(path, headers=headers)).json()["code"] == "bad_principal"
    assert (await http.get(path, headers={ON_BEHALF: f"email:{ANN}"})).status_code == 200


async def test_a_group_that_can_not_be_resolved_hides_what_only_it_may_see(
    harness: ConnectorHarness, tool: FakeConfluence
) -> None:
    """S2-28, S2-29, C18: its members count for nothing; who is named beside it still sees the documents, and the log says so."""
    tool.people["d:4"] = "dan@example.org"
    tool.add_rule(lambda call: "/group/devs/" in call.path, failing(tool, 403), times=99)
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert "Who is in the group devs could not be found out" in await harness.log_text(run)
    hidden = ids_of_space(tool, 0)
    assert not await harness.visible_ids(ANN) & hidden
    assert await harness.visible_ids("dan@example.org") >= hidden
    before = await item_versions(harness)
    tool.rules.clear()
    await harness.refresh_permissions()
    assert await harness.visible_ids(ANN) >= hidden
    tool.add_rule(lambda call: "/group/devs/" in call.path, failing(tool, 403), times=99)
    await harness.refresh_permissions()
    assert not await harness.visible_ids(ANN) & hidden
    assert await item_versions(harness) == before


async def test_an_account_that_is_mapped_sees_the_documents_of_its_groups_at_once(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Members of groups are listed as people without an address, too; a mapping writes no record, and is for one connector."""
    with serve_fake(FakeConfluenceDataCenter()) as fake, serve_fake(FakeConfluenceDataCenter()) as second:
        assert isinstance(fake, FakeConfluenceDataCenter)
        assert isinstance(second, FakeConfluenceDataCenter)
        for each in (fake, second):
            each.spaces[0].readers = ["@devs"]
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        other = await follow(mill, second, "second", LOCAL_ORG)
        hidden, path = ids_of_space(fake, 0), f"/api/connectors/{harness.connector.id}/identities"
        accounts = (await http.get(path, params={"unmapped": True})).json()["items"]
        assert {account["userId"] for account in accounts} == {"a:1", "b:2"}
        before = await item_versions(harness)
        assert not await harness.visible_ids(ANN) & hidden
        response = await http.post(f"{path}/import", json={"csv": f"userId,email\na:1,{ANN}\n"})
        assert response.status_code == 200, response.text
        assert await harness.visible_ids(ANN) >= hidden
        assert not await other.visible_ids(ANN) & ids_of_space(second, 0)  # a:1 is somebody else there
        assert (await http.put(f"{path}/a:1", json={"email": None})).status_code == 200
        assert not await harness.visible_ids(ANN) & hidden
        assert await item_versions(harness) == before


async def test_groups_that_nothing_names_are_deleted(harness: ConnectorHarness, tool: FakeConfluence) -> None:
    """With the last audience that names them, or with the connector."""
    await harness.sync()
    keys = "select key from connector_group order by key"
    assert await harness.fetch(keys) == [("all",), ("devs",)]
    tool.spaces[0].readers = ["b:2"]
    await harness.refresh_permissions()
    assert await harness.fetch(keys) == [("all",)]
    await harness.assert_matches_tool()
    tool.spaces[0].readers = ["@devs"]
    await harness.sync()
    await harness.assert_matches_tool()
    await admin.delete(harness.mill.db, harness.connector.id, "purge")
    assert await harness.fetch("select from connector_group") == []
    assert await harness.fetch("select from connector_group_member") == []


async def test_a_group_that_is_saved_while_unused_ones_are_deleted_stays(harness: ConnectorHarness) -> None:
    """The deletion waits for whoever saves the group, and then sees the audience that names it."""
    db, row = harness.mill.db, harness.connector
    team = ToolGroup("team", "Team", frozenset({ANN}))
    async with db.transaction() as tx:
        await group_store.save_groups(tx, row, [team])

    async def delete_unused() -> None:
        async with db.transaction() as tx:
            await group_store.delete_unused(tx, row.id)

    async def is_waiting() -> bool:
        waiting = (
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return await harness.fetch(waiting) != []

    async with db.transaction() as tx:
        await audience_store.save_audiences(tx, row, [Audience("a", tool_groups=[team])])
        deletion = asyncio.create_task(delete_unused())
        await wait_until(is_waiting)
    await deletion
    assert await harness.fetch("select key from connector_group") == [("team",)]
    async with db.transaction() as tx:
        await audience_store.save_audiences(tx, row, [Audience("a")])
    await delete_unused()
    assert await harness.fetch("select key from connector_group") == []


@pytest.mark.parametrize("whole", [True, False], ids=["the connector", "a base"])
async def test_records_that_stay_without_their_connector_keep_their_readers(
    mill: app.Gristmill, http: httpx.AsyncClient, *, whole: bool
) -> None:
    """The group stays with its last members, mapped accounts included, until the base is gone."""
    with serve_fake(FakeConfluenceDataCenter()) as fake:
        assert isinstance(fake, FakeConfluenceDataCenter)
        fake.spaces[0].readers = ["@devs"]
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        await admin.map_identity(mill.db, harness.connector.id, "a:1", ANN)
        readers = await harness.visible_ids(ANN), await harness.visible_ids(BOB)
        assert readers[0] > readers[1]
        if whole:
            await admin.delete(mill.db, harness.connector.id, "detach")
        else:
            await harness.change(base_ids=[], on_detach="detach")
            await admin.delete(mill.db, harness.connector.id, "purge")
        assert (await harness.visible_ids(ANN), await harness.visible_ids(BOB)) == readers
        async with mill.db.transaction() as tx:
            assert await admin.repair(tx, 100) == 0
        assert await harness.fetch("select from connector_group_member where user_id is not null") == []
        await http.delete(f"/api/knowledge-bases/{harness.base.id}")

        async def is_gone() -> bool:
            return await harness.fetch("select from base") == []

        await wait_until(is_gone)
        async with mill.db.transaction() as tx:
            await admin.repair(tx, 100)
        assert await harness.fetch("select from connector_group") == []


@pytest.mark.parametrize("kind", [FakeSlack, FakeLinear])
async def test_channels_teams_and_workspaces_are_groups(mill: app.Gristmill, kind: type[FakeTool]) -> None:
    """A person who joins one rewrites no record."""
    with serve_fake(kind()) as fake:
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        await harness.assert_matches_tool()
        lists = await harness.fetch("select distinct acl from item where type = 'record'")
        assert all(len(acl) == 1 and acl[0].startswith("tool_group:") for (acl,) in lists)
        before = await item_versions(harness)
        for pick in range(4):
            fake.change_permission(pick)
            await harness.refresh_permissions()
            await harness.assert_matches_tool()
        after = {row[0]: row for row in await item_versions(harness)}
        assert sum(row != after[row[0]] for row in before) == 0


async def test_a_restored_or_foreign_entry_names_nobody(
    mill: app.Gristmill, http: httpx.AsyncClient, harness: ConnectorHarness
) -> None:
    """Lists may name a group of a tool; one that doesn't exist here matches no one, and can't be shared with."""
    await harness.sync()
    group = await group_id(harness, "devs")
    base = (
        await http.post("/api/knowledge-bases", json={"name": "b", "acl": [f"tool_group:{group}"]})
    ).json()
    path = f"/api/knowledge-bases/{base['id']}"
    assert (await http.get(path, headers={ON_BEHALF: f"email:{ANN}"})).status_code == 200
    assert (await http.get(path, headers={ON_BEHALF: f"email:{CAT}"})).status_code == 404
    shares = (await http.get(f"{path}/shares")).json()
    assert [share["name"] for share in shares["items"]] == ["devs (confluence)"]
    unknown = f"tool_group:{UUID(int=7)}"
    assert (await http.patch(path, json={"acl": [unknown]})).status_code == 200
    assert (await http.get(path, headers={ON_BEHALF: f"email:{ANN}"})).status_code == 404
    refused = await http.put(f"{path}/shares", json={"principal": unknown, "role": "reader"})
    assert refused.status_code == 404, refused.text
    bad = await http.patch(path, json={"acl": ["tool_group:devs"]})
    assert bad.json()["code"] == "bad_acl_entry"
