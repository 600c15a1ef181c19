"""Retention, legal holds and the deletion report, through the API."""

import csv
import hashlib
import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from gristmill import app, events
from gristmill.integrity.reconcile import Reconciler
from gristmill.operations.retention import apply_retention
from tests.api_calls import (
    add_items,
    assert_healthy,
    assert_problem,
    item_titles,
    make_base,
    search,
    wait_for_job,
    wait_until_ended,
)
from tests.wait_until import wait_until


async def upload(http: httpx.AsyncClient, base: str, name: str, text: str) -> str:
    """Upload a file, or replace the one with this name; wait until it is indexed."""
    response = await http.post(
        f"/api/knowledge-bases/{base}/files",
        files=[("files", (name, text.encode()))],
        data={"onConflict": "replace"},
    )
    assert response.status_code == 202, response.text
    item = response.json()["created"][0]["id"]
    assert (await wait_until_ended(http, item))["status"] == "completed"
    return item


async def reprocess(http: httpx.AsyncClient, item: str) -> None:
    """Read an item again, to the end."""
    response = await http.post(f"/api/knowledge-items/{item}/reprocess")
    assert response.status_code == 202, response.text
    await wait_for_job(http, response.json()["jobId"])
    await wait_until_ended(http, item)


async def note(http: httpx.AsyncClient, base: str, text: str) -> str:
    item = (await add_items(http, base, {"type": "note", "content": text}))["created"][0]["id"]
    await wait_until_ended(http, item)
    return item


async def age(mill: app.Gristmill, days: int, *items: str) -> None:
    """Make the content of items older."""
    async with mill.db.transaction() as tx:
        await tx.execute(
            "update item_version set changed_at = changed_at - make_interval(days => %s),"
            " replaced_at = replaced_at - make_interval(days => %s) where item_id = any (%s::uuid[])",
            [days, days, list(items)],
        )


async def place_hold(http: httpx.AsyncClient, base: str, item: str | None = None) -> str:
    body = {"reason": "Case 7"} | ({} if item is None else {"itemId": item})
    response = await http.post(f"/api/knowledge-bases/{base}/legal-holds", json=body)
    assert response.status_code == 201, response.text
    return response.json()["id"]


async def lift_hold(http: httpx.AsyncClient, base: str, hold: str) -> None:
    response = await http.delete(f"/api/knowledge-bases/{base}/legal-holds/{hold}")
    assert response.status_code == 200, response.text
    assert response.json()["liftedBy"] == "local"


async def report(http: httpx.AsyncClient, base: str, count: int) -> list[dict[str, Any]]:
    """The deletion report of a base, once it has so many entries."""

    async def entries() -> list[dict[str, Any]] | None:
        page = (await http.get("/api/deletions", params={"baseId": base})).json()
        return page["items"] if len(page["items"]) >= count else None

    deletions = await wait_until(entries)
    assert len(deletions) == count
    return deletions


async def set_rule(http: httpx.AsyncClient, base: str, **days: int) -> None:
    response = await http.put(f"/api/knowledge-bases/{base}/retention", json=days)
    assert response.status_code == 200, response.text


