"""Watched folders: a saved file is searchable soon, moves are moves, bursts are one comparison, and one worker has each folder."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString

import httpx
import psycopg
import pytest

from gristmill import app, faults
from gristmill.ingest.refresh import system_watch, watched_folder
from gristmill.ingest.refresh.inotify import Inotify
from gristmill.ingest.refresh.watch_limits import check_watchable, file_system_of
from gristmill.settings import Settings
from gristmill.sources.disk import EVERYWHERE, DiskAccess
from tests.api_calls import (
    add_items,
    assert_healthy,
    assert_problem,
    item_titles,
    make_base,
    search,
    wait_until_ended,
)
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment, run_serve
from tests.ingest.refresh.refusing_system import RefusingSystem
from tests.wait_until import wait_until


@pytest.fixture
async def watching(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a Gristmill that watches folders."""
    async with watching_client(settings) as client:
        yield client


@asynccontextmanager
async def watching_client(settings: Settings, **changed: object) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a Gristmill with such settings that watches folders."""
    watching_settings = settings.model_copy(update={"watch_folders": True, **changed})
    async with app.gristmill(
        watching_settings, work=True, extra_embedders={"hashed": HashedEmbedder()}
    ) as running:
        transport = httpx.ASGITransport(app=running.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def add_watched(http: httpx.AsyncClient, folder: Path) -> tuple[str, str]:
    """Add a folder to a base of its own, and wait until it is watched and compared; base and item."""
    base = await make_base(http, folder.name)
    added = await add_items(http, base, {"type": "directory", "path": str(folder)})
    root = added["created"][0]["id"]
    await wait_until_ended(http, root)

    async def is_compared() -> bool:
        freshness = (await http.get(f"/api/knowledge-items/{root}")).json()["freshness"]
        is_watched = freshness["watch"]["state"] == "watching" and freshness["checkedAt"] is not None
        return is_watched and not await unfinished_jobs(http, "refresh_container")

    await wait_until(is_compared)
    return base, root


async def has_hit(http: httpx.AsyncClient, base: str, text: str) -> bool:
    """Whether a search returns exactly this text."""
    return any(hit["text"] == text for hit in await search(http, base, text, mode="text"))


async def test_saved_moved_and_deleted_files_follow_without_a_listing(
    watching: httpx.AsyncClient, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("current", "latest", "v1", "zero"):
        (docs / name).symlink_to("deep")  # the system knows a folder by one number, whatever path leads to it
    base, root = await add_watched(watching, docs)
    listings = await count_jobs(watching, "refresh_container")
    (docs / "deep/new").mkdir()
    (docs.parent / "c.md").write_text("spelt")
    shutil.move(docs.parent / "c.md", docs / "deep/new/c.md")  # at once, so that it is listed as it stays
    (docs / "a.md").write_text("emmer")
    await wait_until(lambda: has_hit(watching, base, "spelt"))
    await wait_until(lambda: has_hit(watching, base, "emmer"))
    ids = {item["title"]: item["id"] for item in await all_items(watching, base)}

    shutil.move(docs / "deep/new/c.md", docs / "moved.md")
    (docs / "deep/b.md").unlink()

    async def has_moved() -> bool:
        items = {item["title"]: item for item in await all_items(watching, base)}
        return "moved.md" in items and items["moved.md"]["id"] == ids["c.md"] and "b.md" not in items

    await wait_until(has_moved)
    assert await count_jobs(watching, "refresh_container") == listings, "nothing was listed again"

    monkeypatch.setattr(watched_folder, "BURST", 50)
    for number in range(60):
        (docs / f"burst {number}.md").write_text(f"burst {number}")

    async def has_all() -> bool:
        return len(await item_titles(watching, base, parentId="*", status="completed")) == 60 + 5

    await wait_until(has_all)
    assert await count_jobs(watching, "refresh_container") <= listings + 3, (
        "one comparison for a burst, not one for each"
    )

    response = await watching.patch(f"/api/knowledge-items/{root}", json={"watch": False})
    assert response.json()["freshness"]["watch"]["state"] == "off"
    child = (await watching.get(f"/api/knowledge-items/{ids['a.md']}")).json()
    assert child["freshness"] is None
    assert_problem(
        await watching.patch(f"/api/knowledge-items/{ids['a.md']}", json={"watch": True}),
        409,
        "not_watchable",
    )
    await assert_healthy(watching)


async def unfinished_jobs(http: httpx.AsyncClient, kind: str) -> list[dict[str, Any]]:
    """The jobs of this kind that wait or run."""
    jobs = [
        (await http.get("/api/jobs", params={"kind": kind, "state": state})).json()["items"]
        for state in ("queued", "delayed", "running")
    ]
    return [job for of_state in jobs for job in of_state]


async def count_jobs(http: httpx.AsyncClient, kind: str) -> int:
    """How many jobs of this kind are done."""
    response = await http.get("/api/jobs", params={"kind": kind, "state": "done", "limit": 500})
    return len(response.json()["items"])


async def all_items(http: httpx.AsyncClient, base: str) -> list[dict[str, Any]]:
    """All items of a base."""
    return (
        await http.get(f"/api/knowledge-bases/{base}/items", params={"parentId": "*", "limit": 500})
    ).json()["items"]


@pytest.mark.crash
async def test_when_the_watching_worker_is_killed_another_one_watches_and_compares_once(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str], docs: Path
) -> None:
    """What was saved while no worker watched is found by the comparison, what is saved later by the watch."""

    def env(name: str) -> dict[str, str]:
        return environment(
            tmp_path / name,
            cache_dir,
            database_url=database_url,
            lease="2",
            single_process="true",
            **quick_embedder,
        )

    with (
        run_serve(env("first"), log=tmp_path / "first.log") as first,
        run_serve(env("second"), log=tmp_path / "second.log") as second,
    ):
        async with httpx.AsyncClient(base_url=first.url, timeout=30) as http:
            base, root = await add_watched(http, docs)
        async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
            first.kill()
            (docs / "while nobody watched.md").write_text("spelt")
            await wait_until(lambda: has_hit(http, base, "spelt"))
            (docs / "later.md").write_text("emmer")
            await wait_until(lambda: has_hit(http, base, "emmer"))
            item = (await http.get(f"/api/knowledge-items/{root}")).json()
            assert item["freshness"]["watch"]["state"] == "watching"
            await assert_healthy(http)


async def test_a_file_saved_while_a_comparison_is_queued_is_not_missed(
    watching: httpx.AsyncClient, docs: Path, tmp_path: Path
) -> None:
    """The comparison may have passed it before, and the watcher learns of it before it knows that the job is queued."""
    other = tmp_path / "other"
    other.mkdir()
    other_base, _ = await add_watched(watching, other)
    with faults.watch("watch.queued", hold=True):
        base, _ = await add_watched(watching, docs)
        (docs / "new.md").write_text("spelt")
        (other / "new.md").write_text("emmer")
        await wait_until(lambda: has_hit(watching, other_base, "emmer"))  # one watch reports both, in order
    await wait_until(lambda: has_hit(watching, base, "spelt"))


async def test_leases_are_renewed_while_the_check_of_another_folder_hangs(
    settings: Settings, database_url: str, docs: Path, tmp_path: Path
) -> None:
    """A disk that does not respond costs its own watch, not those of the other folders."""
    other = tmp_path / "other"
    other.mkdir()
    async with watching_client(settings, lease=timedelta(seconds=1)) as http:
        base, root = await add_watched(http, docs)
        with faults.watch("watch.check", hold=True) as check:
            await add_items(http, await make_base(http, "other"), {"type": "directory", "path": str(other)})
            await check.passed.wait()
            async with await psycopg.AsyncConnection.connect(database_url) as db:
                (hung_at,) = await row_of(db, "select clock_timestamp()")

                async def is_renewed() -> bool:
                    (lease_until,) = await row_of(
                        db, "select lease_until from folder_watch where item_id = %s", root
                    )
                    return lease_until > hung_at + timedelta(seconds=2)

                await wait_until(is_renewed)
            (docs / "new.md").write_text("spelt")
            await wait_until(lambda: has_hit(http, base, "spelt"))


async def test_a_folder_that_is_claimed_while_leases_are_renewed_is_watched(
    settings: Settings, docs: Path, tmp_path: Path
) -> None:
    """It was not among those that were renewed, so its lease is not lost."""
    other = tmp_path / "other"
    other.mkdir()
    async with watching_client(settings, lease=timedelta(hours=1)) as http:
        await add_watched(http, other)
        with faults.watch("watch.renewed", hold=True) as renewal:
            await renewal.passed.wait()
            base, _ = await add_watched(http, docs)
        with faults.watch("watch.renewed") as renewal:
            await renewal.passed.wait()
        (docs / "new.md").write_text("spelt")
        await wait_until(lambda: has_hit(http, base, "spelt"))


async def row_of(db: psycopg.AsyncConnection, query: LiteralString, *values: object) -> tuple[Any, ...]:
    """The only row of a query, in a transaction of its own."""
    row = await (await db.execute(query, values)).fetchone()
    await db.rollback()
    assert row is not None
    return row


async def test_a_name_that_is_not_utf8_does_not_end_the_watch(
    watching: httpx.AsyncClient, docs: Path
) -> None:
    base, _ = await add_watched(watching, docs)
    shutil.copyfile(docs / "a.md", os.fsdecode(os.fsencode(docs) + b"/bad\xff.md"))
    (docs / "new.md").write_text("spelt")
    await wait_until(lambda: has_hit(watching, base, "spelt"))
    (docs / "later.md").write_text("emmer")
    await wait_until(lambda: has_hit(watching, base, "emmer"))
    assert "bad\\xff.md" in await item_titles(watching, base, parentId="*", status="failed")


async def test_a_folder_that_the_system_refuses_to_watch_does_not_keep_out_the_others(
    settings: Settings, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were added while no worker watched, and are claimed together. Its limit may also be reached later."""
    large = tmp_path / "large"
    large.mkdir()
    system = RefusingSystem(errno.ENOSPC, "large", "one more")
    monkeypatch.setattr(system_watch, "create_notifier", lambda: Inotify(system))
    roots: dict[Path, tuple[str, str]] = {}
    async with watching_client(settings, watch_folders=False) as http:
        for folder in (large, docs):
            base = await make_base(http, folder.name)
            added = await add_items(http, base, {"type": "directory", "path": str(folder)})
            roots[folder] = base, added["created"][0]["id"]
            await wait_until_ended(http, roots[folder][1])
    async with watching_client(settings) as http:

        async def state_of(folder: Path) -> tuple[str, str | None]:
            watch = (await http.get(f"/api/knowledge-items/{roots[folder][1]}")).json()["freshness"]["watch"]
            return watch["state"], watch["error"] and watch["error"]["code"]

        async def are_known() -> bool:
            return [await state_of(large), await state_of(docs)] == [
                ("unavailable", "watch_refused"),
                ("watching", None),
            ]

        await wait_until(are_known)
        (docs / "new.md").write_text("spelt")
        await wait_until(lambda: has_hit(http, roots[docs][0], "spelt"))
        (docs / "one more").mkdir()

        async def is_refused() -> bool:
            return await state_of(docs) == ("unavailable", "watch_refused")

        await wait_until(is_refused)


