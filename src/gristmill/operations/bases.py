"""Create, change, restore and delete knowledge bases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import psycopg

from gristmill import catalog, events, faults, jobs, search
from gristmill.catalog import Base, BaseId, BaseStatus, IndexKind, OnRestart, shares
from gristmill.catalog.access import parse_acl
from gristmill.catalog.deletion_report import DeletionReason
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, hold_embedder
from gristmill.errors import Conflict, FieldError, Invalid
from gristmill.events import BaseChanged, BaseCreated, BaseDeleted, BaseRestored
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.jobs import JobId, NewJob
from gristmill.operations import freshness, guards
from gristmill.work import DeleteBase


async def create(
    db: Database,
    name: str,
    embedder: Embedder,
    chunking: dict[str, Any],
    *,
    file_processor: str | None = None,
    on_restart: OnRestart = "resume",
    settings: Mapping[str, Any] | None = None,
    acl: Sequence[str] = (),
    org: OrgId = LOCAL_ORG,
    index_kind: IndexKind = "embedded",
    description: str = "",
    metadata: Mapping[str, Any] | None = None,
    expire_days: int | None = None,
    refresh: Mapping[str, Any] | None = None,
    owner: str | None = None,
) -> Base:
    """Create a base of `org` with this embedder; its name must be free in the organisation. `owner` is a principal."""
    check_chunk_size(chunking, embedder)
    async with db.transaction() as tx:
        await hold_embedder(tx, embedder)
        created = await catalog.insert_base(
            tx,
            name=name,
            embedder=embedder.name,
            embedder_identity=embedder.identity,
            dimensions=embedder.dimensions,
            chunking=chunking,
            file_processor=file_processor,
            on_restart=on_restart,
            settings=settings,
            acl=parse_acl(acl),
            org=org,
            index_kind=index_kind,
            description=description,
            metadata=metadata,
            expire_days=expire_days,
        )
        if created is None:
            raise Conflict(
                f"A knowledge base named {name!r} already exists. Choose another name.",
                code="base_name_taken",
            )
        if owner is not None and owner in created.acl:
            await shares.set_share(tx, created.id, owner, "owner")
        if refresh is not None:
            await freshness.set_base_rule(tx, created, refresh)
            created = replace(created, refresh=dict(refresh))
        await events.record(tx, BaseCreated(created.id, created.name, created.embedder))
        return created


def check_chunk_size(chunking: Mapping[str, Any], embedder: Embedder) -> None:
    """Raise if chunks would be longer than the embedder takes: it would cut off the end of each."""
    size = chunking.get("maxTokens")
    if size is not None and size > embedder.max_tokens:
        message = (
            f"The embedder {embedder.name} takes at most {embedder.max_tokens:,} tokens. Set `chunking.maxTokens` to"
            f" {embedder.max_tokens:,} or less, or choose an embedder that takes longer texts."
        )
        field = FieldError("chunking.maxTokens", f"must be at most {embedder.max_tokens:,}")
        raise Invalid(message, code="chunk_too_long", fields=[field])


def chunking_with(base: Base, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The chunking of a base with some fields changed: the others stay, and None means the default."""
    return {name: value for name, value in {**base.chunking, **changes}.items() if value is not None}


async def patch(
    db: Database,
    base_id: BaseId,
    *,
    name: str | None = None,
    chunking: Mapping[str, Any] | None = None,
    file_processor: str | None = None,
    on_restart: OnRestart | None = None,
    settings: Mapping[str, Any] | None = None,
    acl: Sequence[str] | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    expire_days: int | Literal["keep"] | None = "keep",
    refresh: Mapping[str, Any] | freshness.Keep | None = "keep",
    restore_with: Embedder | None = None,
    check: Callable[[datetime], None] | None = None,
) -> Base:
    """Change a base. Queued work goes on, and uses the new settings for everything that it has not read or listed yet.

    `check` gets the time of the last change, and may raise. `restore_with` makes a failed base ready again, if it is the
    embedder that the base's vectors come from. A new `expire_days` counts from now, also for a base that has expired.
    """
    name_taken = Conflict(
        f"A knowledge base named {name!r} already exists. Choose another name.", code="base_name_taken"
    )
    try:
        async with db.transaction() as tx:
            base = await guards.lock_base(tx, base_id)
            if check is not None:
                check(base.updated_at)
            if restore_with is not None:
                await _restore(tx, base, restore_with)
            if expire_days != "keep":
                await catalog.set_base_expiry(tx, base_id, expire_days)
            if refresh != "keep":
                await freshness.set_base_rule(tx, base, refresh)
            changed = await catalog.patch_base(
                tx,
                base_id,
                name=name,
                chunking=None if chunking is None else chunking_with(base, chunking),
                file_processor=file_processor,
                on_restart=on_restart,
                settings=settings or {},
                acl=None if acl is None else parse_acl(acl),
                description=description,
                metadata=metadata,
            )
            if changed is None:
                raise name_taken
            if acl is not None:
                await shares.prune_shares(tx, base_id)
            if not changed.keeps_questions:
                await search.delete_questions(tx, base_id)
            await events.record(tx, BaseChanged(changed.id, changed.name))
            return changed
    except psycopg.errors.UniqueViolation:  # another transaction took the name at the same moment
        raise name_taken from None


async def _restore(tx: Tx, base: Base, embedder: Embedder) -> None:
    """failed → ready."""
    if embedder.identity != base.embedder_identity:
        raise Conflict(
            f"The embedder {base.embedder!r} is not the one that this base's vectors come from. Configure that embedder again.",
            code="embedder_changed",
        )
    await catalog.set_base_status(tx, base.id, BaseStatus.READY)
    await events.record(tx, BaseRestored(base.id))


async def delete(
    db: Database, base_id: BaseId, *, actor: str | None = None, reason: DeletionReason = "person"
) -> JobId:
    """Hide a base at once and queue the removal of everything in it; its name is free from now on.

    The removal does all cleanup: this transaction signals running jobs to stop and cancels waiting ones, deletions within
    the base included.
    """
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        await guards.refuse_held_base(tx, base)
        await catalog.mark_base_deleting(tx, base.id)
        await jobs.cancel_lane(tx, base.lane)
        await jobs.set_paused(tx, base.lane, paused=False)  # else the removal could never run
        await faults.point("delete_base.marked")
        (job,) = await jobs.enqueue(tx, NewJob(DeleteBase(base.id, reason, actor), lane=base.lane))
        await events.record(tx, BaseDeleted(base.id, base.name), cause=job.id)
    return job.id
