"""How long a base keeps things, legal holds, kept versions, and the deletion report."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StrictInt

from gristmill.catalog import BaseId, ItemId
from gristmill.catalog.deletion_report import DeletionRecord
from gristmill.catalog.holds import LegalHold
from gristmill.catalog.retention import RetentionRule
from gristmill.contents import KeptVersion
from gristmill.server.api.schemas.common import ApiModel, NonBlankText, RequestModel

Days = Annotated[StrictInt, Field(ge=1, le=36_500)]


class RetentionIn(RequestModel):
    """How long a base keeps things, in days. Null: documents without limit, no earlier versions, events and the audit log as the
    settings say."""

    document_days: Days | None = None
    version_days: Days | None = None
    event_days: Days | None = None
    audit_days: Days | None = None

    def to_rule(self, base_id: BaseId) -> RetentionRule:
        """The rule of this base."""
        return RetentionRule(
            base_id, self.document_days, self.version_days, self.event_days, audit_days=self.audit_days
        )


class RetentionOut(ApiModel):
    """How long a base keeps things, in days, and whether a legal hold suspends it for something in the base."""

    document_days: int | None
    version_days: int | None
    event_days: int | None
    audit_days: int | None
    has_legal_hold: bool

    @classmethod
    def of(cls, rule: RetentionRule, *, has_hold: bool) -> Self:
        """Show `rule`."""
        return cls(
            document_days=rule.document_days,
            version_days=rule.version_days,
            event_days=rule.event_days,
            audit_days=rule.audit_days,
            has_legal_hold=has_hold,
        )


class NewHold(RequestModel):
    """A legal hold on an item with everything below it, or without `itemId` on the whole base."""

    item_id: UUID | None = None
    reason: Annotated[NonBlankText, Field(max_length=1000)]


class HoldOut(ApiModel):
    """A legal hold: on what, why, and who placed and lifted it. `itemId` is null for the whole base."""

    id: UUID
    base_id: UUID
    item_id: UUID | None
    title: str
    reason: str
    placed_by: str
    placed_at: datetime
    lifted_by: str | None
    lifted_at: datetime | None

    @classmethod
    def of(cls, hold: LegalHold) -> Self:
        """Show `hold`."""
        return cls.model_validate(vars(hold))


class KeptVersionOut(ApiModel):
    """A version that a newer one replaced. `originalHash` is the SHA-256 of its bytes, if they were stored."""

    version: int
    created_at: datetime
    replaced_at: datetime
    characters: int | None
    content_hash: str
    original_hash: str | None

    @classmethod
    def of(cls, version: KeptVersion) -> Self:
        """Show `version`."""
        return cls(
            version=version.version,
            created_at=version.created_at,
            replaced_at=version.replaced_at,
            characters=version.characters,
            content_hash=version.content_hash.hex(),
            original_hash=None if version.original is None else version.original.hex(),
        )


class DeletionOut(ApiModel):
    """A version of a document that was deleted, or a container, without its content. `originalHash` is the SHA-256 of its bytes, if
    they were stored; `title` and `source` are null for notes. `reason` says who decided: a `person` (the `actor`), the `source` that no
    longer has it, a `retention` rule, or the `expiry` of a base or file."""

    id: UUID
    base_id: UUID
    base_name: str
    item_id: UUID
    type: str
    title: str | None
    source: str | None
    version: int | None
    size_bytes: int | None
    content_hash: str | None
    original_hash: str | None
    reason: Literal["person", "source", "retention", "expiry"]
    actor: str | None
    job_id: UUID | None
    requested_at: datetime
    removed_at: datetime

    @classmethod
    def of(cls, record: DeletionRecord) -> Self:
        """Show `record`."""
        hashes = {
            "content_hash": None if record.content_hash is None else record.content_hash.hex(),
            "original_hash": None if record.original_hash is None else record.original_hash.hex(),
        }
        return cls.model_validate({**vars(record), **hashes})


def item_of_hold(hold: NewHold) -> ItemId | None:
    """The item of a new hold; None for the whole base."""
    return None if hold.item_id is None else ItemId(hold.item_id)
