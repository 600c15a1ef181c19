"""Users and groups: who they are, what their keys and sessions may do, and how fast that ends."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app
from tests.database_clock import DatabaseClock
from tests.gristmill_process import environment, run_command, run_serve
from tests.server.clients import client_with_key, new_key, new_organisation

pytestmark = pytest.mark.slow

PASSWORD = "correct horse battery"
SAME_ORIGIN = {"Origin": "http://localhost"}


async def create(http: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/api/{path}", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def new_user(http: httpx.AsyncClient, name: str, **body: Any) -> dict[str, Any]:
    return await create(http, "users", email=f"{name}@x.org", **body)


async def add_to(http: httpx.AsyncClient, group: dict[str, Any], *members: dict[str, Any]) -> httpx.Response:
    body = {
        "userIds": [member["id"] for member in members if "email" in member],
        "groupIds": [member["id"] for member in members if "email" not in member],
    }
    return await http.post(f"/api/groups/{group['id']}/members", json=body)


async def sign_in(browser: httpx.AsyncClient, email: str, password: str = PASSWORD) -> httpx.Response:
    return await browser.post(
        "/api/session", json={"email": email, "password": password}, headers=SAME_ORIGIN
    )


async def test_a_key_of_a_user_sees_what_groups_of_groups_allow_and_ends_with_the_user(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A change of members, of the role or of the account applies to the next request; reads of items included."""
    ann = await new_user(http, "Ann", role="editor")
    assert (ann["email"], ann["name"], ann["source"]) == ("ann@x.org", "ann", "local")
    inner, outer = await create(http, "groups", name="Inner"), await create(http, "groups", name="Outer")
    base = await create(http, "knowledge-bases", name="b", acl=[f"group:{outer['id']}"])
    item = (
        await http.post(
            f"/api/knowledge-bases/{base['id']}/items", json={"items": [{"type": "note", "content": "x"}]}
        )
    ).json()["created"][0]["id"]
    key = await create(http, "api-keys", name="ann's", role="admin", userId=ann["id"])
    assert (await add_to(http, outer, inner)).status_code == 200
    cycle = await add_to(http, inner, outer)
    assert (cycle.status_code, cycle.json()["code"]) == (422, "group_cycle")
    async with client_with_key(mill, key["key"]) as client:
        caller = (await client.get("/api/session")).json()
        assert (caller["role"], caller["user"]["email"]) == ("editor", "ann@x.org"), "the lower role counts"

        async def statuses() -> set[int]:
            paths = (
                f"/api/knowledge-items/{item}",
                f"/api/knowledge-bases/{base['id']}/items",
                f"/api/knowledge-bases/{base['id']}",
            )
            return {(await client.get(path)).status_code for path in paths}

        assert await statuses() == {404}
        await add_to(http, inner, ann)
        assert await statuses() == {200}
        on_behalf = {"X-Gristmill-On-Behalf-Of": "email:ann@x.org"}
        assert (await http.get(f"/api/knowledge-items/{item}", headers=on_behalf)).status_code == 200
        await http.delete(f"/api/groups/{outer['id']}/members/{inner['id']}")
        assert await statuses() == {404}
        assert (await http.get(f"/api/knowledge-items/{item}", headers=on_behalf)).status_code == 404
        await add_to(http, outer, inner)
        assert await statuses() == {200}
        await http.patch(f"/api/users/{ann['id']}", json={"active": False})
        assert await statuses() == {401}
        assert (await http.get(f"/api/knowledge-items/{item}", headers=on_behalf)).status_code == 404
        await http.patch(f"/api/users/{ann['id']}", json={"active": True, "role": "reader"})
        assert await statuses() == {200}
        body = {"items": [{"type": "note", "content": "y"}]}
        refusal = await client.post(f"/api/knowledge-bases/{base['id']}/items", json=body)
        assert (refusal.status_code, refusal.json()["code"]) == (403, "role_too_low")
        await http.delete(f"/api/users/{ann['id']}")
        assert await statuses() == {401}
    assert (await http.get(f"/api/api-keys/{key['id']}")).status_code == 404
    members = (await http.get(f"/api/groups/{inner['id']}/members")).json()["items"]
    assert members == []


