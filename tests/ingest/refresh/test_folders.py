"""A folder is compared with its items: what changed is indexed, what moved moves, what people deleted stays deleted."""

import contextlib
import os
import shutil
import time
from pathlib import Path
from uuid import uuid4

import pytest

from gristmill import catalog, jobs
from gristmill.catalog import Base, Item
from gristmill.db import Tx
from gristmill.errors import SourceGone
from gristmill.faults import FaultInjected, arm
from gristmill.ingest.refresh import folder_scan
from gristmill.ingest.refresh.folder_changes import FolderWriter
from gristmill.jobs import NewJob, Priority
from gristmill.operations import delete, freshness, guards, rename
from gristmill.operations.next_job import enqueue_next_jobs
from gristmill.sources.disk import EVERYWHERE
from gristmill.work import RefreshContainer
from tests.ingest.refresh.folder_checks import LONG_AGO, compare, write
from tests.operations.manual_worker import ManualWorker, file_to_add, index_folder, items_by_title

pytestmark = pytest.mark.usefixtures("ends_healthy")


async def versions(worker: ManualWorker) -> dict[str, int]:
    """The version that each file has reached."""
    rows = await worker.rows(
        "select title, wanted_version from item where type = 'file' and status <> 'deleting'"
    )
    return {row[0]: row[1] for row in rows}