async def test_a_folder_that_can_not_be_watched_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "folders"
    for number in range(5):
        (folders / str(number)).mkdir(parents=True)
        (folders / f"0/node_modules/{number}").mkdir(parents=True)

    def code_of(path: Path, access: DiskAccess = EVERYWHERE, *, is_wanted: bool = False) -> str | None:
        error = check_watchable(path, access, is_wanted=is_wanted)
        return None if error is None else error.code

    assert await asyncio.to_thread(code_of, folders) is None
    assert await asyncio.to_thread(code_of, tmp_path / "missing") == "folder_not_here"
    assert await asyncio.to_thread(code_of, folders, DiskAccess((tmp_path / "allowed",))) == "folder_not_here"
    monkeypatch.setattr("gristmill.ingest.refresh.watch_limits.CHEAP_FOLDERS", 5)
    assert await asyncio.to_thread(code_of, folders) is None, "installed packages are not watched"
    monkeypatch.setattr("gristmill.ingest.refresh.watch_limits.CHEAP_FOLDERS", 4)
    assert await asyncio.to_thread(code_of, folders) == "too_many_folders"
    assert await asyncio.to_thread(lambda: code_of(folders, is_wanted=True)) is None
    mounts = [
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "30 22 0:40 / /mnt/team\\040share rw - nfs4 host:/x rw",
        "31 22 0:41 / /mnt rw - tmpfs tmpfs rw",
    ]
    assert file_system_of(Path("/mnt/team share/deep"), mounts) == "nfs4"
    assert file_system_of(Path("/home"), mounts) == "ext4"
