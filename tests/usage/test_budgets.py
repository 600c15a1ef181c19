"""Budgets pause and go on, quotas refuse, and the ledger counts what was embedded, through the API of a running Gristmill."""

import csv
import io
from typing import Any

import httpx
import pytest

from gristmill import app
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until


async def create_base(http: httpx.AsyncClient, name: str) -> str:
    return (await http.post("/api/knowledge-bases", json={"name": name})).json()["id"]


async def add_notes(http: httpx.AsyncClient, base: str, first: int, count: int) -> httpx.Response:
    notes = [
        {"type": "note", "title": f"n{n}", "content": f"Sack number {n}."}
        for n in range(first, first + count)
    ]
    return await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})


async def items_of(http: httpx.AsyncClient, base: str) -> list[dict[str, Any]]:
    response = await http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 200})
    return response.json()["items"]


async def wait_until_completed(http: httpx.AsyncClient, base: str, count: int) -> None:
    async def are_completed() -> bool:
        items = await items_of(http, base)
        return [item["status"] for item in items].count("completed") == count

    await wait_until(are_completed)


async def wait_until_paused(http: httpx.AsyncClient, base: str, count: int) -> list[dict[str, Any]]:
    """The items that wait for a budget, once there are so many."""

    async def paused() -> list[dict[str, Any]] | None:
        waiting = [item for item in await items_of(http, base) if item["waitingFor"] is not None]
        return waiting if len(waiting) == count else None

    return await wait_until(paused)


async def set_limit(http: httpx.AsyncClient, **fields: object) -> dict[str, Any]:
    response = await http.post("/api/limits", json=fields)
    assert response.status_code == 201, response.text
    return response.json()


async def test_a_used_up_budget_pauses_one_base_and_goes_on_when_it_is_raised(
    http: httpx.AsyncClient,
) -> None:
    base, other = await create_base(http, "paid"), await create_base(http, "free")
    budget = await set_limit(http, kind="budget", measure="chunks", amount=7, baseId=base)
    assert (budget["period"], budget["used"], budget["usedUp"]) == ("month", 0, False)
    await add_notes(http, base, 0, 12)
    (waiting, *_) = await wait_until_paused(http, base, 5)
    assert waiting["status"] in ("processing", "reading", "embedding")
    assert waiting["waitingFor"]["code"] == "budget_used_up"
    assert "the budget of the base paid (7 chunks this month) is used up" in waiting["waitingFor"]["message"]
    await add_notes(http, other, 100, 3)
    await wait_until_completed(http, other, 3)
    (shown,) = (await http.get("/api/limits", params={"baseId": base})).json()["items"]
    assert (shown["used"], shown["reserved"], shown["usedUp"]) == (7, 0, True)
    assert (await http.get("/api/health/invariants")).json() == {"violations": []}
    await http.patch(f"/api/limits/{budget['id']}", json={"amount": 9})
    await wait_until_paused(http, base, 3)
    assert (await http.delete(f"/api/limits/{budget['id']}")).status_code == 204
    await wait_until_completed(http, base, 12)


async def test_usage_is_counted_by_base_and_caller_and_texts_that_are_known_cost_nothing(
    mill: app.Gristmill,
) -> None:
    org = await new_organisation(mill.db, "miller")
    async with (
        client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as admin,
        client_with_key(mill, (await new_key(mill.db, org, "editor", email="ann@example.org"))[1]) as ann,
        client_with_key(mill, (await new_key(mill.db, org, "reader"))[1]) as reader,
    ):
        base = (await admin.post("/api/knowledge-bases", json={"name": "=flour", "acl": ["org:*"]})).json()[
            "id"
        ]
        await add_notes(admin, base, 0, 2)
        await wait_until_completed(admin, base, 2)
        await add_notes(ann, base, 1, 4)  # the first of them is known
        await wait_until_completed(admin, base, 6)
        report = (await admin.get("/api/usage")).json()
        by_caller = {row["caller"]: (row["texts"], row["tokens"], row["kind"]) for row in report["items"]}
        assert by_caller.pop("user_email:ann@example.org") == (3, 12, "index")
        ((name, spent),) = by_caller.items()
        assert (name.split(":")[0], spent) == ("key", (2, 8, "index"))
        assert report["totals"] == {"texts": 5, "tokens": 20, "cost": 0}
        table = list(csv.DictReader(io.StringIO((await admin.get("/api/usage?format=csv")).text)))
        assert sorted(row["texts"] for row in table) == ["2", "3"]
        assert {row["base"] for row in table} == {"'=flour"}, "a name is no formula"
        assert (await admin.get("/api/usage", params={"until": "2020-01-31"})).json()["items"] == []
        assert (await reader.get("/api/usage")).json()["code"] == "role_too_low"
    async with client_with_key(
        mill, (await new_key(mill.db, await new_organisation(mill.db, "b"), "admin"))[1]
    ) as other:
        assert (await other.get("/api/usage")).json()["items"] == []
        assert (await other.get("/api/limits")).json()["items"] == []


async def test_a_quota_refuses_what_is_added_and_fails_what_a_folder_has_too_much(
    http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = await create_base(http, "small")
    await set_limit(http, kind="quota", measure="items", amount=4, baseId=base)
    refused = await add_notes(http, base, 0, 5)
    assert (refused.status_code, refused.json()["code"]) == (409, "quota_exceeded")
    assert "4 items, of which 0 are used" in refused.json()["detail"]
    assert await items_of(http, base) == []
    folder = tmp_path_factory.mktemp("sacks")
    for number in range(6):
        (folder / f"{number}.md").write_text(f"Rye {number}")
    await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "directory", "path": str(folder)}]}
    )

    async def listed() -> list[dict[str, Any]] | None:
        response = await http.get(
            f"/api/knowledge-bases/{base}/items", params={"parentId": "*", "type": "file"}
        )
        files = response.json()["items"]
        return (
            files
            if {file["status"] for file in files} == {"completed", "failed"} and len(files) == 6
            else None
        )

    files = await wait_until(listed)
    codes = [file["error"]["code"] for file in files if file["status"] == "failed"]
    assert codes == ["quota_exceeded"] * 2
    failed = [file["id"] for file in files if file["status"] == "failed"]
    await http.post(f"/api/knowledge-bases/{base}/items/reindex", json={"itemIds": failed})

    async def are_refused_again() -> bool:
        jobs = [(await http.get("/api/jobs", params={"itemId": item})).json()["items"] for item in failed]
        codes = [job["errors"][-1]["code"] for page in jobs for job in page if job["state"] == "dead"]
        return codes == ["quota_exceeded"] * 2

    await wait_until(are_refused_again)
    for measure, kind, problem in (("items", "budget", "measure"), ("money", "quota", "measure")):
        response = await http.post("/api/limits", json={"kind": kind, "measure": measure, "amount": 1})
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, problem)
    size = {"kind": "quota", "measure": "bytes", "amount": 10, "baseId": base}
    assert (await http.post("/api/limits", json=size)).json()["usedUp"] is True
    assert (await http.delete("/api/limits/00000000-0000-7000-8000-000000000009")).json()[
        "code"
    ] == "limit_not_found"
