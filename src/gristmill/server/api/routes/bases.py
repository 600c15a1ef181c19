"""`/api/knowledge-bases`: create, list, change and delete bases, and control the queue of one."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from gristmill import catalog, jobs, search
from gristmill.catalog import BaseId, BaseStats
from gristmill.catalog.access import EVERYBODY
from gristmill.embedding.language_codes import language_names
from gristmill.errors import Invalid
from gristmill.operations import bases, guards
from gristmill.operations import queue as queue_operations
from gristmill.operations.move_index import move_index, rebuild_index
from gristmill.operations.refresh_rule import NEVER
from gristmill.operations.suggest_embedder import suggest_embedder
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import (
    ApiContext,
    CurrentCaller,
    CurrentContext,
    CurrentViewer,
    PathBase,
)
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.index_address import index_kind_of
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.bases import (
    AskedQuestionOut,
    BaseOut,
    ChangedBase,
    DeletedBase,
    DeletedQuestions,
    Dismissed,
    IndexMove,
    MovingBase,
    NewBase,
    QueueOut,
    Recovered,
)
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.settings import LOCAL_PROCESSOR

router = ApiRouter("/api/knowledge-bases", tag="knowledge bases")


def _check_processor(context: ApiContext, name: str | None) -> None:
    if name is not None and name != LOCAL_PROCESSOR and name not in context.settings.processors:
        known_processors = ", ".join((LOCAL_PROCESSOR, *context.settings.processors))
        raise Invalid(
            f"There is no file processor {name!r}. Choose one of: {known_processors}.",
            code="unknown_file_processor",
        )


@router.post("", status_code=201)
async def create_base(
    body: NewBase, context: CurrentContext, caller: CurrentCaller, response: Response
) -> BaseOut:
    """Create a knowledge base. Without `acl`, a base that is not created by an admin is visible to its creator."""
    languages = language_names(body.languages)
    async with context.db.connection() as tx:
        if body.embedder is None:
            default = await context.embedders.find_default(tx, caller.org)
            embedder = context.embedders.for_languages(languages, default)
        else:
            embedder = await context.embedders.find(tx, body.embedder, caller.org)
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
        acl=body.acl if "acl" in body.model_fields_set else default_acl(caller),
        org=caller.org,
        index_kind="embedded" if context.settings.index_url is None else "opensearch",
        description=body.description,
        metadata=body.metadata,
        expire_days=body.expires_after_days,
        refresh=_refresh_rule(body, context.settings.refresh),
        owner=own_principal(caller),
    )
    set_etag(response, created.updated_at)
    return BaseOut.of(created, BaseStats())


def _refresh_rule(body: NewBase, default: str) -> dict[str, str] | None:
    """When the sources of a new base are checked: as the request says, else as the settings do."""
    if "refresh" in body.model_fields_set:
        return None if body.refresh is None else body.refresh.to_rule()
    return None if default == NEVER else {"every": default}


def default_acl(caller: Caller) -> list[str]:
    """The access list of a base or file that was created without one: admins only, plus a creator who is not an admin."""
    if caller.viewer.is_admin:
        return []
    return [own_principal(caller) or EVERYBODY]


def own_principal(caller: Caller) -> str | None:
    """The entry of access lists that names the caller; None for admins, and for keys that act for no one."""
    if caller.viewer.is_admin:
        return None
    if caller.user is not None:
        return f"user:{caller.user.id}"
    email = None if caller.key is None else caller.key.email
    return None if email is None else f"user_email:{email}"


@router.get("")
async def list_bases(
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: Limit = 100,
    cursor: UUID | None = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
) -> Page[BaseOut]:
    """List knowledge bases, oldest first; with `name`, only the one of that name."""
    async with context.db.connection() as tx:
        if name is not None:
            named_base = await catalog.find_base_by_name(tx, name, viewer)
            page_bases = [named_base] if named_base else []
        else:
            page_bases = await catalog.list_bases(
                tx, limit=limit, after=BaseId(cursor) if cursor else None, viewer=viewer
            )
        stats = await catalog.base_stats(tx, [base.id for base in page_bases], viewer)
    page = page_of(page_bases, limit, lambda base: BaseOut.of(base, stats[base.id]))
    return page if name is None else Page(items=page.items, next_cursor=None)


@router.get("/{base_id}")
async def get_base(
    base_id: PathBase, context: CurrentContext, viewer: CurrentViewer, response: Response
) -> BaseOut:
    """Get a knowledge base."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
        stats = await catalog.base_stats(tx, [base.id], viewer)
        suggested = await suggest_embedder(tx, base, context.embedders)
    set_etag(response, base.updated_at)
    return BaseOut.of(base, stats[base.id], suggested)


