"""Promise 7: no way of reading shows items that the caller may not see."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill import app
from gristmill.catalog import ItemId
from gristmill.server.api.access_rules import RULES
from gristmill.server.api.context import ON_BEHALF
from tests.search.published_items import file_folder, file_note, new_base
from tests.thorough import examples

pytestmark = pytest.mark.slow

ENTRIES = ["org:*", "team:1", "team:2", "group:g", "user_email:ann@x.org"]
VIEWERS = {
    "email:ann@x.org": {"org:*", "user_email:ann@x.org"},
    "email:Bob@x.org,team:1": {"org:*", "user_email:bob@x.org", "team:1"},
    '{"teams": ["2"], "groups": ["g"]}': {"org:*", "team:2", "group:g"},
}
lists = st.lists(st.sampled_from(ENTRIES), unique=True, max_size=2)


@dataclass(frozen=True)
class TreeNode:
    """An item of the model: its position in the tree, and its own ACL."""

    parent: int | None
    folder: bool
    acl: list[str] | None


@st.composite
def item_trees(draw: st.DrawFn) -> list[TreeNode]:
    nodes: list[TreeNode] = []
    for _ in range(draw(st.integers(1, 7))):
        folders = [n for n, node in enumerate(nodes) if node.folder]
        parent = draw(st.sampled_from([None, *folders]))
        nodes.append(TreeNode(parent, draw(st.booleans()), draw(st.none() | lists)))
    return nodes


def effective_acl(nodes: list[TreeNode], base: list[str], position: int) -> list[str]:
    """The rules in plain Python: the ACL of the item or its nearest ancestor, else the base's."""
    at: int | None = position
    while at is not None:
        acl = nodes[at].acl
        if acl is not None:
            return acl
        at = nodes[at].parent
    return base


def visible_positions(nodes: list[TreeNode], base: list[str], principals: set[str] | None) -> set[int]:
    return {
        position
        for position in range(len(nodes))
        if principals is None or principals & set(effective_acl(nodes, base, position))
    }


class AccessCheck:
    """The items of a model, created in the database."""

    def __init__(self, mill: app.Gristmill, http: httpx.AsyncClient) -> None:
        self.mill, self.http = mill, http
        self.ids: list[ItemId] = []

    async def create(self, nodes: list[TreeNode], acl: list[str]) -> None:
        self.base = await new_base(self.mill.db, uuid4().hex, acl=acl)
        async with self.mill.db.transaction() as tx:
            for n, node in enumerate(nodes):
                parent = None if node.parent is None else self.ids[node.parent]
                if node.folder:
                    item = await file_folder(tx, self.base, f"folder {n}", parent, node.acl)
                else:
                    item = await file_note(
                        tx, self.base, f"note {n}", f"wheel {n}", parent=parent, acl=node.acl
                    )
                self.ids.append(item.id)

    async def verify(self, nodes: list[TreeNode], acl: list[str]) -> None:
        for name, principals in [*VIEWERS.items(), (None, None)]:
            headers = {ON_BEHALF: name} if name else {}
            visible = visible_positions(nodes, acl, principals)
            notes = {n for n in visible if not nodes[n].folder}
            await self.check_items(headers, visible, notes)
            await self.check_searches(headers, notes)
            await self.check_bases(headers, visible, principals, acl)

    async def check_items(self, headers: dict[str, str], visible: set[int], notes: set[int]) -> None:
        base = f"/api/knowledge-bases/{self.base.id}"
        response = await self.http.get(f"{base}/items?parentId=*", headers=headers)
        assert self.positions(response, "items", "id") == visible
        for n, item_id in enumerate(self.ids):
            url = f"/api/knowledge-items/{item_id}"
            assert ((await self.http.get(url, headers=headers)).status_code == 200) is (n in visible)
            for part in ("content", "original"):
                answer = await self.http.get(f"{url}/{part}", headers=headers)
                assert (answer.status_code == 200) is (n in notes), (part, n)
            chunks = await self.http.get(f"{url}/chunks", headers=headers)
            if n not in visible:
                assert chunks.status_code == 404
            else:
                assert self.positions(chunks, "items", "itemId") <= notes

    async def check_searches(self, headers: dict[str, str], notes: set[int]) -> None:
        for mode in ("text", "vector", "hybrid"):
            for url, body in (
                (f"/api/knowledge-bases/{self.base.id}/search", {}),
                ("/api/search", {"baseIds": [str(self.base.id)]}),
            ):
                search_body = {**body, "query": "wheel", "mode": mode, "limit": 50}
                answer = await self.http.post(url, json=search_body, headers=headers)
                if answer.status_code == 404:
                    assert not notes
                else:
                    assert self.positions(answer, "hits", "itemId") == notes, (mode, url)

    async def check_bases(
        self, headers: dict[str, str], visible: set[int], principals: set[str] | None, acl: list[str]
    ) -> None:
        is_visible = principals is None or bool(principals & set(acl)) or bool(visible)
        answer = await self.http.get(f"/api/knowledge-bases/{self.base.id}", headers=headers)
        assert (answer.status_code == 200) is is_visible
        if is_visible:
            assert sum(answer.json()["itemCounts"].values()) == len(visible)
        response = await self.http.get(f"/api/knowledge-bases?name={self.base.name}", headers=headers)
        assert bool(response.json()["items"]) is is_visible

    def positions(self, answer: httpx.Response, where: str, field: str) -> set[int]:
        assert answer.status_code in (200, 404, 409), answer.text
        item_ids = {UUID(entry[field]) for entry in answer.json().get(where, [])}
        return {n for n, item_id in enumerate(self.ids) if item_id in item_ids}


