"""Keep sources fresh: schedule checks of new items, change rules, watch folders, and take exclusions back.

    an item's own rule, else that of its sitemap, else that of its base; without any, nothing is checked by itself. A page of a site
    that has no rule of its own is checked by the site's crawls

Each change is one transaction under the base's lock. A changed rule applies from now on: the next check is due by the new rule.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from gristmill import catalog, jobs
from gristmill.catalog import Base, BaseId, Item, ItemId, exclusions, refresh, watches
from gristmill.catalog.exclusions import Exclusion
from gristmill.catalog.refresh import FirstCheck, ItemRefresh, RefreshOrigin
from gristmill.catalog.watches import FolderWatch
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import NewJob, Priority
from gristmill.operations import guards
from gristmill.operations.refresh_rule import parse_rule
from gristmill.work import RefreshContainer, RefreshDocuments

PAGES = "url"
WEB_CONTAINERS = ("sitemap", "site")
Keep = Literal["keep"]


@dataclass(frozen=True)
class Freshness:
    """How an item is kept fresh: its schedule and its watch, where it has them."""

    refresh: ItemRefresh | None = None
    watch: FolderWatch | None = None


@dataclass(frozen=True)
class FreshnessChoice:
    """How someone wants an item to be kept fresh: by its own rule (None: as its container or base says), and whether its folder is
    watched (None: if that is cheap)."""

    rule: Mapping[str, Any] | None = None
    watch: bool | None = None


# ── new items ────────────────────────────────────────────────────────────────────────────────────────────


async def begin_refreshing(
    tx: Tx,
    base: Base,
    items: Sequence[Item],
    rule: Mapping[str, Any] | None = None,
    origin: RefreshOrigin = "base",
) -> None:
    """Schedule the checks of new items: by this rule, or by that of their base."""
    rule = base.refresh if rule is None else rule
    ids = [item.id for item in items if can_refresh(item)]
    if rule is not None and ids:
        await refresh.schedule_checks(tx, ids, await _first_check(tx, rule), origin)
    for item in items:
        if item.type == "directory" and can_refresh(item):
            await watches.begin_watch(tx, item.id)


async def apply_choices(tx: Tx, choices: Sequence[tuple[Item, FreshnessChoice]]) -> None:
    """Set the rules and watches that were chosen for items that have just been filed or replaced; one rule for many items at once."""
    by_rule: dict[str, list[Item]] = {}
    for item, choice in choices:
        if choice.rule is not None:
            by_rule.setdefault(json.dumps(choice.rule), []).append(item)
        if choice.watch is not None:
            await set_watch(tx, item, choice.watch)
    for rule, items in by_rule.items():
        first = await _first_check(tx, json.loads(rule))
        await refresh.set_item_refresh(tx, [item.id for item in items], first)
        for item in items:
            await _set_rule_of_pages(tx, item, first, "container")


async def begin_refreshing_pages(tx: Tx, base: Base, container: Item, items: Sequence[Item]) -> None:
    """Schedule the checks of pages that a container's listing filed: by the rule of the container, or of the base."""
    pages = [item for item in items if item.type == PAGES]
    if not pages:
        return
    own = (await refresh.find_refreshes(tx, [container.id])).get(container.id)
    if own is None:
        await begin_refreshing(tx, base, pages)
    else:
        await begin_refreshing(tx, base, pages, own.rule, "base" if own.origin == "base" else "container")


def can_refresh(item: Item) -> bool:
    """Whether an item's own source can be checked. Subfolders are checked with the folder that was added."""
    if item.type in ("directory", "file"):
        return "path" in item.source and "root" not in item.source
    return item.type == PAGES or item.type in WEB_CONTAINERS


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────


async def set_base_rule(tx: Tx, base: Base, rule: Mapping[str, Any] | None) -> None:
    """Change when the sources of a locked base are checked; None: never by themselves."""
    await refresh.set_base_refresh(tx, base.id, None if rule is None else await _first_check(tx, rule))


