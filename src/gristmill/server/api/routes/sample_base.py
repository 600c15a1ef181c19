"""`/api/sample-base`: a base with a few documents to play with."""

from fastapi import Response

from gristmill import catalog
from gristmill.embedding.language_codes import language_names
from gristmill.operations.sample_base import LANGUAGES, ensure_sample_base
from gristmill.operations.uploads import remove_unused
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.etags import set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.bases import default_acl, own_principal
from gristmill.server.api.schemas.bases import BaseOut

router = ApiRouter("/api", tag="knowledge bases")


@router.post("/sample-base", status_code=201)
async def create_sample_base(context: CurrentContext, caller: CurrentCaller, response: Response) -> BaseOut:
    """Create a base with a few documents in English and Chinese, or complete the one that the caller sees already."""
    async with context.db.connection() as tx:
        default = await context.embedders.find_default(tx, caller.org)
    sample = await ensure_sample_base(
        context.db,
        context.sources.blobs,
        context.embedders.for_languages(language_names(LANGUAGES), default),
        context.queue_limits,
        viewer=caller.viewer,
        acl=default_acl(caller),
        owner=own_principal(caller),
        org=caller.org,
        index_kind="embedded" if context.settings.index_url is None else "opensearch",
    )
    await remove_unused(context.db, context.sources.blobs, sample.unused_blobs)
    async with context.db.connection() as tx:
        stats = await catalog.base_stats(tx, [sample.base.id], caller.viewer)
    set_etag(response, sample.base.updated_at)
    return BaseOut.of(sample.base, stats[sample.base.id])
