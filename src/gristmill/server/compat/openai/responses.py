"""`/v1/responses` with the tool `file_search`: the way in which agents and frameworks reach vector stores.

    tools [{"type": "file_search", "vector_store_ids": […]}]    these stores are asked, whatever the name of the model
    no such tool                                                the model's name says which base, as in `/v1/chat/completions`

The tool is always used: the question is searched for, and the configured chat model answers from what was found, as in `answers/`. The
output is the call of the tool and one message, whose text cites passages as `[1]` and has an annotation for each. Nothing is stored, so a
response can't be read again or continued.
"""

import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from gristmill import files, search
from gristmill.answers import AnswerEnd, AnswerEvent, AnswerText, Retrieved
from gristmill.answers.asker import PASSAGES
from gristmill.answers.citations import citation_places
from gristmill.answers.model import TokenUsage
from gristmill.catalog import ItemId, Viewer
from gristmill.errors import GristmillError, Invalid
from gristmill.search import Hit, Target
from gristmill.server.api import store_ids
from gristmill.server.api.context import ApiContext, CurrentContext, CurrentViewer
from gristmill.server.api.event_stream import EventStream, encode_frame
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.search_targets import find_targets, keep_question
from gristmill.server.compat.openai import objects
from gristmill.server.compat.openai.chat import find_base_of_model, notes_on_skipped
from gristmill.server.compat.openai.responses_request import ResponseRequest

router = ApiRouter("/v1", tag="OpenAI responses")

Json = dict[str, Any]


@router.post("/responses", include_in_schema=False, response_model=None)
async def create_response(
    body: ResponseRequest, context: CurrentContext, viewer: CurrentViewer
) -> Json | EventStream:
    """Answer a question from vector stores."""
    context.asker.require_model()
    targets = await _find_targets(body, context, viewer)
    request = _search_request(body, viewer)
    await keep_question(context, targets, request)
    events = context.asker.ask(targets, request, body.conversation)
    first = await anext(events)  # before the response starts, so that an error still has a status
    retrieved = first if isinstance(first, Retrieved) else Retrieved([])
    hits = [passage.hit for passage in retrieved.passages]
    shape = _ResponseShape(body, retrieved, await _file_ids(context, hits))
    if body.stream:
        return EventStream(_frames(shape, events), headers={"Cache-Control": "no-store"})
    end = AnswerEnd("", [], is_refusal=True)
    async with aclosing(events):
        async for event in events:
            if isinstance(event, AnswerEnd):
                end = event
    text = end.answer + notes_on_skipped(retrieved)
    return shape.response("completed", [shape.call(), shape.message("completed", text)], end.usage)


async def _find_targets(body: ResponseRequest, context: ApiContext, viewer: Viewer) -> list[Target]:
    tool = body.file_search
    if tool is None:
        base = await find_base_of_model(body.model, context, viewer)
        return await find_targets(context, viewer, [base.id] if base else None)
    if not tool.vector_store_ids:
        raise Invalid("The tool file_search needs vector_store_ids: the vector stores to search.")
    return await find_targets(
        context, viewer, [store_ids.parse_store_id(text) for text in tool.vector_store_ids]
    )


def _search_request(body: ResponseRequest, viewer: Viewer) -> search.SearchRequest:
    request = search.SearchRequest(query=body.question, limit=PASSAGES, viewer=viewer, allow_partial=True)
    if (tool := body.file_search) is None:
        return request
    return search.SearchRequest(
        query=body.question,
        limit=tool.max_num_results,
        filters=search.Filters(condition=tool.filters.to_condition() if tool.filters else None),
        viewer=viewer,
        rerank=tool.ranking_options.ranker != "none",
        min_score=tool.ranking_options.score_threshold or None,
        allow_partial=True,
    )


async def _file_ids(context: ApiContext, hits: Sequence[Hit]) -> dict[UUID, str]:
    async with context.db.connection() as tx:
        file_ids = await files.file_ids_of_items(tx, [ItemId(hit.item_id) for hit in hits])
    return {hit.item_id: store_ids.file_id(file_ids.get(ItemId(hit.item_id), hit.item_id)) for hit in hits}