async def test_a_user_signs_in_with_a_password_and_is_out_when_it_ends(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    assert (await http.get("/api/session/methods")).json()["password"] is False
    ann = await new_user(http, "ann", role="editor", password=PASSWORD)
    assert (await http.get("/api/session/methods")).json()["password"] is True
    user_path = f"/api/users/{ann['id']}"
    async with client_with_key(mill, None) as browser, client_with_key(mill, None) as other:

        async def status() -> int:
            return (await browser.get("/api/session")).status_code

        unknown, wrong = await sign_in(browser, "bob@x.org"), await sign_in(browser, "ann@x.org", "wrong")
        assert (unknown.status_code, unknown.content) == (401, wrong.content), "accounts can't be enumerated"
        answer = await sign_in(browser, "Ann@x.org")
        assert answer.status_code == 201
        assert (answer.json()["user"]["id"], answer.json()["keyId"]) == (ann["id"], None)
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert answer.json()["serverPaths"] is False, "a user who signed in is not the local user"
        first = browser.cookies["gristmill_session"]
        assert (await browser.post("/api/knowledge-bases", json={"name": "x"})).json()["code"] == "no_origin"
        await sign_in(browser, "ann@x.org")
        assert browser.cookies["gristmill_session"] != first
        other.cookies.set("gristmill_session", first)
        assert (await other.get("/api/session")).status_code == 401, "a sign-in ends the earlier session"
        created = await browser.post("/api/knowledge-bases", json={"name": "mine"}, headers=SAME_ORIGIN)
        assert created.json()["acl"] == [f"user:{ann['id']}"]

        await clock.advance(timedelta(hours=3))
        assert await status() == 200
        await clock.advance(timedelta(hours=3, minutes=59))
        assert await status() == 200, "each use starts the idle time again"
        await clock.advance(timedelta(hours=4, minutes=1))
        assert await status() == 401, "idle for too long"
        await sign_in(browser, "ann@x.org")
        await http.patch(user_path, json={"active": False})
        assert await status() == 401
        assert (await sign_in(browser, "ann@x.org")).status_code == 401
        await http.patch(user_path, json={"active": True})
        assert await status() == 401, "a session that ended does not come back"
        await sign_in(browser, "ann@x.org")
        assert (await browser.delete("/api/session/all", headers=SAME_ORIGIN)).status_code == 204
        assert await status() == 401


async def test_a_new_password_ends_other_sessions_and_guessing_is_slowed_down(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    ann = await new_user(http, "ann", password=PASSWORD)
    short = await http.patch(f"/api/users/{ann['id']}", json={"password": "short"})
    assert (short.status_code, short.json()["code"]) == (422, "bad_password")
    async with client_with_key(mill, None) as browser, client_with_key(mill, None) as other:
        await sign_in(browser, "ann@x.org")
        await sign_in(other, "ann@x.org")
        body = {"currentPassword": "wrong", "newPassword": "another battery"}
        answer = await browser.put("/api/session/password", json=body, headers=SAME_ORIGIN)
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_password")
        body["currentPassword"] = PASSWORD
        answer = await browser.put("/api/session/password", json=body, headers=SAME_ORIGIN)
        assert answer.status_code == 204
        assert (await browser.get("/api/session")).status_code == 200
        assert (await other.get("/api/session")).status_code == 401
        assert (await sign_in(other, "ann@x.org")).status_code == 401
        assert (await sign_in(other, "ann@x.org", "another battery")).status_code == 201
        codes = [(await sign_in(other, "ann@x.org", f"guess {n}")).json()["code"] for n in range(6)]
        assert codes[-1] == "too_many_sign_ins"
        assert (await sign_in(other, "ann@x.org", "another battery")).status_code == 429
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select u::text from user_account u")).fetchall()
    assert "$argon2id$" in str(rows)
    assert "another battery" not in str(rows)


async def test_names_and_addresses_are_unique_and_a_scim_key_can_do_nothing_else(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    ann, bob = await new_user(http, "ann"), await new_user(http, "bob")
    taken = await http.post("/api/users", json={"email": "ANN@x.org"})
    assert (taken.status_code, taken.json()["code"]) == (409, "user_exists")
    taken = await http.patch(f"/api/users/{bob['id']}", json={"email": "ann@x.org"})
    assert (taken.status_code, taken.json()["code"]) == (409, "user_exists")
    moved = await http.patch(f"/api/users/{ann['id']}", json={"email": "lee@x.org", "name": "Lee"})
    assert (moved.json()["email"], moved.json()["userName"], moved.json()["name"]) == (
        "lee@x.org",
        "lee@x.org",
        "Lee",
    )
    assert [user["name"] for user in (await http.get("/api/users?q=LEE")).json()["items"]] == ["Lee"]
    group = await create(http, "groups", name="Research")
    taken = await http.post("/api/groups", json={"name": "research"})
    assert (taken.status_code, taken.json()["code"]) == (409, "group_exists")
    renamed = await http.patch(f"/api/groups/{group['id']}", json={"name": "Science"})
    assert renamed.json()["name"] == "Science"
    await add_to(http, group, ann)
    detail = (await http.get(f"/api/users/{ann['id']}")).json()
    assert detail["groups"] == [{"id": group["id"], "name": "Science"}]
    key = await create(http, "api-keys", name="okta", role="scim")
    async with client_with_key(mill, key["key"]) as client:
        for path in ("/api/session", "/api/knowledge-bases", "/api/users"):
            assert (await client.get(path)).status_code == 403
    bad = await http.post("/api/api-keys", json={"name": "k", "role": "scim", "userId": bob["id"]})
    assert bad.status_code == 422


async def test_a_base_is_shared_as_reader_editor_or_owner_and_the_reason_can_be_asked(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A share counts more than the own role, in both directions; the explanation names the groups in between."""
    ann, bob = await new_user(http, "ann", role="reader"), await new_user(http, "bob", role="editor")
    inner, outer = await create(http, "groups", name="In"), await create(http, "groups", name="The Outer")
    await add_to(http, inner, ann)
    await add_to(http, outer, inner)
    base = await create(http, "knowledge-bases", name="b")
    path = f"/api/knowledge-bases/{base['id']}"
    keys = [
        (await create(http, "api-keys", name="k", role="editor", userId=user["id"]))["key"]
        for user in (ann, bob)
    ]
    other_org = await new_organisation(mill.db, "others")
    async with (
        client_with_key(mill, keys[0]) as anns,
        client_with_key(mill, keys[1]) as bobs,
        client_with_key(mill, (await new_key(mill.db, other_org, "admin"))[1]) as stranger,
    ):

        async def share(principal: str, role: str, by: httpx.AsyncClient = http) -> httpx.Response:
            return await by.put(f"{path}/shares", json={"principal": principal, "role": role})

        shown = (await share("group:the outer", "editor")).json()
        assert (shown["principal"], shown["name"]) == (f"group:{outer['id']}", "The Outer")
        shown = (await share("user_email:BOB@x.org", "reader")).json()
        assert (shown["principal"], shown["email"]) == (f"user:{bob['id']}", "bob@x.org")
        notes = {"items": [{"type": "note", "content": "x"}]}
        added = await anns.post(f"{path}/items", json=notes)
        assert added.status_code == 202, added.text
        refusal = await bobs.post(f"{path}/items", json=notes)
        assert (refusal.status_code, refusal.json()["code"]) == (403, "role_too_low")
        assert (await share("org:*", "reader", anns)).json()["code"] == "role_too_low"
        await share(f"user:{bob['id']}", "owner")
        assert (await share("team:7", "reader", bobs)).status_code == 200
        assert (await bobs.patch(path, json={"name": "ours"})).status_code == 200
        names = [entry["name"] for entry in (await bobs.get(f"{path}/shares")).json()["items"]]
        assert names == ["The Outer", "bob", "7"]

        item = added.json()["created"][0]["id"]
        reason = (await http.get(f"/api/users/{ann['id']}/access", params={"itemId": item})).json()
        assert (reason["allowed"], reason["role"], reason["listItemId"]) == (True, "editor", None)
        assert [entry["through"] for entry in reason["reasons"]] == [["In", "The Outer"]]
        theirs = (await stranger.post("/api/users", json={"email": "eve@x.org"})).json()["id"]
        for query in ({"itemId": item}, {"baseId": base["id"]}):
            assert (await stranger.get(f"/api/users/{theirs}/access", params=query)).status_code == 404
        assert (await share(f"user:{theirs}", "owner")).json()["code"] == "user_not_found"
        await bobs.delete(f"{path}/shares", params={"principal": "group:The Outer"})
        assert (await anns.get(path)).status_code == 404
        reason = (await http.get(f"/api/users/{ann['id']}/access", params={"itemId": item})).json()
        assert (reason["allowed"], reason["role"]) == (False, None)
        await http.patch(path, json={"acl": ["org:*"]})
        assert (await bobs.delete(path)).status_code == 403, "a share ends with its entry"
        own = (await bobs.post("/api/knowledge-bases", json={"name": "bob's"})).json()["id"]
        assert (await bobs.delete(f"/api/knowledge-bases/{own}")).status_code == 202, (
            "who creates a base owns it"
        )


def test_commands_manage_users_and_groups(tmp_path: Path, cache_dir: Path) -> None:
    """One walk through both: each command starts a process."""
    env = environment(tmp_path, cache_dir)

    def run(*arguments: str) -> str:
        result = run_command(env, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    with run_serve(env, log=tmp_path / "log.txt"):  # keeps the database running
        created = subprocess.run(
            [sys.executable, "-m", "gristmill", "user", "create", "ann@x.org", "--password-stdin"],
            input=f"{PASSWORD}\n",
            env=env,
            capture_output=True,
            text=True,
        )
        assert created.returncode == 0, created.stderr
        run("group", "create", "Research")
        run("group", "add", "Research", "ann@x.org")
        assert "ann@x.org" in run("group", "members", "Research")
        run("keys", "create", "ann's", "--user", "ann@x.org")
        run("user", "deactivate", "ann@x.org")
        shown = json.loads(run("user", "show", "ann@x.org", "--json"))
        assert (shown["groups"], shown["active"], shown["hasPassword"]) == (["Research"], False, True)
        assert len(shown["keys"]) == 1
        unknown = run_command(env, "user", "delete", "bob@x.org")
        assert unknown.returncode != 0
        assert "no user" in unknown.stderr


async def test_a_person_makes_keys_of_their_own_that_end_with_them(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A key has at most the role of its person, creates no keys, and others don't see it."""
    ann, bob = (
        await new_user(http, "Ann", role="editor", password=PASSWORD),
        await new_user(http, "Bob", password=PASSWORD),
    )
    async with client_with_key(mill, None) as annes, client_with_key(mill, None) as bobs:
        for client, user in ((annes, ann), (bobs, bob)):
            assert (await sign_in(client, user["email"])).status_code == 201
            client.headers.update(SAME_ORIGIN)
        made = (await annes.post("/api/session/keys", json={"name": "mine", "role": "admin"})).json()
        assert (made["role"], made["userId"]) == ("editor", ann["id"])
        assert [key["name"] for key in (await annes.get("/api/session/keys")).json()["items"]] == ["mine"]
        assert (await bobs.get("/api/session/keys")).json()["items"] == []
        refused = await bobs.delete(f"/api/session/keys/{made['id']}")
        assert (refused.status_code, refused.json()["code"]) == (404, "key_not_found")
        async with client_with_key(mill, made["key"]) as program:
            assert (await program.get("/api/session")).json()["user"]["id"] == ann["id"]
            refused = await program.post("/api/session/keys", json={"name": "another"})
            assert (refused.status_code, refused.json()["code"]) == (403, "sign_in_required")
            second = (await annes.post("/api/session/keys", json={"name": "second"})).json()
            assert (await annes.delete(f"/api/session/keys/{second['id']}")).status_code == 204
            await http.delete(f"/api/users/{ann['id']}")
            assert (await program.get("/api/session")).status_code == 401
    assert (await http.get(f"/api/api-keys/{made['id']}")).status_code == 404
    assert (await http.get("/api/session/keys")).json()["items"] == []
    refused = await http.post("/api/session/keys", json={"name": "local"})
    assert refused.json()["code"] == "sign_in_required"
