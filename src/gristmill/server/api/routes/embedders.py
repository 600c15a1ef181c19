"""`/api/embedders`: the built-in embedders, those of the settings, and those that organisations store.

An API key of an endpoint is write-only: no response has a field for it. A name is looked up in the caller's organisation, so
that no one learns the names of another.
"""

import time
from datetime import datetime

from fastapi import Response

from gristmill.embedding import Embedder, StoredEmbedder
from gristmill.errors import Conflict, GristmillError, Invalid, NotFound
from gristmill.operations.embedders import EmbedderAdmin
from gristmill.operations.recover import recover_bases
from gristmill.server.api.caller import Caller
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import ErrorBody, Page
from gristmill.server.api.schemas.embedders import (
    EmbedderChange,
    EmbedderOut,
    EmbedderTestIn,
    EmbedderTestOut,
    NewEmbedder,
)
from gristmill.server.api.secret_entries import check_secrets

router = ApiRouter("/api/embedders", tag="embedders")

_SAMPLE = "The miller sharpens the stones every spring."


@router.get("")
async def list_embedders(context: CurrentContext, caller: CurrentCaller) -> Page[EmbedderOut]:
    """List the embedders that bases can use, by name: built-in ones, those of the settings, and stored ones."""
    async with context.db.connection() as tx:
        usable = await context.embedders.find_all(tx, caller.org)
        default = await context.embedders.find_default(tx, caller.org)
    return Page(items=[_show(context, caller, embedder, default) for embedder in usable], next_cursor=None)


@router.post("", status_code=201)
async def create_embedder(
    body: NewEmbedder, context: CurrentContext, caller: CurrentCaller, response: Response
) -> EmbedderOut:
    """Store an embedder of the organisation. Without `dimensions`, the endpoint is asked for them."""
    config = body.to_settings()
    api_key = config.pop("api_key", None)
    check_secrets(caller, context.settings, [api_key])
    await _admin(context, caller).create(body.name, body.kind, config, api_key)
    # A base that lost the embedder of this name can go on.
    await recover_bases(context.db, context.embedders)
    return await _show_stored(context, caller, body.name, response)


@router.post("/test")
async def test_embedder_by_body(
    body: EmbedderTestIn, context: CurrentContext, caller: CurrentCaller
) -> EmbedderTestOut:
    """Embed one sample sentence, without retries; the name is in the body."""
    async with context.db.connection() as tx:
        embedder = await context.embedders.find(tx, body.name, caller.org)
    return await _test(embedder)


@router.get("/{embedder_name}")
async def get_embedder(
    embedder_name: str, context: CurrentContext, caller: CurrentCaller, response: Response
) -> EmbedderOut:
    """Get an embedder."""
    embedder = await _find(context, caller, embedder_name)
    if isinstance(embedder, StoredEmbedder):
        set_etag(response, embedder.row.updated_at)
    async with context.db.connection() as tx:
        default = await context.embedders.find_default(tx, caller.org)
    return _show(context, caller, embedder, default)


@router.patch("/{embedder_name}")
async def change_embedder(
    embedder_name: str,
    body: EmbedderChange,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> EmbedderOut:
    """Change a stored embedder. All processes use the new key, address and limits from their next request on."""
    await _require_stored(context, caller, embedder_name)

    def check(updated_at: datetime) -> None:
        check_if_match(if_match, updated_at)

    changes = body.to_settings()
    check_secrets(caller, context.settings, [changes.get("api_key")])
    await _admin(context, caller).change(embedder_name, changes, check)
    return await _show_stored(context, caller, embedder_name, response)


@router.delete("/{embedder_name}", status_code=204)
async def delete_embedder(embedder_name: str, context: CurrentContext, caller: CurrentCaller) -> Response:
    """Delete a stored embedder that no base uses."""
    await _require_stored(context, caller, embedder_name)
    await _admin(context, caller).delete(embedder_name)
    return Response(status_code=204)


@router.put("/{embedder_name}/default", status_code=204)
async def make_embedder_default(
    embedder_name: str, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Let new bases of the organisation have this embedder, unless they name another."""
    await _find(context, caller, embedder_name)
    await _admin(context, caller).make_default(embedder_name)
    return Response(status_code=204)


@router.delete("/{embedder_name}/default", status_code=204)
async def reset_default_embedder(
    embedder_name: str, context: CurrentContext, caller: CurrentCaller
) -> Response:
    """Let new bases of the organisation have the embedder of the settings again, if this one was chosen."""
    await _find(context, caller, embedder_name)
    await _admin(context, caller).reset_default(embedder_name)
    return Response(status_code=204)


@router.post("/{embedder_name}/test")
async def test_embedder(
    embedder_name: str, context: CurrentContext, caller: CurrentCaller
) -> EmbedderTestOut:
    """Embed one sample sentence, without retries."""
    return await _test(await _find(context, caller, embedder_name))


async def _test(embedder: Embedder) -> EmbedderTestOut:
    started = time.perf_counter()
    error: ErrorBody | None = None
    dimensions: int | None = None
    try:
        dimensions = int((await embedder.embed_query(_SAMPLE)).shape[-1])
    except GristmillError as caught:
        error = ErrorBody.of(caught)
    took_ms = round(1000 * (time.perf_counter() - started), 2)
    return EmbedderTestOut(ok=error is None, took_ms=took_ms, dimensions=dimensions, error=error)


def _admin(context: ApiContext, caller: Caller) -> EmbedderAdmin:
    return EmbedderAdmin(
        context.db,
        context.vault,
        context.embedders,
        caller.org,
        is_local_user=caller.is_local_user,
        allow_private=context.settings.allow_private_addresses,
    )


async def _find(context: ApiContext, caller: Caller, name: str) -> Embedder:
    try:
        async with context.db.connection() as tx:
            return await context.embedders.find(tx, name, caller.org)
    except Invalid as error:
        raise NotFound(error.message, code="embedder_not_found") from None


async def _require_stored(context: ApiContext, caller: Caller, name: str) -> None:
    """Raise unless the embedder is one that can be changed. A stored one that the settings hide can be."""
    async with context.db.connection() as tx:
        if name in await context.embedders.find_stored(tx, caller.org):
            return
    embedder = await _find(context, caller, name)
    place = (
        "comes with Gristmill" if context.embedders.settings_of(embedder) is None else "is in the settings"
    )
    raise Conflict(
        f"The embedder {name} {place} and can't be changed here. Create one with another name.",
        code="embedder_not_stored",
    )


def _show(context: ApiContext, caller: Caller, embedder: Embedder, default: Embedder) -> EmbedderOut:
    return EmbedderOut.of(
        embedder,
        context.embedders,
        is_admin=caller.viewer.is_admin,
        is_default=embedder.name == default.name,
    )


async def _show_stored(context: ApiContext, caller: Caller, name: str, response: Response) -> EmbedderOut:
    async with context.db.connection() as tx:
        stored = await context.embedders.find_stored(tx, caller.org)
        default = await context.embedders.find_default(tx, caller.org)
    if name not in stored:
        raise NotFound(f"The embedder {name} was deleted at the same moment.", code="embedder_not_found")
    set_etag(response, stored[name].row.updated_at)
    return _show(context, caller, stored[name], default)
