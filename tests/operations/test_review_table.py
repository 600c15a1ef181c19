"""S0-49: the review table, cell by cell, and the guards behind it.

    operation        failed base   collapse   extra guard                       state before enqueue   enqueue fails
    addItems         reject        –          –                                 preparing/processing   nothing is left
    deleteItems      allow         yes        –                                 deleting               nothing is left
    reindexItems     reject        yes        subtrees completed or failed      none                   nothing is left
    listItemChunks   reject        –          completed; nothing deleting below –                      –

The last column is as C3 and C4 decide: state and job commit together. `test_failure_windows.py` has it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gristmill import catalog, search
from gristmill.catalog import Base, ItemId
from gristmill.errors import Conflict, NotFound, RequestError
from gristmill.operations import add, bases, delete, guards
from gristmill.operations.reindex import SubtreeActive
from gristmill.work import DeleteSubtree, ReindexSubtree
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    folder_to_add,
    index_folder,
    note_to_add,
    unknown_base,
)

pytestmark = pytest.mark.slow

ACTIVE = ["idle", "preparing", "processing", "reading", "embedding"]


async def fail_base(worker: ManualWorker) -> None:
    await worker.rows("update base set status = 'failed', error_message = 'Broken.' returning id")


async def list_chunks(worker: ManualWorker, base: Base, item_id: ItemId) -> list[str]:
    """List chunks as the server does."""
    async with worker.db.transaction() as tx:
        item = await guards.require_item(tx, item_id)
        await guards.require_listable_chunks(tx, await guards.require_base(tx, base.id), item)
        return [row.text for row in await search.list_chunks(tx, base.id, item.id, limit=100)]


Ask = Callable[[ManualWorker, Base, ItemId], Awaitable[Any]]
OPERATIONS: dict[str, Ask] = {
    "add": lambda worker, base, _item: add.add(worker.db, base.id, [note_to_add("new")], UNLIMITED),
    "add nothing": lambda worker, base, _item: add.add(worker.db, base.id, [], UNLIMITED),
    "delete": lambda worker, base, item: delete.delete(worker.db, base.id, [item]),
    "reindex": lambda worker, base, item: worker.reindex(base, item),
    "list chunks": list_chunks,
}


# ── the column "failed base" ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ask", ["add", "add nothing", "reindex", "list chunks"])
async def test_a_failed_base_refuses_what_makes_or_needs_work(
    worker: ManualWorker, base: Base, ask: str
) -> None:
    """S0-02, S0-03, S0-16: and nothing is written; S0-49."""
    (item,) = await worker.add(base, note_to_add("n"))
    await worker.work()
    await fail_base(worker)
    before = await worker.remaining_rows()
    with pytest.raises(Conflict, match="Broken") as caught:
        await OPERATIONS[ask](worker, base, item.id)
    assert caught.value.code == "base_failed"
    assert await worker.remaining_rows() == before


async def test_a_failed_base_can_be_cleaned(worker: ManualWorker, base: Base) -> None:
    """S0-04; S0-49, S1-21."""
    (item,) = await worker.add(base, note_to_add("n"))
    await worker.work()
    await fail_base(worker)
    await delete.delete(worker.db, base.id, [item.id])
    await worker.work()
    assert await worker.remaining_rows() == {}


@pytest.mark.parametrize("operation", [*OPERATIONS])
@pytest.mark.parametrize("how", ["never was", "is being deleted"])
async def test_a_base_that_is_not_there_refuses_everything(
    worker: ManualWorker, base: Base, operation: str, how: str
) -> None:
    (item,) = await worker.add(base, note_to_add("n"))
    if how == "never was":
        base = replace(base, id=unknown_base())
    else:
        await bases.delete(worker.db, base.id)
    with pytest.raises(NotFound):
        await OPERATIONS[operation](worker, base, item.id)


# ── the column "root collapse" ───────────────────────────────────────────────────────────────────────────

SELECTIONS: dict[str, tuple[list[str], list[str]]] = {
    "one": (["a.md"], ["a.md"]),
    "one twice": (["a.md", "a.md"], ["a.md"]),
    "a folder and what is in it": (["docs", "a.md", "b.md", "deep"], ["docs"]),
    "the other way round": (["b.md", "docs"], ["docs"]),
    "two that are apart": (["a.md", "deep"], ["a.md", "deep"]),
    "a gap between them": (["docs", "b.md"], ["docs"]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("ask", ["delete", "reindex"])
@pytest.mark.parametrize("selection", [*SELECTIONS])
async def test_a_selection_collapses_to_its_outermost_items(
    worker: ManualWorker, base: Base, docs: Path, ask: str, selection: str
) -> None:
    """S0-05, S0-08, S0-27: and one job does it, or none when nothing is left to do; S0-01."""
    items = await index_folder(worker, base, docs)
    titles, outermost = SELECTIONS[selection]
    ids = [items[title].id for title in titles]
    if ask == "delete":
        deletion = await delete.delete(worker.db, base.id, ids)
        roots, job_id = deletion.root_ids, deletion.job_id
    else:
        rebuild = await worker.reindex(base, *ids)
        roots, job_id = rebuild.root_ids, rebuild.job_id
    assert set(roots) == {items[title].id for title in outermost}
    assert len(roots) == len(outermost)
    jobs = await worker.rows("select id, payload -> 'root_ids' from job")
    assert jobs == ([(job_id, [str(root) for root in roots])] if outermost else [])


@pytest.mark.parametrize("ask", ["delete", "reindex"])
async def test_an_unknown_item_or_one_of_another_base_refuses_the_whole_selection(
    worker: ManualWorker, base: Base, ask: str
) -> None:
    """S0-06, S0-07; S0-49."""
    other_base = await worker.base("other")
    (mine,) = await worker.add(base, note_to_add("mine"))
    (foreign,) = await worker.add(other_base, note_to_add("foreign"))
    await worker.work()

    async def selecting(*ids: ItemId) -> None:
        await (delete.delete(worker.db, base.id, ids) if ask == "delete" else worker.reindex(base, *ids))

    for foreign_id, code in [(ItemId(unknown_base()), "item_not_found"), (foreign.id, "item_of_other_base")]:
        with pytest.raises(RequestError) as caught:
            await selecting(mine.id, foreign_id)
        assert caught.value.code == code
    assert await worker.statuses() == {"mine": "completed", "foreign": "completed"}
    assert await worker.value("select count(*) from job") == 0


# ── the column "extra status guard" ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [*ACTIVE, "deleting"])
@pytest.mark.parametrize("where", ["docs", "deep", "b.md"])
async def test_reindex_wants_every_item_of_the_subtree_at_rest(
    worker: ManualWorker, base: Base, docs: Path, status: str, where: str
) -> None:
    """S0-14, S0-15: the root itself, a container below it, a leaf; and the refusal names what is in the way; S0-49, S1-13, S1-21."""
    items = await index_folder(worker, base, docs)
    await worker.rows("update item set status = %s where title = %s returning id", status, where)
    with pytest.raises(SubtreeActive) as caught:
        await worker.reindex(base, items["docs"].id)
    assert [(item.title, item.status) for item in caught.value.blocking] == [(where, status)]
    assert await worker.value("select count(*) from job") == 0


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_reindex_takes_what_is_at_rest(
    worker: ManualWorker, base: Base, docs: Path, status: str
) -> None:
    """S0-14, S0-37, S1-13: failed items are tried again."""
    items = await index_folder(worker, base, docs)
    await worker.rows("update item set status = %s returning id", status)
    assert (await worker.reindex(base, items["docs"].id)).root_ids == [items["docs"].id]


@pytest.mark.parametrize("status", [*ACTIVE, "deleting"])
async def test_on_active_decides_what_happens_to_active_items(
    worker: ManualWorker, base: Base, status: str
) -> None:
    """C5: skip leaves it out, after waits for what ends; a deletion never ends in something to rebuild."""
    busy, calm = await worker.add(base, note_to_add("busy"), note_to_add("calm"))
    await worker.work()
    await worker.rows("update item set status = %s where title = 'busy' returning id", status)
    result = await worker.reindex(base, busy.id, calm.id, on_active="skip")
    assert result.root_ids == [calm.id]
    if status == "deleting":
        with pytest.raises(Conflict):
            await worker.reindex(base, busy.id, calm.id, on_active="after")
    else:
        after = await worker.reindex(base, busy.id, calm.id, on_active="after")
        assert after.root_ids == [busy.id, calm.id]


async def test_a_busy_root_is_seen_however_many_active_items_another_has(
    worker: ManualWorker, base: Base
) -> None:
    """S0-14: each root is looked at by itself."""
    many = await worker.add(base, *(note_to_add(f"n{n}") for n in range(150)))
    await worker.rows("update item set status = 'completed' returning id")
    big, small = many[0], many[1]
    await worker.rows(
        "update item set type = 'directory' where id = any (%s) returning id", [big.id, small.id]
    )
    below = [item.id for item in many[2:]]
    await worker.rows("update item set parent_id = %s where id = any (%s) returning id", big.id, below)
    await worker.rows("update item set parent_id = %s where id = %s returning id", small.id, below[-1])
    await worker.rows("update item set status = 'reading' where parent_id is not null returning id")
    async with worker.db.connection() as tx:
        unfinished = await catalog.find_unfinished_items(tx, [big.id, small.id])
    assert {item.root for item in unfinished} == {big.id, small.id}
    assert len(unfinished) == 101


@pytest.mark.parametrize("status", [*ACTIVE, "failed"])
async def test_chunks_are_listed_only_of_a_completed_item(
    worker: ManualWorker, base: Base, status: str
) -> None:
    """S0-18."""
    (item,) = await worker.add(base, note_to_add("n"))
    await worker.work()
    assert await list_chunks(worker, base, item.id) == ["n text"]
    await worker.rows("update item set status = %s returning id", status)
    with pytest.raises(Conflict) as caught:
        await list_chunks(worker, base, item.id)
    assert caught.value.code == "item_not_completed"


async def test_chunks_of_a_container_are_listed_only_while_nothing_below_is_being_deleted(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-19: the container stays completed meanwhile, for what is being deleted does not count."""
    items = await index_folder(worker, base, docs)
    assert await list_chunks(worker, base, items["docs"].id) == ["rye a", "rye b"]
    await delete.delete(worker.db, base.id, [items["b.md"].id])
    assert (await worker.statuses())["docs"] == "completed"
    with pytest.raises(Conflict) as caught:
        await list_chunks(worker, base, items["docs"].id)
    assert caught.value.code == "subtree_deleting"
    assert await list_chunks(worker, base, items["a.md"].id) == ["rye a"]
    await worker.work()
    assert await list_chunks(worker, base, items["docs"].id) == ["rye a"]


