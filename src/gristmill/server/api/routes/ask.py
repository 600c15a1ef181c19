"""`/api/ask`: an answer with citations, from what the caller can see."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from gristmill.answers import AnswerEnd, AnswerEvent, AnswerText, Retrieved
from gristmill.errors import GristmillError
from gristmill.server.api.context import CurrentContext, CurrentViewer
from gristmill.server.api.event_stream import EventStream, encode_frame
from gristmill.server.api.rendered_text import render_answer
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.ask import AnswerOut, AskIn, PassageOut
from gristmill.server.api.schemas.common import ApiModel
from gristmill.server.api.schemas.search import SkippedSearchOut
from gristmill.server.api.search_targets import find_targets, keep_question

router = ApiRouter("/api", tag="search")


@router.post("/ask", response_model=AnswerOut)
async def ask(body: AskIn, context: CurrentContext, viewer: CurrentViewer) -> AnswerOut | EventStream:
    """Answer a question from the passages that a search finds. With `stream`: server-sent events `retrieved`, `text` (repeated) and
    `end`; or `error`, with the code and detail of a problem document."""
    context.asker.require_model()
    targets = await find_targets(context, viewer, body.base_ids)
    request = body.to_query(viewer)
    await keep_question(context, targets, request)
    events = context.asker.ask(targets, request)
    first = await anext(events)  # before the response starts, so that an error still has a status
    if body.stream:
        return EventStream(_frames(first, events), headers={"Cache-Control": "no-store"})
    retrieved = first if isinstance(first, Retrieved) else Retrieved([])
    end = AnswerEnd("", [], is_refusal=True)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AnswerEnd):
                end = event
    return await _answer_out(end, retrieved)


async def _frames(first: AnswerEvent, events: AsyncGenerator[AnswerEvent]) -> AsyncGenerator[bytes]:
    retrieved = first if isinstance(first, Retrieved) else Retrieved([])
    async with aclosing(events):
        passages = [PassageOut.of(passage) for passage in retrieved.passages]
        skipped = [SkippedSearchOut.of(each) for each in retrieved.skipped]
        shown = {"retrieved": _to_json(passages), "skipped": _to_json(skipped)}
        yield _frame("retrieved", shown)
        try:
            async for event in events:
                if isinstance(event, AnswerText):
                    yield _frame("text", {"text": event.text})
                elif isinstance(event, AnswerEnd):
                    answer = await _answer_out(event, retrieved)
                    yield _frame("end", answer.model_dump(mode="json", by_alias=True))
        except GristmillError as error:
            yield _frame("error", {"code": error.code, "detail": error.message})


async def _answer_out(end: AnswerEnd, retrieved: Retrieved) -> AnswerOut:
    return AnswerOut.of(end, await asyncio.to_thread(render_answer, end.answer), retrieved)


def _to_json(models: Sequence[ApiModel]) -> list[object]:
    return [model.model_dump(mode="json", by_alias=True) for model in models]


def _frame(name: str, data: Mapping[str, object]) -> bytes:
    return encode_frame(name, json.dumps(data, ensure_ascii=False)).encode()
