"""`/v1/vector_stores`: create stores, list, change, delete and search them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from gristmill import catalog, files, search
from gristmill.catalog import Base, BaseId, ItemId, Viewer
from gristmill.db import Tx
from gristmill.errors import Conflict, GristmillError
from gristmill.operations import bases, guards
from gristmill.operations.files import FileToAttach, attach
from gristmill.search import Hit
from gristmill.server.api import store_ids
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, CurrentViewer
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.bases import default_acl, own_principal
from gristmill.server.api.search_targets import answer_and_keep, find_targets
from gristmill.server.compat.openai import objects
from gristmill.server.compat.openai.parameters import Cursor, Order, PageLimit, PathStore, place_of
from gristmill.server.compat.openai.schemas import ChangedStore, NewStore, StoreSearch, store_chunking

router = ApiRouter("/v1/vector_stores", tag="OpenAI vector stores")

_MAX_NAME_ATTEMPTS = 20


@router.post("", include_in_schema=False)
async def create_store(body: NewStore, context: CurrentContext, caller: CurrentCaller) -> dict[str, Any]:
    """Create a base, with files if there are any. Names of bases are unique, so a taken one gets a number."""
    requests = [FileToAttach(store_ids.parse_file_id(text)) for text in body.file_ids]
    await _require_files(context, requests, caller.viewer)
    base = await _create_base(body, context, caller)
    try:
        await attach(context.db, base.id, requests, caller.viewer, context.queue_limits)
    except GristmillError:
        await bases.delete(context.db, base.id)  # the caller never gets its id
        raise
    return await _show(context, base.id, caller.viewer)


async def _require_files(context: ApiContext, requests: Sequence[FileToAttach], viewer: Viewer) -> None:
    """Refuse a store with an unknown file before anything is created."""
    async with context.db.connection() as tx:
        visible = await files.find_files(tx, [request.file_id for request in requests], viewer)
    for request in requests:
        if request.file_id not in visible:
            raise store_ids.no_such_file(request.file_id)


async def _create_base(body: NewStore, context: ApiContext, caller: Caller) -> Base:
    async with context.db.connection() as tx:
        embedder = await context.embedders.find_default(tx, caller.org)
    wanted_name = body.name or f"store {uuid4().hex[:12]}"
    for number in range(1, _MAX_NAME_ATTEMPTS + 1):
        name = wanted_name if number == 1 else f"{wanted_name[:190]} ({number})"
        if number == _MAX_NAME_ATTEMPTS:
            name = f"{wanted_name[:180]} ({uuid4().hex[:12]})"
        try:
            return await bases.create(
                context.db,
                name,
                embedder,
                store_chunking(body.chunking_strategy, embedder),
                acl=default_acl(caller),
                owner=own_principal(caller),
                org=caller.org,
                index_kind="embedded" if context.settings.index_url is None else "opensearch",
                description=body.description or "",
                metadata=body.metadata,
                expire_days=body.expires_after.days if body.expires_after else None,
            )
        except Conflict as error:
            if error.code != "base_name_taken" or number == _MAX_NAME_ATTEMPTS:
                raise
    raise AssertionError("a random name was taken")


@router.get("", include_in_schema=False)
async def list_stores(
    context: CurrentContext,
    caller: CurrentCaller,
    viewer: CurrentViewer,
    limit: PageLimit = 20,
    order: Order = "desc",
    after: Cursor = None,
    before: Cursor = None,
) -> dict[str, Any]:
    """List stores: all bases that the caller sees."""
    place = place_of(limit, order, after, before, store_ids.parse_store_id)
    async with context.db.connection() as tx:
        rows, has_more = place.page(await files.page_bases(tx, caller.org, viewer, place))
        shown = await _store_objects(tx, rows, viewer)
    return objects.page(rows, lambda base: shown[base.id], has_more=has_more)


@router.get("/{store_id}", include_in_schema=False)
async def get_store(store_id: PathStore, context: CurrentContext, viewer: CurrentViewer) -> dict[str, Any]:
    """Get a store."""
    return await _show(context, store_id, viewer)


async def _show(context: ApiContext, base_id: BaseId, viewer: Viewer) -> dict[str, Any]:
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
        return (await _store_objects(tx, [base], viewer))[base.id]


async def _store_objects(tx: Tx, bases_shown: Sequence[Base], viewer: Viewer) -> dict[BaseId, dict[str, Any]]:
    ids = [base.id for base in bases_shown]
    counts = await files.store_counts(tx, ids, viewer)
    expired = await catalog.find_expired_ids(tx, ids) if ids else set[BaseId]()
    return {
        base.id: objects.store_object(base, objects.counts_of(counts, base.id), is_expired=base.id in expired)
        for base in bases_shown
    }


@router.post("/{store_id}", include_in_schema=False)
async def change_store(
    store_id: PathStore, body: ChangedStore, context: CurrentContext, viewer: CurrentViewer
) -> dict[str, Any]:
    """Change the name, the expiry or the metadata of a store."""
    days = body.expires_after.days if body.expires_after else None
    await bases.patch(
        context.db,
        store_id,
        name=body.name,
        metadata=({} if body.metadata is None else body.metadata)
        if "metadata" in body.model_fields_set
        else None,
        expire_days=days if "expires_after" in body.model_fields_set else "keep",
    )
    return await _show(context, store_id, viewer)


@router.delete("/{store_id}", include_in_schema=False)
async def delete_store(store_id: PathStore, context: CurrentContext, caller: CurrentCaller) -> dict[str, Any]:
    """Delete a base with everything in it. Files that were uploaded to `/v1/files` stay."""
    await bases.delete(context.db, store_id, actor=caller.actor)
    return objects.deletion(store_ids.store_id(store_id), "vector_store.deleted")


@router.post("/{store_id}/search", include_in_schema=False)
async def search_store(
    store_id: PathStore, body: StoreSearch, context: CurrentContext, viewer: CurrentViewer
) -> dict[str, Any]:
    """Search a store. Of several queries, a chunk has its best score."""
    targets = await find_targets(context, viewer, [store_id])
    best: dict[Any, Hit] = {}
    skipped: dict[Any, search.SkippedSearch] = {}
    for query in body.queries:
        request = search.SearchRequest(
            query=query,
            limit=body.max_num_results,
            filters=search.Filters(condition=body.filters.to_condition() if body.filters else None),
            viewer=viewer,
            rerank=body.ranking_options.ranker != "none",
            allow_partial=True,
        )
        answer = await answer_and_keep(context, targets, request)
        skipped |= {each.base_id: each for each in answer.skipped}
        for hit in answer.hits:
            if hit.chunk_id not in best or best[hit.chunk_id].score < hit.score:
                best[hit.chunk_id] = hit
    hits = [hit for hit in best.values() if hit.score >= body.ranking_options.score_threshold]
    if len(body.queries) > 1:
        hits.sort(key=lambda hit: -hit.score)
    hits = hits[: body.max_num_results]
    async with context.db.connection() as tx:
        file_ids = await files.file_ids_of_items(tx, [ItemId(hit.item_id) for hit in hits])
    shown_ids = {
        hit.item_id: store_ids.file_id(file_ids.get(ItemId(hit.item_id), hit.item_id)) for hit in hits
    }
    return objects.search_page(body.queries, hits, shown_ids, list(skipped.values()))
