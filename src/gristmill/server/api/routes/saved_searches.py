"""`/api/saved-searches`: searches that the caller stored under a name. Each caller sees its own, and no one else's."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Response

from gristmill.errors import NotFound
from gristmill.search import saved_searches
from gristmill.search.saved_searches import SavedSearch, SavedSearchId, SearchOwner
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import CurrentCaller, CurrentContext, parse_saved_search_id
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.saved_searches import NewSavedSearch, SavedSearchChange, SavedSearchOut

router = ApiRouter("/api/saved-searches", tag="search")

PathSavedSearch = Annotated[SavedSearchId, Depends(parse_saved_search_id)]


@router.get("")
async def list_searches(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[SavedSearchOut]:
    """List the caller's saved searches, by name."""
    after = None if cursor is None else SavedSearchId(cursor)
    async with context.db.connection() as tx:
        saved = await saved_searches.list_saved_searches(tx, _owner(caller), limit=limit, after=after)
    return page_of(saved, limit, SavedSearchOut.of)


@router.post("", status_code=201)
async def save_search(
    body: NewSavedSearch, context: CurrentContext, caller: CurrentCaller, response: Response
) -> SavedSearchOut:
    """Store a search under a name, for the caller alone."""
    async with context.db.transaction() as tx:
        saved = await saved_searches.save_search(tx, _owner(caller), body.name, body.search.to_json())
    set_etag(response, saved.updated_at)
    return SavedSearchOut.of(saved)


@router.get("/{search_id}")
async def get_search(
    search_id: PathSavedSearch, context: CurrentContext, caller: CurrentCaller, response: Response
) -> SavedSearchOut:
    """Get a saved search."""
    async with context.db.connection() as tx:
        saved = _require(await saved_searches.find_saved_search(tx, _owner(caller), search_id), search_id)
    set_etag(response, saved.updated_at)
    return SavedSearchOut.of(saved)


@router.patch("/{search_id}")
async def change_search(
    search_id: PathSavedSearch,
    body: SavedSearchChange,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> SavedSearchOut:
    """Rename a saved search, or replace what it searches for."""
    owner = _owner(caller)
    async with context.db.transaction() as tx:
        old = _require(await saved_searches.find_saved_search(tx, owner, search_id, lock=True), search_id)
        check_if_match(if_match, old.updated_at)
        request = old.request if body.search is None else body.search.to_json()
        saved = await saved_searches.update_saved_search(tx, owner, search_id, body.name or old.name, request)
    set_etag(response, saved.updated_at)
    return SavedSearchOut.of(saved)


@router.delete("/{search_id}", status_code=204)
async def delete_search(
    search_id: PathSavedSearch, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Delete a saved search."""
    async with context.db.transaction() as tx:
        if not await saved_searches.delete_saved_search(tx, _owner(caller), search_id):
            raise _not_found(search_id)
    return Response(status_code=204)


def _owner(caller: Caller) -> SearchOwner:
    is_of_key = caller.key is not None and caller.key.email is None and caller.user is None
    return SearchOwner(caller.org, caller.owner, caller.key_id if is_of_key else None)


def _require(saved: SavedSearch | None, search_id: SavedSearchId) -> SavedSearch:
    if saved is None:
        raise _not_found(search_id)
    return saved


def _not_found(search_id: SavedSearchId) -> NotFound:
    return NotFound(f"You have no saved search {search_id}.", code="saved_search_not_found")