@settings(
    max_examples=examples(4, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(item_trees(), lists, st.integers(0, 6), st.none() | lists, lists)
async def test_every_way_of_reading_follows_the_access_rules(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    nodes: list[TreeNode],
    acl: list[str],
    changed_position: int,
    new: list[str] | None,
    new_base_acl: list[str],
) -> None:
    """S2-28, S2-29, C18: a changed permission applies from the next query on."""
    check = AccessCheck(mill, http)
    await check.create(nodes, acl)
    await check.verify(nodes, acl)
    position = changed_position % len(nodes)
    answer = await http.patch(f"/api/knowledge-items/{check.ids[position]}", json={"acl": new})
    assert answer.status_code == 200, answer.text
    assert answer.json()["acl"] == new
    nodes = [replace(node, acl=new) if n == position else node for n, node in enumerate(nodes)]
    answer = await http.patch(f"/api/knowledge-bases/{check.base.id}", json={"acl": new_base_acl})
    assert answer.status_code == 200, answer.text
    await check.verify(nodes, new_base_acl)


async def test_requests_on_behalf_of_a_principal_are_limited_to_acl_filtered_routes(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A route that is not filtered by ACL is refused, also one that is added later."""
    headers = {ON_BEHALF: "email:ann@x.org"}
    some = str(uuid4())
    routes = {
        (method.upper(), path) for path, methods in mill.api.openapi()["paths"].items() for method in methods
    }
    on_behalf = {route for route, rule in RULES.items() if rule.acl_filtered and route[1].startswith("/api/")}
    anyone = {route for route, rule in RULES.items() if rule.audience == "anyone"}
    assert routes >= on_behalf
    for method, path in sorted(routes - on_behalf - anyone):
        url = path.replace("{base_id}", some).replace("{item_id}", some).replace("{job_id}", some)
        answer = await http.request(method, url, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_on_behalf"), (method, path)


async def test_a_malformed_principal_is_refused(http: httpx.AsyncClient) -> None:
    for header in ("ann", "role:admin", "{", '{"admin": true}', "email:a@x.org,email:b@x.org"):
        answer = await http.get("/api/knowledge-bases", headers={ON_BEHALF: header})
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_principal"), header
    answer = await http.get("/api/knowledge-bases", headers={ON_BEHALF: "email:ann"})
    assert answer.json()["code"] == "bad_acl_entry"


async def test_an_empty_list_of_an_item_denies_and_null_inherits(http: httpx.AsyncClient) -> None:
    """C18: an empty list is not the same as none."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b", "acl": ["org:*"]})).json()
    url = f"/api/knowledge-bases/{base['id']}/items"
    notes: list[dict[str, Any]] = [
        {"type": "note", "content": "shut", "acl": []},
        {"type": "note", "content": "open"},
    ]
    created = (await http.post(url, json={"items": notes})).json()["created"]
    assert [item["acl"] for item in created] == [[], None]
    headers = {ON_BEHALF: "email:ann@x.org"}
    response = (await http.get(url, headers=headers)).json()["items"]
    assert [item["title"] for item in response] == ["open"]
    bad = await http.post(url, json={"items": [{"type": "note", "content": "x", "acl": ["everyone"]}]})
    assert (bad.status_code, bad.json()["code"]) == (422, "bad_acl_entry")
