"""Retention and legal holds: how long a base keeps things, what must not be deleted, and the deletion of what is due.

    apply_retention     for every base with a rule: documents past their time, in batches of one transaction each: lock the base → find
                        those that are due and that no hold covers → exclude them from listings → mark them as deleting, as people do.
                        Then earlier versions past their time, in batches, and events
    place, lift         one transaction under the base's lock, so that a deletion comes before a hold, or is refused

Killed anywhere: each batch is committed or not, and the next pass of the reconciler finds the rest. Two passes beside each other do no
harm: the second finds nothing in a batch that the first has marked.
"""

import logging
from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

from gristmill import catalog, contents, events, faults
from gristmill.catalog import BaseId, ItemId, exclusions, holds, retention
from gristmill.catalog.holds import LegalHold
from gristmill.catalog.retention import RetentionRule
from gristmill.contents import ExpiredVersion
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.identity.organisation import OrgId
from gristmill.operations import guards
from gristmill.operations.delete import mark_for_deletion

log = logging.getLogger(__name__)

BATCH_SIZE = 200
ACTOR = "retention"


async def show_rule(db: Database, base_id: BaseId) -> RetentionRule:
    """How long a base keeps things."""
    async with db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        return await retention.find_retention(tx, base.id)


async def change_rule(db: Database, rule: RetentionRule) -> RetentionRule:
    """Set how long a base keeps things. What is due by the new rule is deleted within the next hour."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, rule.base_id)
        await retention.put_retention(tx, rule)
        return await retention.find_retention(tx, base.id)


# ── legal holds ──────────────────────────────────────────────────────────────────────────────────────────


async def place_hold(
    db: Database, base_id: BaseId, item_id: ItemId | None, reason: str, actor: str
) -> LegalHold:
    """Keep a base, or an item with everything below it, from being deleted."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        item = None
        if item_id is not None:
            (item,) = await guards.require_items(tx, base, [item_id])
            if item.status is catalog.ItemStatus.DELETING:
                raise NotFound(f"There is no item {item_id}.", code="item_not_found")
        return await holds.insert_hold(tx, base, item, reason, actor)


async def lift_hold(db: Database, org: OrgId, base_id: BaseId, hold_id: UUID, actor: str) -> LegalHold:
    """Let what a hold covers be deleted again, unless another one covers it."""
    async with db.transaction() as tx:
        await catalog.lock_base(tx, base_id)
        hold = await holds.find_hold(tx, hold_id)
        if hold is None or hold.org_id != org or hold.base_id != base_id:
            raise NotFound(f"There is no legal hold {hold_id}.", code="hold_not_found")
        lifted = await holds.lift_hold(tx, hold_id, actor)
        if lifted is None:
            raise Conflict("This legal hold was lifted before.", code="hold_lifted")
        return lifted


# ── what is due ──────────────────────────────────────────────────────────────────────────────────────────


async def apply_retention(db: Database) -> int:
    """Delete what bases need not keep any more; how many documents and versions."""
    async with db.connection() as tx:
        rules = await retention.list_retention(tx)
    deleted = 0
    for rule in rules:
        if rule.document_days is not None:
            deleted += await _delete_documents(db, rule.base_id, rule.document_days)
        if rule.event_days is not None:
            await _sweep_events(db, rule.base_id, rule.event_days)
    return deleted + await _delete_versions(db)


async def _delete_documents(db: Database, base_id: BaseId, days: int) -> int:
    deleted = 0
    while True:
        async with db.transaction() as tx:
            base = await catalog.lock_base(tx, base_id)
            if base is None:
                return deleted
            due = await retention.find_expired_documents(tx, base.id, days, BATCH_SIZE)
            if due:
                await exclusions.exclude_items(tx, due)
                job_id = await mark_for_deletion(tx, base, due, reason="retention", actor=ACTOR)
                await events.announce_ready(tx, [base.id], cause=job_id)
            await faults.point("retention.before_commit")
        deleted += len(due)
        if due:
            log.info(
                "deleted documents that the base's retention no longer keeps",
                extra={"base": str(base_id), "documents": len(due), "days": days},
            )
        if len(due) < BATCH_SIZE:
            return deleted


async def _delete_versions(db: Database) -> int:
    """Delete earlier versions whose time is over, or that a lifted hold had kept."""
    deleted = 0
    while True:
        async with db.connection() as tx:
            due = await contents.find_expired_versions(tx, None, BATCH_SIZE)
        for base_id, group in groupby(sorted(due, key=_base_of), key=_base_of):
            deleted += await _delete_versions_of(db, base_id, list(group))
        if len(due) < BATCH_SIZE:
            return deleted


async def _delete_versions_of(db: Database, base_id: BaseId, suspects: Sequence[ExpiredVersion]) -> int:
    async with db.transaction() as tx:
        await catalog.lock_base(tx, base_id)
        # A hold may have been placed since.
        still_due = set(await contents.find_expired_versions(tx, base_id, BATCH_SIZE))
        due = [(version.item_id, version.version) for version in suspects if version in still_due]
        await retention.record_deleted_versions(tx, due)
        await contents.delete_versions(tx, due)
        await faults.point("retention.before_commit")
    return len(due)


def _base_of(version: ExpiredVersion) -> BaseId:
    return version.base_id


async def _sweep_events(db: Database, base_id: BaseId, days: int) -> None:
    has_more = True
    while has_more:
        async with db.connection() as tx:
            has_more = bool(await events.sweep_base(tx, base_id, days))
