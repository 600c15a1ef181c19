"""Which items a search lists for a viewer: exactly those that the gate would let pass."""

import random
from collections.abc import Sequence
from uuid import UUID

import pytest

from gristmill import catalog
from gristmill.catalog import Base, ItemId, NewItem, Viewer
from gristmill.db import Database
from gristmill.search import Filters, Scope, selectivity, store
from tests.search.published_items import new_base, publish_version

ACLS: Sequence[list[str] | None] = [
    None,
    None,
    [],
    ["group:a"],
    ["group:b"],
    ["group:a", "group:b"],
    ["group:c"],
]
VIEWERS = [(), ("group:a",), ("group:b", "group:c"), ("group:base",), ("group:none",)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base_acl", [[], ["group:base", "group:a"]])
async def test_the_list_of_visible_items_is_that_of_the_gate(
    db: Database, seed: int, base_acl: list[str]
) -> None:
    """Promise 7: lists of their own, inherited ones and the base's; items that are deleted, unpublished or filtered out."""
    base = await new_base(db, acl=base_acl)
    await _file_tree(db, base, random.Random(seed))
    async with db.transaction() as tx:
        for principals in VIEWERS:
            for filters in (Filters(), Filters(types=("file",)), Filters(metadata={"kind": 1})):
                scope = Scope(Viewer(frozenset(principals)), filters)
                ids = await store.item_ids_in_scope(tx, base.id, scope, 1000)
                listed = [UUID(bytes=ids[start : start + 16]) for start in range(0, len(ids), 16)]
                assert sorted(listed) == sorted(await store.items_in_scope(tx, base.id, scope, 1000))


async def _file_tree(db: Database, base: Base, rng: random.Random) -> None:
    """Items at three levels with lists of all kinds; most are published, some of them are being deleted."""
    parents: list[ItemId | None] = [None]
    async with db.transaction() as tx:
        for level in range(3):
            next_parents: list[ItemId | None] = []
            for parent in parents:
                new = [
                    NewItem(
                        rng.choice(["note", "file"]),
                        f"{level} {n}",
                        f"{level} {n}",
                        acl=rng.choice(ACLS),
                        metadata={"kind": rng.randrange(2)},
                    )
                    for n in range(4)
                ]
                items = await catalog.insert_items(tx, base.id, parent, new)
                await publish_version(tx, [item for item in items if rng.random() < 0.8], 1, 1)
                await catalog.mark_deleting(tx, [item.id for item in items if rng.random() < 0.1])
                next_parents += [item.id for item in items]
            parents = next_parents


async def test_lists_end_where_checking_hits_is_quicker(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few items are listed by id and key, more by key alone, many not at all."""
    base = await new_base(db)
    async with db.transaction() as tx:
        new = [NewItem("note", f"{n}", f"{n}", acl=["group:a"]) for n in range(8)]
        await publish_version(tx, await catalog.insert_items(tx, base.id, None, new), 1, 1)
        scope = Scope(Viewer(frozenset({"group:a"})))
        sizes: list[tuple[int | None, ...]] = []
        for listed in (8, 7, 2, 1):
            monkeypatch.setattr(selectivity, "MAX_LISTED_ITEMS", listed)
            measured = await selectivity.measure_selectivity(tx, base.id, scope)
            sizes.append(
                tuple(None if part is None else len(part) for part in (measured.items, measured.keys))
            )
    assert sizes == [(8, 8), (None, 8), (None, 8), (None, None)]
