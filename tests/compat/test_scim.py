"""SCIM: the request sequences that Okta and Entra ID publish, and what becomes of the people in them."""

from typing import Any

import httpx
import pytest

from gristmill import app
from tests.server.clients import client_with_key

pytestmark = pytest.mark.slow

CORE_USER = "urn:ietf:params:scim:schemas:core:2.0:User"
CORE_GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SCIM_JSON = {"Content-Type": "application/scim+json"}


class ScimClient:
    """A provider: requests below `/scim/v2` with a key of the role scim."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def send(self, method: str, path: str, body: Any = None, *, status: int = 200) -> dict[str, Any]:
        answer = await self.http.request(method, f"/scim/v2{path}", json=body, headers=SCIM_JSON)
        assert answer.status_code == status, answer.text
        if status != 204:
            assert answer.headers["content-type"].startswith("application/scim+json")
        return answer.json() if answer.content else {}

    async def find(self, kind: str, text: str) -> list[dict[str, Any]]:
        answer = await self.http.get(
            f"/scim/v2/{kind}", params={"filter": text, "startIndex": 1, "count": 100}
        )
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert page["totalResults"] == page["itemsPerPage"] == len(page["Resources"])
        return page["Resources"]

    async def patch(self, path: str, *operations: dict[str, Any], status: int = 200) -> dict[str, Any]:
        return await self.send(
            "PATCH", path, {"schemas": [PATCH_OP], "Operations": list(operations)}, status=status
        )


async def scim_key(http: httpx.AsyncClient) -> str:
    return (await http.post("/api/api-keys", json={"name": "provider", "role": "scim"})).json()["key"]


async def key_of(http: httpx.AsyncClient, user: str) -> str:
    body = {"name": "theirs", "role": "reader", "userId": user}
    return (await http.post("/api/api-keys", json=body)).json()["key"]


async def test_the_sequence_of_okta(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    """Create, update by PUT, put into a pushed group, rename the group, deactivate: the person is out at the next request."""
    async with client_with_key(mill, await scim_key(http)) as client:
        okta = ScimClient(client)
        assert await okta.find("Users", 'userName eq "ann.lee@x.org"') == []
        body: dict[str, Any] = {
            "schemas": [CORE_USER],
            "userName": "ann.lee@x.org",
            "name": {"givenName": "Ann", "familyName": "Lee"},
            "emails": [{"primary": True, "value": "ann.lee@x.org", "type": "work"}],
            "displayName": "Ann Lee",
            "locale": "en-US",
            "externalId": "00ujl29u0le5T6Aj10h7",
            "groups": [],
            "password": "1mz050nq",
            "active": True,
        }
        ann = await okta.send("POST", "/Users", body, status=201)
        path = f"/Users/{ann['id']}"
        assert (ann["userName"], ann["externalId"], ann["active"]) == (
            "ann.lee@x.org",
            "00ujl29u0le5T6Aj10h7",
            True,
        )
        shown = (await http.get(f"/api/users/{ann['id']}")).json()
        assert (shown["role"], shown["source"], shown["hasPassword"]) == ("reader", "scim", False)
        again = await okta.send("POST", "/Users", body, status=409)
        assert (again["status"], again["scimType"]) == ("409", "uniqueness")
        assert (await okta.send("GET", path))["name"]["familyName"] == "Lee"
        assert [user["id"] for user in await okta.find("Users", 'userName eq "ANN.LEE@x.org"')] == [ann["id"]]

        body |= {"name": {"givenName": "Ann", "familyName": "Mill"}, "displayName": "Ann Mill"}
        renamed = await okta.send("PUT", path, {**body, "id": ann["id"]})
        assert (renamed["displayName"], renamed["id"]) == ("Ann Mill", ann["id"])

        group = await okta.send(
            "POST",
            "/Groups",
            {"schemas": [CORE_GROUP], "displayName": "Test SCIMv2", "members": []},
            status=201,
        )
        group_path = f"/Groups/{group['id']}"
        member = {"value": ann["id"], "display": "ann.lee@x.org"}
        await okta.patch(group_path, {"op": "add", "path": "members", "value": [member]})
        await okta.patch(
            group_path, {"op": "replace", "value": {"id": group["id"], "displayName": "Renamed"}}
        )
        stored = await okta.send("GET", group_path)
        assert (stored["displayName"], [entry["value"] for entry in stored["members"]]) == (
            "Renamed",
            [ann["id"]],
        )
        base = {"name": "b", "acl": [f"group:{group['id']}"]}
        base_path = (
            f"/api/knowledge-bases/{(await http.post('/api/knowledge-bases', json=base)).json()['id']}"
        )

        async with client_with_key(mill, await key_of(http, ann["id"])) as theirs:
            assert (await theirs.get(base_path)).status_code == 200
            await okta.patch(group_path, {"op": "remove", "path": f'members[value eq "{ann["id"]}"]'})
            assert (await theirs.get(base_path)).status_code == 404
            answer = await okta.patch(path, {"op": "replace", "value": {"active": False}})
            assert answer["active"] is False
            assert (await theirs.get(base_path)).status_code == 401
        await okta.send("DELETE", group_path, status=204)
        await okta.send("GET", group_path, status=404)


async def test_the_sequence_of_entra(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    """Create, change by PATCH with filters in paths, disable with the text "False", delete; groups by externalId."""
    async with client_with_key(mill, await scim_key(http)) as client:
        entra = ScimClient(client)
        assert await entra.find("Users", 'externalId eq "obj-1"') == []
        body: dict[str, Any] = {
            "schemas": [CORE_USER, ENTERPRISE],
            "externalId": "obj-1",
            "userName": "bob@x.org",
            "active": True,
            "displayName": "Bob Stone",
            "emails": [{"primary": True, "type": "work", "value": "bob.stone@x.org"}],
            "meta": {"resourceType": "User"},
            "name": {"formatted": "Bob Stone", "familyName": "Stone", "givenName": "Bob"},
            "roles": [],
            f"{ENTERPRISE}": {"department": "Milling"},
        }
        bob = await entra.send("POST", "/Users", body, status=201)
        path = f"/Users/{bob['id']}"
        assert bob["emails"][0]["value"] == "bob.stone@x.org"
        changed = await entra.patch(
            path,
            {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "Robert@x.org"},
            {"op": "Replace", "path": "name.familyName", "value": "Grind"},
            {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Sifting"},
            {"op": "Add", "value": {"userName": "robert@x.org", "name.givenName": "Robert"}},
        )
        assert (changed["emails"][0]["value"], changed["displayName"], changed["userName"]) == (
            "robert@x.org",
            "Robert Grind",
            "robert@x.org",
        )
        users = await entra.find("Users", 'emails[type eq "work"].value eq "robert@x.org"')
        assert [user["id"] for user in users] == [bob["id"]]

        group_body = {"schemas": [CORE_GROUP], "externalId": "grp-1", "displayName": "Millers"}
        group = await entra.send("POST", "/Groups", group_body, status=201)
        path_of_group = f"/Groups/{group['id']}"
        (listed,) = (
            await client.get(
                "/scim/v2/Groups",
                params={"excludedAttributes": "members", "filter": 'displayName eq "Millers"'},
            )
        ).json()["Resources"]
        assert "members" not in listed
        reference = {"$ref": None, "value": bob["id"]}
        await entra.patch(path_of_group, {"op": "Add", "path": "members", "value": [reference]})
        await entra.patch(path_of_group, {"op": "Replace", "path": "displayName", "value": "Sifters"})
        stored = await entra.send("GET", path_of_group)
        assert (stored["displayName"], len(stored["members"])) == ("Sifters", 1)
        await entra.patch(path_of_group, {"op": "Remove", "path": "members", "value": [reference]})
        assert (await entra.send("GET", path_of_group))["members"] == []

        async with client_with_key(mill, await key_of(http, bob["id"])) as theirs:
            assert (await theirs.get("/api/session")).json()["user"]["name"] == "Robert Grind"
            disabled = await entra.patch(path, {"op": "Replace", "path": "active", "value": "False"})
            assert disabled["active"] is False
            assert (await theirs.get("/api/session")).status_code == 401
            await entra.patch(path, {"op": "Replace", "path": "active", "value": "True"})
            assert (await theirs.get("/api/session")).status_code == 200
            await entra.send("DELETE", path, status=204)
            assert (await theirs.get("/api/session")).status_code == 401


async def test_requests_that_a_provider_should_not_send_change_nothing(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    admin = (await http.post("/api/users", json={"email": "root@x.org", "role": "admin"})).json()
    without_address = {"schemas": [CORE_USER], "userName": "no address"}
    async with client_with_key(mill, await scim_key(http)) as client:
        scim = ScimClient(client)
        for path, name in (
            ("ServiceProviderConfig", "patch"),
            ("ResourceTypes", "Resources"),
            ("Schemas", "Resources"),
        ):
            assert (await scim.send("GET", f"/{path}"))[name]
        refusal = await scim.patch(
            f"/Users/{admin['id']}", {"op": "replace", "value": {"active": False}}, status=403
        )
        assert refusal["code"] == "scim_local_admin"
        await scim.send("DELETE", f"/Users/{admin['id']}", status=403)
        answer = await scim.send("POST", "/Users", without_address, status=400)
        assert answer["scimType"] == "invalidValue"
        answer = await client.get("/scim/v2/Users", params={"filter": "userName sw a or true"})
        assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidFilter")
        for operation in (
            {"op": "grow"},
            {"op": "replace"},
            {"op": "replace", "path": "active", "value": "perhaps"},
        ):
            created = await scim.send(
                "POST", "/Users", {"userName": f"{operation['op']}{len(operation)}@x.org"}, status=201
            )
            await scim.patch(f"/Users/{created['id']}", operation, status=400)
        await scim.send("GET", "/Users/none", status=404)
        page = (await client.get("/scim/v2/Users", params={"startIndex": 2, "count": 1})).json()
        assert (page["totalResults"], page["startIndex"], len(page["Resources"])) == (4, 2, 1)
    reader = (await http.post("/api/api-keys", json={"name": "r", "role": "editor"})).json()["key"]
    async with client_with_key(mill, reader) as client:
        assert (await client.get("/scim/v2/Users")).status_code == 403