@router.patch("/{base_id}")
async def patch_base(
    base_id: PathBase,
    body: ChangedBase,
    context: CurrentContext,
    viewer: CurrentViewer,
    response: Response,
    if_match: IfMatch = None,
) -> BaseOut:
    """Change a knowledge base. Jobs that are queued or running continue."""
    chunking = body.chunking.changes() if body.chunking else None
    _check_processor(context, body.file_processor_id)
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
        usable = {each.name: each for each in await context.embedders.find_all(tx, base.org_id)}
        restore_with = (
            await context.embedders.find(tx, base.embedder, base.org_id) if body.status == "ready" else None
        )
    wanted_chunking = bases.chunking_with(base, chunking or {})
    if wanted_chunking != base.chunking and base.embedder in usable:
        bases.check_chunk_size(wanted_chunking, usable[base.embedder])
    await bases.patch(
        context.db,
        base_id,
        name=body.name,
        chunking=chunking,
        file_processor=body.file_processor_id,
        on_restart=body.on_restart,
        settings=body.settings and body.settings.model_dump(by_alias=True, exclude_none=True),
        acl=body.acl,
        description=body.description,
        metadata=body.metadata,
        expire_days=body.expires_after_days if "expires_after_days" in body.model_fields_set else "keep",
        refresh="keep" if "refresh" not in body.model_fields_set else body.refresh and body.refresh.to_rule(),
        restore_with=restore_with,
        check=lambda updated_at: check_if_match(if_match, updated_at),
    )
    return await get_base(base_id, context, viewer, response)


@router.delete("/{base_id}", status_code=202)
async def delete_base(base_id: PathBase, context: CurrentContext, caller: CurrentCaller) -> DeletedBase:
    """Delete a knowledge base with everything in it. From this response on no request returns it."""
    return DeletedBase(job_id=await bases.delete(context.db, base_id, actor=caller.actor))


@router.get("/{base_id}/questions")
async def list_base_questions(
    base_id: PathBase, context: CurrentContext, limit: Limit = 100, cursor: UUID | None = None
) -> Page[AskedQuestionOut]:
    """List what people have searched a base for, the latest first, if its setting `questions` is `keep`."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        questions = await search.list_questions(tx, base.id, limit, cursor)
    return page_of(questions, limit, AskedQuestionOut.of)


@router.delete("/{base_id}/questions")
async def delete_base_questions(base_id: PathBase, context: CurrentContext) -> DeletedQuestions:
    """Delete what people have searched a base for. New questions are kept as before."""
    async with context.db.transaction() as tx:
        base = await guards.require_base(tx, base_id)
        return DeletedQuestions(deleted=await search.delete_questions(tx, base.id))


@router.post("/{base_id}/index/move", status_code=202)
async def move_base_index(base_id: PathBase, body: IndexMove, context: CurrentContext) -> MovingBase:
    """Move a base to another index. Searches go on, and nothing is embedded again."""
    to = index_kind_of(body.to, context.settings)
    return MovingBase(job_id=await move_index(context.db, base_id, to))


@router.post("/{base_id}/index/rebuild", status_code=202)
async def rebuild_base_index(base_id: PathBase, context: CurrentContext) -> MovingBase:
    """Build the index of a base again, where it is. Searches go on, and nothing is embedded again."""
    return MovingBase(job_id=await rebuild_index(context.db, base_id))


@router.get("/{base_id}/queue")
async def get_queue(base_id: PathBase, context: CurrentContext) -> QueueOut:
    """Show the work left in a base, its rate and its estimated end."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        queue = await jobs.queue_status(tx, base.lane)
        paused = await jobs.is_paused(tx, base.lane)
        orphans = await queue_operations.find_orphans(tx, base.id)
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
    """Start no more jobs of the base until it is resumed. Running jobs continue."""
    await queue_operations.pause(context.db, base_id, paused=True)
    return Response(status_code=204)


@router.post("/{base_id}/queue/resume", status_code=204)
async def resume_queue(base_id: PathBase, context: CurrentContext) -> Response:
    """Start the jobs of a paused base again."""
    await queue_operations.pause(context.db, base_id, paused=False)
    return Response(status_code=204)


@router.post("/{base_id}/queue/recover")
async def recover_queue(base_id: PathBase, context: CurrentContext) -> Recovered:
    """Queue interrupted items again, in a base whose work does not resume by itself."""
    return Recovered(recovered=await queue_operations.recover(context.db, base_id))


@router.post("/{base_id}/queue/dismiss")
async def dismiss_queue(base_id: PathBase, context: CurrentContext) -> Dismissed:
    """Mark interrupted items as failed."""
    return Dismissed(dismissed=await queue_operations.dismiss(context.db, base_id))