async def test_old_documents_are_deleted_unless_a_hold_covers_them_and_the_report_says_so(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """A reindex does not make a document younger; a new upload of other contents does."""
    base = await make_base(http)
    old = await upload(http, base, "old.txt", "Barley is old.")
    held = await upload(http, base, "held.txt", "Rye is under a hold.")
    reindexed = await upload(http, base, "reindexed.txt", "Oats are read again.")
    changed = await upload(http, base, "changed.txt", "Wheat was this.")
    young = await note(http, base, "Millet is secret and young.")
    await age(mill, 400, old, held, reindexed, changed)
    await upload(http, base, "changed.txt", "Wheat is that.")
    await reprocess(http, reindexed)
    await set_rule(http, base, documentDays=365)
    hold = await place_hold(http, base, held)

    assert await apply_retention(mill.db) == 2
    assert await item_titles(http, base) == ["Millet is secret and young.", "changed.txt", "held.txt"]
    entries = await report(http, base, 2)
    assert {entry["title"] for entry in entries} == {"old.txt", "reindexed.txt"}
    by_title = {entry["title"]: entry for entry in entries}
    assert by_title["old.txt"]["originalHash"] == hashlib.sha256(b"Barley is old.").hexdigest()
    assert {entry["reason"] for entry in entries} == {"retention"}

    await lift_hold(http, base, hold)
    assert await apply_retention(mill.db) == 1
    assert await apply_retention(mill.db) == 0
    await http.delete(f"/api/knowledge-items/{young}")
    entries = await report(http, base, 4)
    assert (entries[-1]["reason"], entries[-1]["actor"]) == ("person", "local")
    text = (await http.get("/api/deletions.csv", params={"baseId": base})).text
    assert [row["id"] for row in csv.DictReader(io.StringIO(text))] == [entry["id"] for entry in entries]
    assert "secret" not in text  # the title of a note is the beginning of its text
    await assert_healthy(http)


async def test_what_a_hold_covers_can_be_deleted_by_no_one_until_it_is_lifted(
    mill: app.Gristmill, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """People are refused; a source that lacks it, a connector or a listing, leaves it as it is."""
    folder = tmp_path / "mill"
    folder.mkdir()
    for name in ("held.md", "free.md"):
        (folder / name).write_text(f"# {name}\n\nThe text of {name}.")
    base, other = await make_base(http), await make_base(http, "other")
    root = (await add_items(http, base, {"type": "directory", "path": str(folder)}))["created"][0]["id"]
    await wait_until_ended(http, root)
    items = (await http.get(f"/api/knowledge-bases/{base}/items", params={"parentId": root})).json()["items"]
    ids = {item["title"]: item["id"] for item in items}
    hold = await place_hold(http, base, ids["held.md"])

    for item in (ids["held.md"], root):
        assert_problem(await http.delete(f"/api/knowledge-items/{item}"), 409, "legal_hold")
    assert_problem(await http.delete(f"/api/knowledge-bases/{base}"), 409, "legal_hold")
    move = {"itemIds": [root], "toBaseId": other}
    assert_problem(await http.post(f"/api/knowledge-bases/{base}/items/move", json=move), 409, "legal_hold")
    for name in ("held.md", "free.md"):
        (folder / name).unlink()
    await reprocess(http, root)
    await report(http, base, 1)
    assert (await wait_until_ended(http, root))["status"] == "completed"
    assert await item_titles(http, base, parentId="*") == ["held.md", "mill"]
    assert [hit["title"] for hit in await search(http, base, "text of held")] == ["held.md"]

    await lift_hold(http, base, hold)
    again = await http.delete(f"/api/knowledge-bases/{base}/legal-holds/{hold}")
    assert_problem(again, 409, "hold_lifted")
    await reprocess(http, root)
    entries = await report(http, base, 2)
    assert [(entry["title"], entry["reason"]) for entry in entries] == [
        ("free.md", "source"),
        ("held.md", "source"),
    ]
    response = await http.delete(f"/api/knowledge-bases/{base}")
    assert (await wait_for_job(http, response.json()["jobId"]))["state"] == "done"
    assert [entry["type"] for entry in await report(http, base, 3)] == ["file", "file", "directory"]
    listed = (await http.get(f"/api/knowledge-bases/{other}/legal-holds", params={"lifted": True})).json()
    assert listed["items"] == []


async def test_versions_are_kept_for_their_time_or_under_a_hold(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """With the bytes of the upload. Searches find the newest only."""
    base = await make_base(http)
    item = await upload(http, base, "price.txt", "Flour costs three.")
    await upload(http, base, "price.txt", "Flour costs four.")
    assert (await http.get(f"/api/knowledge-items/{item}/versions")).json()["items"] == []
    await set_rule(http, base, versionDays=30)
    await upload(http, base, "price.txt", "Flour costs five.")
    await reprocess(http, item)
    (kept,) = (await http.get(f"/api/knowledge-items/{item}/versions")).json()["items"]
    assert kept["originalHash"] == hashlib.sha256(b"Flour costs four.").hexdigest()
    path = f"/api/knowledge-items/{item}/versions/{kept['version']}/content"
    assert (await http.get(path)).text == "Flour costs four."
    assert "five" in (await search(http, base, "flour costs"))[0]["text"]
    assert len(await search(http, base, "flour costs")) == 1

    hold = await place_hold(http, base)
    await age(mill, 31, item)
    assert await apply_retention(mill.db) == 0
    await lift_hold(http, base, hold)
    assert await apply_retention(mill.db) == 1
    assert_problem(await http.get(path), 404, "version_not_found")
    (entry,) = await report(http, base, 1)
    assert (entry["version"], entry["reason"]) == (kept["version"], "retention")
    assert entry["originalHash"] == kept["originalHash"]
    async with mill.db.connection() as tx:
        cursor = await tx.execute("select count(*) from content")
        assert await cursor.fetchone() == (1,)
    await assert_healthy(http)


async def test_the_audit_log_of_a_base_is_kept_as_long_as_the_base_says(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Requests that name the base or one of its items, also of a base that is gone; the others are kept as the setting says."""
    short, long, plain = [await make_base(http, name) for name in ("short", "long", "plain")]
    items = {base: await note(http, base, "rye") for base in (short, long, plain)}
    await set_rule(http, short, auditDays=2)
    await set_rule(http, long, auditDays=200)
    for item in items.values():
        assert (await http.patch(f"/api/knowledge-items/{item}", json={"title": "renamed"})).is_success
    names = {short: "short", long: "long", plain: "plain"} | dict(
        zip(items.values(), ("item of short", "item of long", "item of plain"), strict=True)
    )

    async def entries() -> set[str]:
        shown = (await http.get("/api/audit", params={"limit": 500})).json()["items"]
        return {names.get(entry["path"].split("/")[3], "") for entry in shown if entry["path"].count("/") > 2}

    async def age_log(days: int) -> None:
        async with mill.db.transaction() as tx:
            await tx.execute("update audit set at = at - make_interval(days => %s)", [days])
        await Reconciler(mill.db, mill.sources.blobs, timedelta(days=30)).run_pass()

    assert await entries() == set(names.values())
    await age_log(3)
    assert await entries() == {"long", "plain", "item of long", "item of plain"}
    await age_log(90)
    assert await entries() == {"long", "item of long"}
    await age_log(110)
    assert await entries() == set()


async def test_events_are_kept_as_long_as_their_base_says(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    short, held, plain = [await make_base(http, name) for name in ("short", "held", "plain")]
    await set_rule(http, short, eventDays=2)
    await set_rule(http, held, eventDays=2)
    await place_hold(http, held)

    async def events_of(base: str) -> int:
        return len((await http.get("/api/events", params={"baseId": base, "limit": 100})).json()["items"])

    async def are_sequenced() -> bool:
        return all([await events_of(base) == 1 for base in (short, held, plain)])

    await wait_until(are_sequenced)
    async with mill.db.transaction() as tx:
        await tx.execute("update event set at = at - interval '3 days'")
    await apply_retention(mill.db)
    assert [await events_of(base) for base in (short, held, plain)] == [0, 1, 1]
    async with mill.db.connection() as tx:
        await events.sweep(tx, timedelta(days=1))
    assert [await events_of(base) for base in (short, held, plain)] == [0, 1, 0]
