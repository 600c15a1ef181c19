"""`/v1/chat/completions` and `/v1/models`: chat clients ask a base, and get an answer with citations.

    model gristmill:BASE       the base of this name or id
    model gristmill            all bases that the caller sees

The last message of the user is the question, the ones before it are the conversation. The answer comes from `answers/`: found under
the caller's permissions, written by the configured chat model, refused without asking it when nothing fits. Most clients show only the
text, so the sources and what could not be searched are listed below it too; `citations`, `retrieved` and `skipped` are further
fields of the response. `usage` is what the
chat model reports; it is left out if it reports nothing.
"""

import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from gristmill import catalog, search
from gristmill.answers import AnswerEnd, AnswerEvent, AnswerText, Citation, Retrieved
from gristmill.answers.asker import PASSAGES
from gristmill.answers.model import TokenUsage
from gristmill.catalog import Base, Viewer
from gristmill.errors import GristmillError, NotFound
from gristmill.server.api.context import ApiContext, CurrentContext, CurrentViewer
from gristmill.server.api.event_stream import EventStream
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.ask import CitationOut, PassageOut
from gristmill.server.api.schemas.search import SkippedSearchOut
from gristmill.server.api.search_targets import MAX_BASES, find_targets, keep_question
from gristmill.server.compat.find_base import find_named_base
from gristmill.server.compat.openai.chat_request import ChatRequest

router = ApiRouter("/v1", tag="OpenAI chat")

_MODEL = "gristmill"


@router.get("/models", include_in_schema=False)
async def list_models(context: CurrentContext, viewer: CurrentViewer) -> dict[str, Any]:
    """List a model for each base that the caller sees, and one for all of them."""
    async with context.db.connection() as tx:
        bases = await catalog.list_bases(tx, limit=MAX_BASES, viewer=viewer)
    models = [_model(_MODEL, 0)]
    models += [_model(f"{_MODEL}:{base.name}", int(base.created_at.timestamp())) for base in bases]
    return {"object": "list", "data": models}


@router.get("/models/{model:path}", include_in_schema=False)
async def get_model(model: str, context: CurrentContext, viewer: CurrentViewer) -> dict[str, Any]:
    """Get the model of a base, or the one of all bases."""
    base = await find_base_of_model(model, context, viewer)
    return _model(model, int(base.created_at.timestamp()) if base else 0)


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": _MODEL}


@router.post("/chat/completions", include_in_schema=False, response_model=None)
async def complete_chat(
    body: ChatRequest, context: CurrentContext, viewer: CurrentViewer
) -> dict[str, Any] | EventStream:
    """Answer the last message from a base."""
    context.asker.require_model()
    base = await find_base_of_model(body.model, context, viewer)
    targets = await find_targets(context, viewer, [base.id] if base else None)
    request = search.SearchRequest(query=body.question, limit=PASSAGES, viewer=viewer, allow_partial=True)
    await keep_question(context, targets, request)
    events = context.asker.ask(targets, request, body.conversation)
    first = await anext(events)  # before the response starts, so that an error still has a status
    retrieved = first if isinstance(first, Retrieved) else Retrieved([])
    head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time()), "model": body.model}
    if body.stream:
        chunks = _chunks(head, retrieved, events, with_usage=body.stream_options.include_usage)
        return EventStream(chunks, headers={"Cache-Control": "no-store"})
    end = AnswerEnd("", [], is_refusal=True)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AnswerEnd):
                end = event
    content = end.answer + _source_list(end.citations) + notes_on_skipped(retrieved)
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None}
    message = {"role": "assistant", "content": content, "refusal": None}
    return {
        **head,
        "object": "chat.completion",
        "choices": [{**choice, "message": message}],
        **_usage(end.usage),
        **_evidence(end.citations, retrieved),
    }


async def find_base_of_model(model: str, context: ApiContext, viewer: Viewer) -> Base | None:
    """The base that a model's name names; None for all bases."""
    prefix, separator, name = model.partition(":")
    if prefix != _MODEL or (separator and not name):
        raise NotFound(
            f"There is no model {model!r}. Use gristmill:BASE, with the name or id of a base; /v1/models lists them.",
            code="no_such_model",
        )
    return await find_named_base(context.db, name, viewer) if name else None


async def _chunks(
    head: dict[str, Any],
    retrieved: Retrieved,
    events: AsyncGenerator[AnswerEvent],
    *,
    with_usage: bool,
) -> AsyncGenerator[bytes]:
    """The answer as OpenAI streams it. An error in the middle is a last event, which its clients raise."""
    head = {**head, "object": "chat.completion.chunk"}
    async with aclosing(events):
        yield _chunk(head, {"role": "assistant", "content": ""})
        try:
            async for event in events:
                if isinstance(event, AnswerText):
                    yield _chunk(head, {"content": event.text})
                elif isinstance(event, AnswerEnd):
                    if notes := _source_list(event.citations) + notes_on_skipped(retrieved):
                        yield _chunk(head, {"content": notes})
                    yield _chunk({**head, **_evidence(event.citations, retrieved)}, {}, "stop")
                    if with_usage and event.usage is not None:
                        yield _frame({**head, "choices": [], **_usage(event.usage)})
            yield b"data: [DONE]\n\n"
        except GristmillError as error:
            problem = {"message": error.message, "type": "server_error", "param": None, "code": error.code}
            yield _frame({"error": problem})


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return _frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _frame(content: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


def _usage(usage: TokenUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion}
    return {"usage": {**counts, "total_tokens": usage.prompt + usage.completion}}


def _evidence(citations: Sequence[Citation], retrieved: Retrieved) -> dict[str, Any]:
    """What the answer cites, everything that was found, and what could not be searched, as `/api/ask` shows it."""
    return {
        "citations": [
            CitationOut.of(citation).model_dump(mode="json", by_alias=True) for citation in citations
        ],
        "retrieved": [
            PassageOut.of(passage).model_dump(mode="json", by_alias=True) for passage in retrieved.passages
        ],
        "skipped": [
            SkippedSearchOut.of(skipped).model_dump(mode="json", by_alias=True)
            for skipped in retrieved.skipped
        ],
    }


def _source_list(citations: Sequence[Citation]) -> str:
    lines = [
        f"[{citation.number}] {citation.hit.title}"
        + (f", page {citation.hit.page}" if citation.hit.page is not None else "")
        + (f", {citation.hit.source['url']}" if citation.hit.source.get("url") else "")
        for citation in citations
    ]
    return "\n\n" + "\n".join(lines) if lines else ""


def notes_on_skipped(retrieved: Retrieved) -> str:
    """What could not be searched, as the end of a text."""
    return "".join(f"\n\n{skipped.message}" for skipped in retrieved.skipped)
