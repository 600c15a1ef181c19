"""`/api/knowledge-bases`."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field, StrictBool, StrictInt

from gristmill import catalog, jobs
from gristmill.catalog import AssetReuse, Base, BaseId, BaseStats, BaseStatus, OnRestart
from gristmill.catalog.access import EVERYBODY
from gristmill.errors import Invalid
from gristmill.operations import bases, guards
from gristmill.operations import queue as operations_queue
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import (
    ApiContext,
    CurrentCaller,
    CurrentContext,
    CurrentViewer,
    PathBase,
)
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    ErrorBody,
    JsonObject,
    Limit,
    Name,
    Page,
    Patterns,
    RequestModel,
    StoredModel,
)
from gristmill.settings import LOCAL_PROCESSOR

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"])


class Chunking(RequestModel):
    """How documents of the base are cut."""

    max_tokens: (
        Annotated[StrictInt, Field(ge=32, le=8192, description="Longest chunk, in the embedder's tokens.")]
        | None
    ) = None


class Options(RequestModel):
    """What the base's folders leave out and take in, from the next time on that one is listed; and what its images
    cost."""

    ignore: Annotated[Patterns, Field(description="Patterns as in .gitignore, left out.")] | None = None
    include_hidden: (
        Annotated[StrictBool, Field(description="Take in names that begin with a dot.")] | None
    ) = None
    asset_reuse: (
        Annotated[AssetReuse, Field(description="When what was said of an equal image before will do.")]
        | None
    ) = None


class NewBase(RequestModel):
    """A base to create; `onRestart` says whether interrupted work resumes by itself or waits for a hand."""

    name: Name
    embedder: str | None = None
    chunking: Chunking = Chunking()
    file_processor_id: Name | None = None
    on_restart: OnRestart = "resume"
    settings: Options = Options()
    acl: Annotated[Acl, Field(default_factory=list)]


class ChangedBase(RequestModel):
    """What to change of a base. `status: ready` restores a failed one, once its cause is gone."""

    name: Name | None = None
    chunking: Chunking | None = None
    file_processor_id: Name | None = None
    on_restart: OnRestart | None = None
    settings: Options | None = None
    acl: Acl | None = None
    status: Literal["ready"] | None = None


class BaseOut(StoredModel):
    """A base as it is shown."""

    name: str
    status: BaseStatus
    error: ErrorBody | None
    embedder: str
    dimensions: int
    chunking: JsonObject
    file_processor_id: str | None
    on_restart: str
    settings: JsonObject
    acl: list[str]
    item_counts: dict[str, int]
    leaf_counts: dict[str, int]
    chunk_count: int
    progress: float
    changed_at: datetime

    @classmethod
    def of(cls, base: Base, figures: BaseStats) -> Self:
        """Show `base`."""
        return cls(
            id=base.id,
            created_at=base.created_at,
            updated_at=base.updated_at,
            name=base.name,
            status=base.status,
            error=ErrorBody(code=base.error_code, message=base.error_message or "")
            if base.error_code
            else None,
            embedder=base.embedder,
            dimensions=base.dimensions,
            chunking=base.chunking,
            file_processor_id=base.file_processor,
            on_restart=base.on_restart,
            settings={
                "ignore": base.ignore,
                "includeHidden": base.include_hidden,
                "assetReuse": base.asset_reuse,
            },
            acl=base.acl,
            item_counts=figures.items,
            leaf_counts=figures.leaves,
            chunk_count=figures.chunks,
            progress=round(figures.progress, 1),
            changed_at=max(base.updated_at, figures.changed_at or base.updated_at),
        )


class DeletedBase(ApiModel):
    """The job that removes the base; its result is the receipt."""

    job_id: UUID


class Recovered(ApiModel):
    """How many items were taken up again."""

    recovered: int


class Dismissed(ApiModel):
    """How many items were left as failed."""

    dismissed: int


class QueueOut(ApiModel):
    """What a base still has to do, how fast it goes, and when it may be done."""

    queue_size: int
    processing_count: int
    dead_count: int
    active_item_ids: list[UUID]
    orphan_item_ids: list[UUID]
    per_stage: dict[str, int]
    oldest_queued_at: datetime | None
    rate_per_minute: int
    eta_seconds: int | None
    paused: bool


def _check_processor(context: ApiContext, name: str | None) -> None:
    if name is not None and name != LOCAL_PROCESSOR and name not in context.settings.processors:
        known_processors = ", ".join((LOCAL_PROCESSOR, *context.settings.processors))
        raise Invalid(
            f"There is no file processor {name!r}; there is {known_processors}.",
            code="unknown_file_processor",
        )


@router.post("", status_code=201)
async def create_base(
    body: NewBase, context: CurrentContext, caller: CurrentCaller, response: Response
) -> BaseOut:
    """Create a knowledge base. Who is no admin, and names no access list, makes it for its own principal."""
    embedder = context.embedders.get(body.embedder or context.settings.embedder)
    _check_processor(context, body.file_processor_id)
    chunking = body.chunking.model_dump(by_alias=True, exclude_none=True)
    created = await bases.create(
        context.db,
        body.name,
        embedder,
        chunking,
        file_processor=body.file_processor_id,
        on_restart=body.on_restart,
        settings=body.settings.model_dump(by_alias=True, exclude_none=True),
        acl=body.acl if "acl" in body.model_fields_set else _default_acl(caller),
        org=caller.org,
    )
    set_etag(response, created.updated_at)
    return BaseOut.of(created, BaseStats())


def _default_acl(caller: Caller) -> list[str]:
    """For whose eyes a base is when nothing is said: only admins', but who made it must see it."""
    if caller.viewer.is_admin or caller.key is None:
        return []
    return [EVERYBODY] if caller.key.email is None else [f"user_email:{caller.key.email}"]