async def test_chunks_are_listed_only_of_items_of_the_base(worker: ManualWorker, base: Base) -> None:
    """S0-09, S0-17: and only of those that are there."""
    other_base = await worker.base("other")
    (item,) = await worker.add(base, note_to_add("n"))
    await worker.work()
    with pytest.raises(Conflict) as caught:
        await list_chunks(worker, other_base, item.id)
    assert caught.value.code == "item_of_other_base"
    await delete.delete(worker.db, base.id, [item.id])
    with pytest.raises(NotFound):
        await list_chunks(worker, base, item.id)


async def test_a_parent_must_be_a_container_of_the_base_that_is_not_being_deleted(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-47."""
    items = await index_folder(worker, base, docs)
    other_base = await worker.base("other")
    await delete.delete(worker.db, base.id, [items["deep"].id])
    for where, parent, code in [
        (base, items["deep"].id, "item_not_found"),
        (base, items["a.md"].id, "not_a_container"),
        (other_base, items["docs"].id, "item_of_other_base"),
        (base, ItemId(unknown_base()), "item_not_found"),
    ]:
        with pytest.raises(RequestError) as caught:
            await add.add(worker.db, where.id, [note_to_add("n")], UNLIMITED, parent_id=parent)
        assert caught.value.code == code
    assert "n" not in await worker.statuses()


# ── the column "state before enqueue" ────────────────────────────────────────────────────────────────────


async def test_added_items_are_active_and_each_has_the_job_of_its_kind(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-21, S0-23, S0-25, S1-03; S0-01, S4-28."""
    await worker.add(base, folder_to_add(docs), note_to_add("n"))
    assert await worker.statuses() == {"docs": "preparing", "n": "processing"}
    rows = await worker.rows("select i.title, j.kind from job j join item i on i.id = j.subject order by 1")
    assert rows == [("docs", "prepare_root"), ("n", "index_document")]


async def test_adding_no_items_changes_nothing(worker: ManualWorker, base: Base) -> None:
    """S0-22."""
    result = await add.add(worker.db, base.id, [], UNLIMITED)
    assert (result.created, result.skipped, result.failed) == ([], [], [])
    assert await worker.remaining_rows() == {}


async def test_deleted_items_are_hidden_as_soon_as_the_request_is_accepted(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-28, S0-29, S0-32, S1-04, S1-06: the whole subtree, from lists, reads and search."""
    items = await index_folder(worker, base, docs)
    deletion = await delete.delete(worker.db, base.id, [items["docs"].id])
    assert set((await worker.statuses()).values()) == {"deleting"}
    assert await worker.search_texts(base, "rye") == []
    async with worker.db.connection() as tx:
        assert await catalog.list_items(tx, base.id, catalog.ItemFilter(everywhere=True), limit=9) == []
        assert await catalog.find_item(tx, items["a.md"].id) is None
        assert (await catalog.base_stats(tx, [base.id]))[base.id].items == {}
    key = DeleteSubtree(base.id, (items["docs"].id,)).key()
    assert key == f"knowledge:{base.id}:{items['docs'].id}:delete"
    assert await worker.rows("select id, key from job") == [(deletion.job_id, key)]


async def test_reindex_writes_no_state_and_the_same_selection_has_one_job(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-36, S1-05: whatever the order and the repeats; S0-01."""
    items = await index_folder(worker, base, docs)
    before = await worker.rows("select id, status, wanted_version, updated_at from item order by id")
    first = await worker.reindex(base, items["a.md"].id, items["deep"].id)
    again = await worker.reindex(base, items["deep"].id, items["a.md"].id, items["b.md"].id)
    assert first.job_id == again.job_id
    assert await worker.rows("select id, status, wanted_version, updated_at from item order by id") == before
    roots = sorted(str(items[title].id) for title in ("a.md", "deep"))
    assert await worker.rows("select key from job") == [(f"knowledge:{base.id}:{','.join(roots)}:reindex",)]
    forward, backward = (
        tuple(items[t].id for t in titles) for titles in (("a.md", "deep"), ("deep", "a.md"))
    )
    assert ReindexSubtree(base.id, forward).key() == ReindexSubtree(base.id, backward).key()
