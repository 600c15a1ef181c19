"""`/api/embedders`: the embedders of this server, and a test of one."""

import time

from gristmill.errors import GristmillError
from gristmill.server.api.context import CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import ErrorBody, Page
from gristmill.server.api.schemas.embedders import EmbedderOut, EmbedderTestIn, EmbedderTestOut

router = ApiRouter("/api/embedders", tag="machine")

_SAMPLE = "The miller sharpens the stones every spring."


@router.get("")
async def list_embedders(context: CurrentContext) -> Page[EmbedderOut]:
    """List the embedders of this server, by name."""
    embedders = context.embedders
    items = [
        EmbedderOut(
            name=name,
            dimensions=embedder.dimensions,
            max_tokens=embedder.max_tokens,
            english_only=embedder.strengths is not None and list(embedder.strengths) == ["english"],
            languages=None if embedder.strengths is None else sorted(embedder.strengths),
            is_default=embedder is embedders.default,
        )
        for name, embedder in ((name, embedders.get(name)) for name in embedders.names())
    ]
    return Page(items=items, next_cursor=None)


@router.post("/test")
async def test_embedder(body: EmbedderTestIn, context: CurrentContext) -> EmbedderTestOut:
    """Embed one sample sentence, without retries."""
    embedder = context.embedders.get(body.name)
    started = time.perf_counter()
    error: ErrorBody | None = None
    dimensions: int | None = None
    try:
        dimensions = int((await embedder.embed_query(_SAMPLE)).shape[-1])
    except GristmillError as caught:
        error = ErrorBody.of(caught)
    took_ms = round(1000 * (time.perf_counter() - started), 2)
    return EmbedderTestOut(ok=error is None, took_ms=took_ms, dimensions=dimensions, error=error)
