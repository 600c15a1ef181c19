"""Promise 7 with people: groups of groups, shares and removals, compared with a model, for every way of reading."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gristmill import app
from gristmill.server.api.context import ON_BEHALF
from tests.search.test_access import AccessCheck, TreeNode, visible_positions
from tests.server.clients import client_with_key
from tests.thorough import examples

pytestmark = pytest.mark.slow

PEOPLE, GROUPS = ("ann", "bob"), (0, 1, 2)
SYMBOLS = ["org:*", "ann", "bob@", *(f"g{n}" for n in GROUPS)]
RANKS = {"reader": 1, "editor": 2, "owner": 3}
symbolic_lists = st.lists(st.sampled_from(SYMBOLS), unique=True, max_size=2)


@dataclass
class CompanyModel:
    """Who belongs where, in plain Python. A group contains only groups of lower numbers, so there is no cycle."""

    roles: dict[str, str]
    members: dict[int, set[str]]
    children: dict[int, set[int]]
    shares: dict[str, str]
    active: set[str] = field(default_factory=lambda: set(PEOPLE))
    deleted: set[int] = field(default_factory=set[int])

    def groups_of(self, person: str) -> set[int]:
        """All groups that contain a person, by walking down from each."""
        return {group for group in GROUPS if group not in self.deleted and person in self._people_in(group)}

    def _people_in(self, group: int) -> set[str]:
        if group in self.deleted:
            return set()
        return self.members[group].union(*(self._people_in(child) for child in self.children[group]))

    def symbols_of(self, person: str) -> set[str]:
        if person not in self.active:
            return set()
        return {"org:*", person, f"{person}@", *(f"g{group}" for group in self.groups_of(person))}

    def rank_of(self, person: str, acl: list[str]) -> int:
        """What a person who sees the base may do there."""
        own = self.roles[person]
        ranks = [RANKS[self.shares.get(entry, own)] for entry in acl if entry in self.symbols_of(person)]
        return max(ranks, default=RANKS[own])


@st.composite
def companies(draw: st.DrawFn) -> CompanyModel:
    return CompanyModel(
        roles={person: draw(st.sampled_from(["reader", "editor"])) for person in PEOPLE},
        members={group: draw(st.sets(st.sampled_from(PEOPLE))) for group in GROUPS},
        children={group: draw(st.sets(st.integers(0, group - 1))) if group else set() for group in GROUPS},
        shares=draw(st.dictionaries(st.sampled_from(SYMBOLS), st.sampled_from(list(RANKS)), max_size=3)),
    )


@st.composite
def small_trees(draw: st.DrawFn) -> list[TreeNode]:
    nodes: list[TreeNode] = []
    for _ in range(draw(st.integers(1, 4))):
        folders = [n for n, node in enumerate(nodes) if node.folder]
        parent = draw(st.sampled_from([None, *folders]))
        nodes.append(TreeNode(parent, draw(st.booleans()), draw(st.none() | symbolic_lists)))
    return nodes


REMOVALS = st.sampled_from(["member", "child", "group", "share", "person"])


class CompanyCheck(AccessCheck):
    """A model with its users, groups, keys and base in a running Gristmill."""

    def __init__(self, mill: app.Gristmill, http: httpx.AsyncClient, model: CompanyModel) -> None:
        super().__init__(mill, http)
        self.admin, self.model, self.tag = http, model, uuid4().hex[:8]
        self.entries: dict[str, str] = {"org:*": "org:*"}
        self.user_ids: dict[str, str] = {}
        self.group_ids: dict[int, str] = {}
        self.secrets: dict[str, str] = {}

    async def call(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.admin.request(method, f"/api/{path}", **options)
        assert answer.status_code in (200, 201, 204), answer.text
        return answer.json() if answer.content else None

    async def set_up(self, nodes: list[TreeNode]) -> list[TreeNode]:
        """Create everything; the nodes with real entries."""
        model = self.model
        for person in PEOPLE:
            email = f"{person}.{self.tag}@x.org"
            user = await self.call("POST", "users", json={"email": email, "role": model.roles[person]})
            self.user_ids[person] = user["id"]
            self.entries |= {person: f"user:{user['id']}", f"{person}@": f"user_email:{email}"}
            key = {"name": "k", "role": "editor", "userId": user["id"]}
            self.secrets[person] = (await self.call("POST", "api-keys", json=key))["key"]
        for group in GROUPS:
            created = await self.call("POST", "groups", json={"name": f"{self.tag} {group}"})
            self.group_ids[group] = created["id"]
            self.entries[f"g{group}"] = f"group:{created['id']}"
            body = {
                "userIds": [self.user_ids[person] for person in sorted(model.members[group])],
                "groupIds": [self.group_ids[child] for child in sorted(model.children[group])],
            }
            await self.call("POST", f"groups/{created['id']}/members", json=body)
        return [
            TreeNode(
                node.parent, node.folder, None if node.acl is None else [self.entries[e] for e in node.acl]
            )
            for node in nodes
        ]

    async def share(self, acl: list[str]) -> list[str]:
        """Share the base as the model says; the symbols of its list then."""
        for symbol, role in self.model.shares.items():
            # An address is shared as its user.
            body = {"principal": self.entries[symbol], "role": role}
            await self.call("PUT", f"knowledge-bases/{self.base.id}/shares", json=body)
        self.model.shares = {symbol.removesuffix("@"): role for symbol, role in self.model.shares.items()}
        return [*acl, *(symbol for symbol in self.model.shares if symbol not in acl)]

    async def verify_people(self, nodes: list[TreeNode], acl: list[str]) -> None:
        real_acl = [self.entries[symbol] for symbol in acl]
        for person in PEOPLE:
            principals = {self.entries[symbol] for symbol in self.model.symbols_of(person)}
            visible = visible_positions(nodes, real_acl, principals)
            notes = {n for n in visible if not nodes[n].folder}
            email = self.entries[f"{person}@"].partition(":")[2]
            await self._check_reads({ON_BEHALF: f"email:{email}"}, visible, notes, principals, real_acl)
            async with client_with_key(self.mill, self.secrets[person]) as client:
                if person not in self.model.active:
                    assert (await client.get("/api/session")).status_code == 401
                    continue
                self.http = client
                await self._check_reads({}, visible, notes, principals, real_acl)
                await self._check_role(client, person, nodes, real_acl, acl, principals)
                self.http = self.admin

    async def _check_reads(
        self,
        headers: dict[str, str],
        visible: set[int],
        notes: set[int],
        principals: set[str],
        acl: list[str],
    ) -> None:
        await self.check_items(headers, visible, notes)
        await self.check_searches(headers, notes)
        await self.check_bases(headers, visible, principals, acl)

    async def _check_role(
        self,
        client: httpx.AsyncClient,
        person: str,
        nodes: list[TreeNode],
        real_acl: list[str],
        acl: list[str],
        principals: set[str],
    ) -> None:
        """Requests that no route accepts: 422 for whoever may make them."""
        sees_all = bool(principals & set(real_acl)) and all(
            node.acl is None or principals & set(node.acl) for node in nodes
        )
        rank = self.model.rank_of(person, acl)
        path = f"/api/knowledge-bases/{self.base.id}"
        for needed, answer in (
            (2, await client.post(f"{path}/items", json={"no such field": 1})),
            (3, await client.put(f"{path}/shares", json={"no such field": 1})),
            (3, await client.patch(path, json={"no such field": 1})),
        ):
            is_allowed = sees_all and rank >= needed
            assert (answer.status_code == 422) is is_allowed, (person, rank, needed, answer.text)
            assert is_allowed or answer.status_code in (403, 404)

    async def remove(self, what: str, acl: list[str]) -> list[str]:
        """Remove one thing from the model and from Gristmill; the symbols of the base's list then."""
        model = self.model
        living = [group for group in GROUPS if group not in model.deleted]
        if what == "member" and (pairs := [(g, p) for g in living for p in sorted(model.members[g])]):
            group, person = pairs[0]
            model.members[group].discard(person)
            await self.call("DELETE", f"groups/{self.group_ids[group]}/members/{self.user_ids[person]}")
        elif what == "child" and (
            links := [(g, c) for g in living for c in sorted(model.children[g] - model.deleted)]
        ):
            group, child = links[-1]
            model.children[group].discard(child)
            await self.call("DELETE", f"groups/{self.group_ids[group]}/members/{self.group_ids[child]}")
        elif what == "group":
            model.deleted.add(1)
            await self.call("DELETE", f"groups/{self.group_ids[1]}")
        elif what == "share" and acl:
            symbol = acl[-1]
            model.shares.pop(symbol, None)
            await self.call(
                "DELETE", f"knowledge-bases/{self.base.id}/shares", params={"principal": self.entries[symbol]}
            )
            return acl[:-1]
        elif what == "person":
            model.active.discard("bob")
            await self.call("PATCH", f"users/{self.user_ids['bob']}", json={"active": False})
        return acl


@settings(
    max_examples=examples(4, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(companies(), small_trees(), symbolic_lists, st.lists(REMOVALS, min_size=1, max_size=2, unique=True))
async def test_people_see_and_may_do_what_groups_of_groups_and_shares_allow(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    model: CompanyModel,
    tree: list[TreeNode],
    acl: list[str],
    removals: list[str],
) -> None:
    """S2-28, C18: by their keys and on their behalf; every removal applies from the next request on."""
    check = CompanyCheck(mill, http, model)
    nodes = await check.set_up(tree)
    await check.create(nodes, [check.entries[symbol] for symbol in acl])
    acl = await check.share(acl)
    await check.verify_people(nodes, acl)
    for what in removals:
        acl = await check.remove(what, acl)
        await check.verify_people(nodes, acl)