async def set_item_rule(tx: Tx, base: Base, item: Item, rule: Mapping[str, Any] | None) -> None:
    """Change when the source of an item of a locked base is checked, and the pages of a sitemap with it. None: as its
    container or base says."""
    if not can_refresh(item):
        raise Conflict(
            "Only folders, files on the disk, web pages, sitemaps and sites are checked for changes. Subfolders are checked with the"
            " folder that was added.",
            code="not_refreshable",
        )
    origin: RefreshOrigin = "item"
    if rule is None:
        rule, origin = await _find_inherited_rule(tx, base, item)
    first = None if rule is None else await _first_check(tx, rule)
    await refresh.set_item_refresh(tx, [item.id], first, origin)
    await _set_rule_of_pages(tx, item, first, "container" if origin == "item" else origin)


async def _set_rule_of_pages(tx: Tx, item: Item, first: FirstCheck | None, origin: RefreshOrigin) -> None:
    """Give the pages of a sitemap that inherit its rule the same one. A site crawls its pages itself."""
    if item.type == "sitemap":
        await refresh.set_item_refresh(tx, await refresh.inheriting_pages(tx, item.id), first, origin)


async def set_watch(tx: Tx, item: Item, wanted: bool | None) -> None:
    """Change whether a folder is watched; None: if that is cheap."""
    if item.type != "directory" or not can_refresh(item):
        raise Conflict("Only folders that were added as such can be watched.", code="not_watchable")
    await watches.want_watch(tx, item.id, wanted)


async def check_now(db: Database, item_id: ItemId) -> None:
    """Queue a check of an item's source now, whatever its rule; that of a sitemap or site includes its pages: a crawl fetches them itself."""
    async with db.transaction() as tx:
        item = await guards.require_item(tx, item_id)
        base = await guards.lock_open_base(tx, item.base_id)
        if not can_refresh(item):
            raise Conflict(
                "This item has no source of its own that could be checked. Check the folder or connector that it is in.",
                code="not_refreshable",
            )
        if (await refresh.find_refreshes(tx, [item.id])).get(item.id) is None:
            first = await _first_check(tx, {"every": "never"})
            await refresh.set_item_refresh(tx, [item.id], first, "base")
        work = (
            RefreshContainer(base.id, item.id) if item.is_container else RefreshDocuments(base.id, (item.id,))
        )
        await jobs.enqueue(tx, NewJob(work, lane=base.lane, priority=Priority.INTERACTIVE))
        if item.type == "sitemap":
            await refresh.run_checks_now(tx, await refresh.inheriting_pages(tx, item.id))


async def freshness_of(tx: Tx, item_ids: Sequence[ItemId]) -> dict[ItemId, Freshness]:
    """How items are kept fresh."""
    schedules = await refresh.find_refreshes(tx, item_ids)
    folder_watches = await watches.find_watches(tx, item_ids)
    return {item_id: Freshness(schedules.get(item_id), folder_watches.get(item_id)) for item_id in item_ids}


# ── exclusions ───────────────────────────────────────────────────────────────────────────────────────────


async def take_back(
    db: Database,
    base_id: BaseId,
    ids: Sequence[UUID] | None,
    on_removed: Callable[[Tx, Sequence[Exclusion]], Awaitable[None]] | None = None,
) -> list[Exclusion]:
    """Forget exclusions of a base, these or all, and queue checks of their containers, which then find the sources again.
    `on_removed` does more about them in the same transaction."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        removed = await exclusions.remove_exclusions(tx, base.id, ids)
        if ids and not removed:
            raise NotFound(f"There is no exclusion {ids[0]} in this base.", code="exclusion_not_found")
        if on_removed is not None:
            await on_removed(tx, removed)
        roots = {exclusion.root_id for exclusion in removed}
        for item in await catalog.find_items(tx, list(roots)):
            if item.type in ("directory", *WEB_CONTAINERS):
                work = RefreshContainer(base.id, item.id)
                await jobs.enqueue(tx, NewJob(work, lane=base.lane, priority=Priority.NORMAL))
    return removed


async def _find_inherited_rule(
    tx: Tx, base: Base, item: Item
) -> tuple[Mapping[str, Any] | None, RefreshOrigin]:
    if item.parent_id is not None:
        container = await catalog.find_item(tx, item.parent_id)
        if container is not None and container.type == "site":
            return None, "base"  # its crawls fetch it
        above = (await refresh.find_refreshes(tx, [item.parent_id])).get(item.parent_id)
        if above is not None and above.origin == "item":
            return above.rule, "container"
    return base.refresh, "base"


async def _first_check(tx: Tx, rule: Mapping[str, Any]) -> FirstCheck:
    return parse_rule(rule).first_check(rule, await refresh.database_time(tx))
