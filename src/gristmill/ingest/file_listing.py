"""File what a listing has found: a batch of children, with the subfolders that were listed to their end.

Level by level, in the caller's transaction: new items are inserted, new versions of known ones requested, and everything that
now has something to do gets its job. A subfolder whose contents are in the batch needs no job: it is expanded here, in the
same transaction, and deletes the children that its source no longer has. A subfolder without contents gets a job that
lists it.

A batch may be filed again after a kill: what this version has listed already is passed over, with everything below it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gristmill import catalog, events, jobs
from gristmill.catalog import Base, ExpandedContainer, Item, ItemId, NewItem, exclusions
from gristmill.db import Tx
from gristmill.events import ContainerExpanded
from gristmill.jobs import Priority
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.freshness import begin_refreshing_pages
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota


@dataclass(frozen=True)
class ListedFolder:
    """Everything in a folder that was listed to its end, and how many entries were left out, by reason."""

    children: Sequence["ListedItem"]
    left_out: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True)
class ListedItem:
    """An item that a listing has found; `folder` has its contents, if it is a folder that was listed to its end."""

    item: NewItem
    folder: ListedFolder | None = None


class ChildrenExist(Exception):
    """Some of the children are filed already, so that jobs may be working on them: the base must be locked exclusively."""


@dataclass(frozen=True)
class _Level:
    """Items of one depth, and the containers that they belong to."""

    parents: list[Item] = field(default_factory=list[Item])
    listed: list[ListedItem] = field(default_factory=list[ListedItem])

    def add(self, parent: Item, children: Sequence[ListedItem]) -> None:
        self.parents.extend([parent] * len(children))
        self.listed.extend(children)


async def file_listing(
    tx: Tx, base: Base, root: Item, listed: Sequence[ListedItem], *, is_exclusive: bool
) -> None:
    """File a batch of the root's children. Without the exclusive lock it raises ChildrenExist if one is filed already."""
    await catalog.begin_listing(tx, root.id, root.wanted_version)
    top = await exclusions.top_container(tx, root.id)
    level, filed, waiting = _Level(), list[Item](), list[Item]()
    expanded: list[tuple[Item, ListedFolder]] = []
    level.add(root, listed)
    while level.listed:
        if top is not None:
            level = await _without_excluded(tx, top, level)
        inserted, requested = await _file_level(tx, base, level, is_exclusive=is_exclusive)
        filed += inserted.values()
        below = _Level()
        for place, item in (inserted | requested).items():
            folder = level.listed[place].folder
            if folder is None or item.error_code is not None:
                waiting.append(item)
            else:
                expanded.append((item, folder))
                below.add(item, folder.children)
        level = below
    await begin_refreshing_pages(tx, base, root, filed)
    await record_filed_events(tx, filed)
    await enqueue_next_jobs(tx, base, waiting, Priority.NORMAL)
    await _mark_expanded(tx, base, expanded, is_exclusive=is_exclusive)


async def _without_excluded(tx: Tx, top: ItemId, level: _Level) -> _Level:
    """The level without what people deleted from the added container, and with everything below it."""
    sources = [(listed.item.type, listed.item.key) for listed in level.listed]
    places = await exclusions.find_excluded(tx, top, sources)
    if not places:
        return level
    remaining = [place for place in range(len(sources)) if place not in places]
    return _Level([level.parents[place] for place in remaining], [level.listed[place] for place in remaining])


async def _file_level(
    tx: Tx, base: Base, level: _Level, *, is_exclusive: bool
) -> tuple[dict[int, Item], dict[int, Item]]:
    """Insert the new items of a level, and request new versions of the known ones; both by their places in the level. A
    known item that this version of its container has listed already is in neither."""
    news = [listed.item for listed in level.listed]
    known = await catalog.find_existing_children(tx, base.id, [parent.id for parent in level.parents], news)
    if known and not is_exclusive:
        raise ChildrenExist
    places: dict[ItemId, int] = {item_id: place for place, item_id in known.items()}
    requested = await catalog.request_listed_versions(
        tx, [(known[place], news[place], level.parents[place].wanted_version) for place in known]
    )
    new_places = [place for place in range(len(news)) if place not in known]
    inserted = await catalog.insert_children(
        tx,
        base.id,
        [level.parents[place].id for place in new_places],
        [level.parents[place].wanted_version for place in new_places],
        await fail_beyond_quota(tx, base.id, [news[place] for place in new_places]),
    )
    return dict(zip(new_places, inserted, strict=True)), {places[item.id]: item for item in requested}


async def _mark_expanded(
    tx: Tx, base: Base, expanded: Sequence[tuple[Item, ListedFolder]], *, is_exclusive: bool
) -> None:
    """Complete the listings of subfolders: what a job of their own would do at its end."""
    if not expanded:
        return
    versions = [(item.id, item.wanted_version) for item, _ in expanded]
    if is_exclusive:
        await jobs.dismiss_dead_by_subject(tx, [item_id for item_id, version in versions if version > 1])
        if stale := await catalog.stale_children(tx, versions):
            await mark_for_deletion(tx, base, stale)
    await catalog.mark_expanded(
        tx,
        [ExpandedContainer(item.id, item.wanted_version, +folder.left_out) for item, folder in expanded],
    )
    await events.record(tx, *(ContainerExpanded(base.id, item_id, version) for item_id, version in versions))