@dataclass(frozen=True)
class _ResponseShape:
    """The objects of one response."""

    request: ResponseRequest
    retrieved: Retrieved
    file_ids: dict[UUID, str]
    id: str = field(default_factory=lambda: f"resp_{uuid4().hex}")
    call_id: str = field(default_factory=lambda: f"fs_{uuid4().hex}")
    message_id: str = field(default_factory=lambda: f"msg_{uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))

    def response(self, status: str, output: list[Json], usage: TokenUsage | None = None) -> Json:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "model": self.request.model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "instructions": self.request.instructions or None,
            "metadata": {},
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [
                _tool_object(tool.vector_store_ids) for tool in self.request.tools if tool.vector_store_ids
            ],
            "top_p": None,
            "truncation": "disabled",
            "usage": _usage(usage),
            "skipped": objects.notes_on_skipped(self.retrieved.skipped),
        }

    def call(self, status: str = "completed") -> Json:
        """The call of the tool, with what it found if that was asked for."""
        results = [
            {
                "file_id": self.file_ids[passage.hit.item_id],
                "filename": objects.filename(passage.hit),
                "score": passage.hit.score,
                "attributes": objects.attributes(passage.hit.metadata),
                "text": passage.hit.text,
            }
            for passage in self.retrieved.passages
        ]
        is_shown = self.request.wants_results and status == "completed"
        return {
            "id": self.call_id,
            "type": "file_search_call",
            "status": status,
            "queries": [self.request.question],
            "results": results if is_shown else None,
        }

    def message(self, status: str, text: str | None = None) -> Json:
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [] if text is None else [self.text_part(text)],
        }

    def text_part(self, text: str) -> Json:
        return {"type": "output_text", "text": text, "annotations": self.annotations(text), "logprobs": []}

    def annotations(self, text: str) -> list[Json]:
        """The file of each citation, with the place of the citation in the text."""
        hits = {passage.number: passage.hit for passage in self.retrieved.passages}
        return [
            {
                "type": "file_citation",
                "index": place,
                "file_id": self.file_ids[hits[number].item_id],
                "filename": objects.filename(hits[number]),
            }
            for place, number in citation_places(text)
            if number in hits
        ]


def _tool_object(vector_store_ids: list[str]) -> Json:
    return {"type": "file_search", "vector_store_ids": vector_store_ids}


def _usage(usage: TokenUsage | None) -> Json | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.completion,
    }


async def _frames(shape: _ResponseShape, events: AsyncGenerator[AnswerEvent]) -> AsyncGenerator[bytes]:
    """The response as OpenAI streams it, each event with its number. A failure in the middle is `response.failed`."""
    number = 0
    async with aclosing(events):
        async for name, fields in _stream_events(shape, events):
            data = {"type": name, "sequence_number": number, **fields}
            yield encode_frame(name, json.dumps(data, ensure_ascii=False)).encode()
            number += 1


async def _stream_events(
    shape: _ResponseShape, events: AsyncGenerator[AnswerEvent]
) -> AsyncGenerator[tuple[str, Json]]:
    for opening in _opening_events(shape):
        yield opening
    usage: TokenUsage | None = None
    text = ""
    try:
        async for event in events:
            if isinstance(event, AnswerText):
                text += event.text
                yield _delta(shape, event.text)
            elif isinstance(event, AnswerEnd):
                usage = event.usage
    except GristmillError as error:
        failed = shape.response("failed", [shape.call(), shape.message("incomplete", text)])
        problem = {"code": objects.SERVER_ERROR, "message": f"{error.message} ({error.code})"}
        yield "response.failed", {"response": {**failed, "error": problem}}
        return
    if notes := notes_on_skipped(shape.retrieved):
        text += notes
        yield _delta(shape, notes)
    for closing in _closing_events(shape, text, usage):
        yield closing


def _opening_events(shape: _ResponseShape) -> list[tuple[str, Json]]:
    """The call of the tool, and the beginning of the message."""
    call = {"output_index": 0, "item_id": shape.call_id}
    response = shape.response("in_progress", [])
    return [
        ("response.created", {"response": response}),
        ("response.in_progress", {"response": response}),
        ("response.output_item.added", {"output_index": 0, "item": shape.call("in_progress")}),
        *((f"response.file_search_call.{step}", call) for step in ("in_progress", "searching", "completed")),
        ("response.output_item.done", {"output_index": 0, "item": shape.call()}),
        ("response.output_item.added", {"output_index": 1, "item": shape.message("in_progress")}),
        ("response.content_part.added", {**_place(shape), "part": shape.text_part("")}),
    ]


def _closing_events(shape: _ResponseShape, text: str, usage: TokenUsage | None) -> list[tuple[str, Json]]:
    place, message = _place(shape), shape.message("completed", text)
    annotations = [
        (
            "response.output_text.annotation.added",
            {**place, "annotation_index": index, "annotation": annotation},
        )
        for index, annotation in enumerate(shape.annotations(text))
    ]
    return [
        *annotations,
        ("response.output_text.done", {**place, "text": text, "logprobs": []}),
        ("response.content_part.done", {**place, "part": shape.text_part(text)}),
        ("response.output_item.done", {"output_index": 1, "item": message}),
        ("response.completed", {"response": shape.response("completed", [shape.call(), message], usage)}),
    ]


def _delta(shape: _ResponseShape, text: str) -> tuple[str, Json]:
    return "response.output_text.delta", {**_place(shape), "delta": text, "logprobs": []}


def _place(shape: _ResponseShape) -> Json:
    """Where the text of the message is in the response."""
    return {"output_index": 1, "item_id": shape.message_id, "content_index": 0}