@router.get("")
async def list_bases(
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: Limit = 100,
    cursor: UUID | None = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
) -> Page[BaseOut]:
    """All knowledge bases, oldest first; with `name`, the one of that name."""
    async with context.db.connection() as tx:
        if name is not None:
            named_base = await catalog.find_base_by_name(tx, name, viewer)
            page_bases = [named_base] if named_base else []
        else:
            page_bases = await catalog.list_bases(
                tx, limit=limit, after=BaseId(cursor) if cursor else None, viewer=viewer
            )
        figures = await catalog.base_stats(tx, [base.id for base in page_bases], viewer)
    has_more = name is None and len(page_bases) == limit
    return Page(
        items=[BaseOut.of(base, figures[base.id]) for base in page_bases],
        next_cursor=str(page_bases[-1].id) if has_more else None,
    )


@router.get("/{base_id}")
async def get_base(
    base_id: PathBase, context: CurrentContext, viewer: CurrentViewer, response: Response
) -> BaseOut:
    """One knowledge base."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
        figures = await catalog.base_stats(tx, [base.id], viewer)
    set_etag(response, base.updated_at)
    return BaseOut.of(base, figures[base.id])


@router.patch("/{base_id}")
async def patch_base(
    base_id: PathBase,
    body: ChangedBase,
    context: CurrentContext,
    viewer: CurrentViewer,
    response: Response,
    if_match: IfMatch = None,
) -> BaseOut:
    """Change a knowledge base; queued work is not disturbed."""
    chunking = body.chunking.model_dump(by_alias=True, exclude_none=True) if body.chunking else None
    _check_processor(context, body.file_processor_id)
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
    await bases.patch(
        context.db,
        base_id,
        name=body.name,
        chunking=chunking,
        file_processor=body.file_processor_id,
        on_restart=body.on_restart,
        settings=body.settings and body.settings.model_dump(by_alias=True, exclude_none=True),
        acl=body.acl,
        restore_with=context.embedders.get(base.embedder) if body.status == "ready" else None,
        check=lambda updated_at: check_if_match(if_match, updated_at),
    )
    return await get_base(base_id, context, viewer, response)


@router.delete("/{base_id}", status_code=202)
async def delete_base(base_id: PathBase, context: CurrentContext) -> DeletedBase:
    """Delete a knowledge base and all that is in it. From the answer on nothing shows it any more."""
    return DeletedBase(job_id=await bases.delete(context.db, base_id))


@router.get("/{base_id}/queue")
async def get_queue(base_id: PathBase, context: CurrentContext) -> QueueOut:
    """What the base still has to do, how fast it goes, and when it may be done."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        queue = await jobs.queue_status(tx, base.lane)
        paused = await jobs.is_paused(tx, base.lane)
        orphans = await operations_queue.find_orphans(tx, base.id)
    return QueueOut(
        queue_size=queue.waiting,
        processing_count=queue.running,
        dead_count=queue.dead,
        active_item_ids=queue.active,
        orphan_item_ids=list(orphans),
        per_stage=queue.by_kind,
        oldest_queued_at=queue.oldest_queued_at,
        rate_per_minute=queue.rate_per_minute,
        eta_seconds=queue.eta_seconds,
        paused=paused,
    )


@router.post("/{base_id}/queue/pause", status_code=204)
async def pause_queue(base_id: PathBase, context: CurrentContext) -> Response:
    """Start none of the base's jobs until it is resumed; what runs goes on."""
    await operations_queue.pause(context.db, base_id, paused=True)
    return Response(status_code=204)


@router.post("/{base_id}/queue/resume", status_code=204)
async def resume_queue(base_id: PathBase, context: CurrentContext) -> Response:
    """Start the base's jobs again."""
    await operations_queue.pause(context.db, base_id, paused=False)
    return Response(status_code=204)


@router.post("/{base_id}/queue/recover")
async def recover_queue(base_id: PathBase, context: CurrentContext) -> Recovered:
    """Take up again what was interrupted and does not resume by itself."""
    return Recovered(recovered=await operations_queue.recover(context.db, base_id))


@router.post("/{base_id}/queue/dismiss")
async def dismiss_queue(base_id: PathBase, context: CurrentContext) -> Dismissed:
    """Leave as failed what was interrupted."""
    return Dismissed(dismissed=await operations_queue.dismiss(context.db, base_id))