async def test_only_what_differs_on_the_disk_is_indexed_and_what_is_gone_is_removed(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    for name in ("a.md", "deep/b.md", "c.md"):
        write(docs / name, f"rye {name}")
    items = await index_folder(worker, base, docs)
    await compare(worker, base, items["docs"])
    assert await versions(worker) == {"a.md": 1, "b.md": 1, "c.md": 1}
    assert await worker.value("select count(*) from job_history where kind = 'index_document'") == 3

    write(docs / "a.md", "spelt instead", LONG_AGO + 9)
    write(docs / "new/folder/d.md", "oats")
    (docs / "empty").mkdir()
    (docs / "c.md").unlink()
    await compare(worker, base, items["docs"])
    assert await versions(worker) == {"a.md": 2, "b.md": 1, "d.md": 1}
    assert await worker.search_texts(base, "spelt oats rye") == ["oats", "rye deep/b.md", "spelt instead"]
    statuses = await worker.statuses()
    assert {"empty", "new", "folder"} <= statuses.keys()
    assert "c.md" not in statuses
    assert set(statuses.values()) == {"completed"}


async def comparison(worker: ManualWorker, root: Item) -> folder_scan.FolderComparison:
    """A comparison of a folder, as its watch makes them."""

    async def may_write(_: Tx) -> bool:
        return True

    rules = await folder_scan.folder_rules(worker.db, root)
    assert rules is not None
    writer = FolderWriter(worker.db, root, may_write, uuid4())
    return folder_scan.FolderComparison(worker.db, root, rules, EVERYWHERE, writer)


async def test_what_is_saved_in_a_folder_that_is_left_out_is_not_filed(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """A watch reports it all the same: version control and installed packages change often, and may contain secrets."""
    write(docs / ".gristmillignore", "private/\n/deep/*/drafts\n")
    root = (await index_folder(worker, base, docs))["docs"]
    before = await worker.statuses()
    left_out = [".git/config", ".git/refs/heads/main", "node_modules/left/pad/README.md", ".notes/a.md"]
    left_out += ["private/salaries.md", "deep/private/more/b.md", "deep/team/drafts/c.md"]
    for name in left_out:
        write(docs / name, "token spelt")
    scan = await comparison(worker, root)
    assert await scan.compare_paths([docs / name for name in left_out], Priority.INTERACTIVE) == []
    await worker.work()
    assert await worker.statuses() == before
    assert await worker.search_texts(base, "token spelt") == []


async def test_a_folder_that_was_added_twice_follows_the_disk_in_both_places(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """The second one has a number. A moved file keeps its item in each."""
    write(docs / "p.md", "rye p")
    await index_folder(worker, base, docs)
    items = await index_folder(worker, base, docs)
    roots = [items["docs"], items["docs (2)"]]
    files = "select id from item where title = %s order by id"
    before = await worker.rows(files, "p.md")
    assert len(before) == 2
    (docs / "p.md").rename(docs / "deep/moved.md")
    (docs / "a.md").unlink()
    write(docs / "new.md", "oats")
    for root in roots:
        await compare(worker, base, root)
    assert await worker.rows(files, "moved.md") == before
    tops = await worker.rows(
        "select p.parent_id from item i join item p on p.id = i.parent_id where i.title = 'moved.md' order by i.id"
    )
    assert tops == [(root.id,) for root in roots], "each is in its own folder"
    assert len(await worker.rows(files, "new.md")) == 2
    assert await worker.rows(files, "a.md") == []


async def test_a_folder_in_place_of_a_file_and_the_other_way_round(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """By a check and by the watch."""
    write(docs / "p/q.md", "rye q")
    root = (await index_folder(worker, base, docs))["docs"]

    async def files() -> set[tuple[str, str]]:
        return set(await worker.rows("select type, source_key from item where parent_id is not null"))

    (docs / "a.md").unlink()
    write(docs / "a.md/in.md", "spelt")
    shutil.rmtree(docs / "p")
    write(docs / "p", "oats")
    changed = {("directory", "a.md"), ("file", "a.md/in.md"), ("file", "p")}
    others = {("directory", "deep"), ("file", "deep/b.md")}
    await compare(worker, base, root)
    assert await files() == {(kind, str(docs / name)) for kind, name in changed | others}
    (docs / "p").unlink()
    write(docs / "p/q.md", "rye q")
    shutil.rmtree(docs / "a.md")
    write(docs / "a.md", "emmer")
    scan = await comparison(worker, root)
    assert await scan.compare_paths([docs / "p", docs / "p/q.md", docs / "a.md"], Priority.INTERACTIVE) == []
    await worker.work()
    changed = {("file", "a.md"), ("directory", "p"), ("file", "p/q.md")}
    assert await files() == {(kind, str(docs / name)) for kind, name in changed | others}
    assert await worker.search_texts(base, "spelt oats emmer") == ["emmer"]


async def test_a_title_that_someone_gave_a_file_stays_when_the_file_is_moved(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    write(docs / "p.md", "rye p")
    items = await index_folder(worker, base, docs)
    async with worker.db.transaction() as tx:
        locked = await guards.lock_base(tx, base.id)
        await rename.rename(tx, locked, items["p.md"], "Prices")
    await worker.work()
    (docs / "p.md").rename(docs / "deep/q.md")
    await compare(worker, base, items["docs"])
    ((title, path),) = await worker.rows(
        "select title, source ->> 'path' from item where id = %s", items["p.md"].id
    )
    assert (title, path) == ("Prices", str(docs / "deep/q.md"))
    assert await worker.search_texts(base, "prices") == ["rye p"]


async def test_what_a_watch_misses_in_a_folder_that_is_gone_is_not_removed(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """A watch follows a renamed folder, and reports what changes in it by its old paths."""
    root = (await index_folder(worker, base, docs))["docs"]
    shutil.move(docs, docs.with_name("elsewhere"))
    scan = await comparison(worker, root)
    gone = await scan.compare_paths([docs / "a.md"], Priority.INTERACTIVE)
    with pytest.raises(SourceGone):
        await scan.remove(gone, Priority.INTERACTIVE)
    assert len(await worker.search_texts(base, "rye")) == 2


async def test_a_new_file_that_is_named_with_its_new_folder_is_filed_once(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """A watch can report a folder and what was saved into it together."""
    root = (await index_folder(worker, base, docs))["docs"]
    write(docs / "new/deep/c.md", "spelt")
    scan = await comparison(worker, root)
    reported = [docs / "new", docs / "new/deep", docs / "new/deep/c.md", docs]
    assert await scan.compare_paths(reported, Priority.INTERACTIVE) == []
    await worker.work()
    titles = await worker.rows("select title from item order by title")
    assert [title for (title,) in titles] == ["a.md", "b.md", "c.md", "deep", "deep", "docs", "new"]
    assert await worker.search_texts(base, "spelt") == ["spelt"]


async def test_a_folder_that_is_being_listed_is_left_to_its_listing(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """To write what the listing is about to file would lock the base, and all its workers would wait."""
    guarded: list[Tx] = []

    async def may_write(tx: Tx) -> bool:
        guarded.append(tx)
        return True

    items = await index_folder(worker, base, docs)
    async with worker.db.transaction() as tx:
        (deep,) = await catalog.request_version(tx, [items["deep"].id], cause=uuid4())
        await enqueue_next_jobs(tx, base, [deep], Priority.NORMAL)
    write(docs / "deep/c.md", "spelt")
    rules = await folder_scan.folder_rules(worker.db, items["docs"])
    assert rules is not None
    writer = FolderWriter(worker.db, items["docs"], may_write, uuid4())
    scan = folder_scan.FolderComparison(worker.db, items["docs"], rules, EVERYWHERE, writer)
    assert (await scan.compare_all()).total == 0
    assert not guarded
    await worker.work()
    assert await worker.search_texts(base, "spelt") == ["spelt"]


async def test_a_moved_file_keeps_its_item_its_content_and_its_vectors(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """Moved within the folder, moved with its folder, and renamed; a copy or a link is another file."""
    for name in ("a.md", "deep/b.md", "c.md", "d.md"):
        write(docs / name, f"rye {name}")
    items = await index_folder(worker, base, docs)
    vectors = dict(await worker.rows("select item_id, embedding::text from chunk"))
    (docs / "a.md").rename(docs / "deep/a.md")
    (docs / "deep").rename(docs / "deeper")
    (docs / "c.md").rename(docs / "renamed.md")
    os.link(docs / "d.md", docs / "link.md")
    shutil.copy2(docs / "d.md", docs / "copy.md")
    await compare(worker, base, items["docs"])
    after = await items_by_title(worker, base)
    assert sorted(after) == ["a.md", "b.md", "copy.md", "d.md", "deeper", "docs", "link.md", "renamed.md"]
    for old, new in (("a.md", "a.md"), ("b.md", "b.md"), ("c.md", "renamed.md"), ("d.md", "d.md")):
        assert after[new].id == items[old].id
    assert after["a.md"].source["path"] == str(docs / "deeper/a.md")
    assert after["a.md"].parent_id == after["deeper"].id
    assert after["a.md"].wanted_version == 1, "a moved file is not read again"
    assert after["link.md"].id != after["d.md"].id != after["copy.md"].id
    current = dict(await worker.rows("select item_id, embedding::text from chunk"))
    assert {item_id: current[item_id] for item_id in vectors} == vectors
    assert await worker.search_texts(base, "renamed") == ["rye c.md"], "it is found by its new name"


async def test_moves_that_no_check_has_seen_are_followed_by_a_reindex(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """A folder that is neither watched nor checked is reindexed: new files are filed, moved ones keep their items."""
    for name in ("p.md", "q.md"):
        write(docs / name, f"spelt {name}")
    items = await index_folder(worker, base, docs)
    await delete.delete(worker.db, base.id, [items["p.md"].id])
    await worker.work()
    (docs / "p.md").rename(docs / "still deleted.md")
    (docs / "new").mkdir()
    (docs / "q.md").rename(docs / "new/moved.md")
    (docs / "deep").rename(docs / "deeper")
    write(docs / "new/r.md", "oats")
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    after = await items_by_title(worker, base)
    assert sorted(after) == ["a.md", "b.md", "deeper", "docs", "moved.md", "new", "r.md"]
    assert (after["moved.md"].id, after["b.md"].id) == (items["q.md"].id, items["b.md"].id)
    assert after["moved.md"].wanted_version == 2, "it was looked at like every other file"
    assert await worker.search_texts(base, "spelt oats rye") == ["oats", "rye a", "rye b", "spelt q.md"]


async def test_what_someone_deleted_stays_deleted_until_it_is_taken_back(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    items = await index_folder(worker, base, docs)
    await delete.delete(worker.db, base.id, [items["a.md"].id, items["deep"].id])
    await worker.work()
    await compare(worker, base, items["docs"])
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    assert await worker.statuses() == {"docs": "completed"}
    rows = await worker.rows("select id, source_key from exclusion order by source_key")
    assert [path for _, path in rows] == [str(docs / "a.md"), str(docs / "deep")]

    await freshness.take_back(worker.db, base.id, [rows[1][0]])
    await worker.work()
    assert sorted(await worker.statuses()) == ["b.md", "deep", "docs"]
    await worker.add(base, file_to_add(docs / "a.md"))
    assert await worker.rows("select id from exclusion") == [], "adding it takes the exclusion back"

    await delete.delete(worker.db, base.id, [items["docs"].id])
    await worker.work()
    assert await worker.rows("select id from exclusion") == [], "the whole folder is not left out of anything"


async def test_a_file_that_someone_deleted_stays_deleted_when_it_is_moved(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """Also after it was edited where it is. A copy of it is another file, and so is one that replaced a file which is filed."""
    for name in ("p.md", "q.md", "r.md", "kept.md"):
        write(docs / name, f"spelt {name}")
    items = await index_folder(worker, base, docs)
    await delete.delete(worker.db, base.id, [items[f"{name}.md"].id for name in "pqr"])
    await worker.work()
    (docs / "new").mkdir()
    (docs / "p.md").rename(docs / "new/renamed.md")
    write(docs / "new/d.md", "oats")
    write(docs / "q.md", "spelt edited", LONG_AGO + 9)
    await compare(worker, base, items["docs"])
    (docs / "q.md").rename(docs / "moved.md")
    shutil.copy2(docs / "new/renamed.md", docs / "copy.md")
    (docs / "r.md").rename(docs / "kept.md")
    await compare(worker, base, items["docs"])
    names = set(await worker.statuses())
    assert {"copy.md", "d.md", "kept.md", "new"} <= names
    assert not {"p.md", "q.md", "r.md", "moved.md", "renamed.md"} & names
    assert await worker.search_texts(base, "spelt oats") == ["oats", "spelt p.md", "spelt r.md"]
    rows = await worker.rows("select id, source_key, title from exclusion order by source_key")
    assert [row[1:] for row in rows] == [
        (str(docs / "moved.md"), "moved.md"),
        (str(docs / "new/renamed.md"), "renamed.md"),
        (str(docs / "r.md"), "r.md"),
    ]
    await freshness.take_back(worker.db, base.id, [rows[1][0]])
    await worker.work()
    assert await worker.search_texts(base, "spelt") == ["spelt p.md", "spelt p.md", "spelt r.md"]


async def test_a_file_that_was_changed_a_moment_ago_can_be_moved(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """It may be changed again without a new time, so its fingerprint has a mark."""
    write(docs / "p.md", "rye")
    now = int(time.time()) + 3600  # by a clock that is ahead: it stays a moment ago
    os.utime(docs / "p.md", (now, now))
    items = await index_folder(worker, base, docs)
    (docs / "p.md").rename(docs / "moved.md")
    await compare(worker, base, items["docs"])
    assert (await items_by_title(worker, base))["moved.md"].id == items["p.md"].id


async def test_a_comparison_that_is_cut_off_anywhere_is_finished_by_the_next(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure before each commit; and a worker that lost its lease writes nothing."""
    monkeypatch.setattr(folder_scan, "BATCH", 2)
    items = await index_folder(worker, base, docs)
    for number in range(6):
        write(docs / f"new/{number}.md", f"oats {number}")
    (docs / "a.md").unlink()
    async with worker.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(RefreshContainer(base.id, items["docs"].id), lane=base.lane))
    for number in (1, 2, 3):
        arm(f"folder_changes.before_commit=fail@{number}")
        with contextlib.suppress(FaultInjected):
            await worker.step()
        await worker.make_due()
    arm("")
    zombie = (await worker.claim())[0]
    await worker.rows(
        "update job set state = 'delayed', lease = null, worker = null where id = %s returning id", zombie.id
    )
    await worker.make_due()
    await second_worker.work()
    before = await worker.rows("select id, wanted_version from item order by id")
    write(docs / "late.md", "late")
    await worker.run(zombie)
    assert await worker.rows("select id, wanted_version from item order by id") == before
    assert sorted(await worker.search_texts(base, "oats rye")) == [
        *(f"oats {number}" for number in range(6)),
        "rye b",
    ]
