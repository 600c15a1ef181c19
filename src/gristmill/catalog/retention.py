"""How long a base keeps documents, earlier versions, events and its audit log. Without a rule, documents are kept without limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class RetentionRule:
    """How long a base keeps things, in days; None: documents without limit, no earlier versions, events and the audit log as the
    settings say."""

    base_id: BaseId
    document_days: int | None = None
    version_days: int | None = None
    event_days: int | None = None
    updated_at: datetime | None = None
    audit_days: int | None = None


async def find_retention(tx: Tx, base_id: BaseId) -> RetentionRule:
    """The rule of a base; one without limits if it has none."""
    rows = await queries.many(tx, RetentionRule, "find_retention", base=base_id)
    return rows[0] if rows else RetentionRule(base_id)


async def put_retention(tx: Tx, rule: RetentionRule) -> None:
    """Set the rule of a base."""
    await queries.run(
        tx,
        "put_retention",
        base=rule.base_id,
        documents=rule.document_days,
        versions=rule.version_days,
        events=rule.event_days,
        audit=rule.audit_days,
    )


async def list_retention(tx: Tx) -> list[RetentionRule]:
    """The rules of all bases."""
    return await queries.many(tx, RetentionRule, "list_retention")


async def find_expired_documents(tx: Tx, base_id: BaseId, days: int, limit: int) -> list[ItemId]:
    """Documents whose content has not changed for so many days, and that no legal hold covers."""
    return await queries.values(tx, "find_expired_documents", base=base_id, days=days, limit=limit)


async def record_deleted_versions(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> None:
    """Note in the deletion report that kept versions are deleted. Call it before they are."""
    await queries.run(
        tx,
        "record_deleted_versions",
        items=[item for item, _ in versions],
        versions=[version for _, version in versions],
    )
