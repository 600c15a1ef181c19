"""Answer a question: search as the caller, hand the passages that fit to the model, and resolve what it cites.

    question ─► search ─► nothing comes near ─► a refusal, without the model
                   └────► passages ─► model ─► text with [numbers] ─► citations

A follow-up such as "and why?" says little by itself. So in a conversation there are two searches, one for the question and one for the
user's message before it together with the question, and their hits take turns.

Hits with low scores are sent to the model too: a question that is worded differently from its answer scores low, and the model can
still see that it is the answer. Gibberish and most questions about something else are below that.

Answers are not stored, so that a kill at any moment leaves nothing behind. No transaction is open while the model writes.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import zip_longest

from gristmill.answers.chat_model import ChatModel
from gristmill.answers.citations import CitationReader
from gristmill.answers.model import (
    AnswerEnd,
    AnswerEvent,
    AnswerText,
    ChatMessage,
    Citation,
    Passage,
    Retrieved,
    TokenUsage,
)
from gristmill.answers.prompt import REFUSAL, build_messages
from gristmill.catalog import Base
from gristmill.errors import Conflict
from gristmill.search import DOUBTFUL_SCORE, Hit, Searcher, SearchRequest, SkippedSearch, Target

PASSAGES = 8
_CHARACTERS_PER_TOKEN = 4
_MAX_EARLIER = 2_000  # characters of the message before a follow-up


@dataclass(frozen=True)
class Asker:
    """Answers questions with a chat model; without one, it says so."""

    searcher: Searcher
    model: ChatModel | None
    record_usage: Callable[[Base, TokenUsage], Awaitable[None]] | None = None
    check_budget: Callable[[Base], Awaitable[None]] | None = None  # raises if the model must not be asked

    def require_model(self) -> ChatModel:
        """The model, or the error that says how to configure one."""
        if self.model is None:
            raise Conflict(
                "No chat model is configured. Set `chat_url` and `chat_model`; searches need none.",
                code="no_chat_model",
            )
        return self.model

    async def ask(
        self, targets: Sequence[Target], request: SearchRequest, conversation: Sequence[ChatMessage] = ()
    ) -> AsyncGenerator[AnswerEvent]:
        """Answer the query of `request`, as its viewer sees the targets. `conversation` has the messages before it. First the passages,
        then the text in parts, then the end."""
        model = self.require_model()
        if self.check_budget is not None and targets:
            await self.check_budget(targets[0].base)
        hits, skipped = await self._find_hits(targets, request, conversation)
        passages = [Passage(number, hit) for number, hit in enumerate(hits, 1)]
        yield Retrieved(passages, skipped)
        if not passages:
            yield AnswerText(REFUSAL)
            yield AnswerEnd(REFUSAL, [], is_refusal=True, usage=TokenUsage(0, 0))
            return
        messages = build_messages(
            passages, [*conversation, ChatMessage("user", request.query)], secrets.token_hex(8)
        )
        reader, answer, usage = CitationReader([passage.number for passage in passages]), "", None
        try:
            async with aclosing(model.reply(messages)) as parts:
                async for part in parts:
                    if isinstance(part, TokenUsage):
                        usage = part
                    elif text := reader.feed(part):
                        answer += text
                        yield AnswerText(text)
        finally:  # also if the reader of the answer has gone
            if self.record_usage is not None and (answer or usage is not None):
                await self.record_usage(targets[0].base, usage or _estimate_tokens(messages, answer))
        if text := reader.end():
            answer += text
            yield AnswerText(text)
        cited = {number: passages[number - 1].hit for number in sorted(reader.cited)}
        citations = [Citation(number, hit) for number, hit in cited.items()]
        is_refusal = not citations and REFUSAL in answer
        yield AnswerEnd(answer, citations, is_refusal=is_refusal, usage=usage)

    async def _find_hits(
        self, targets: Sequence[Target], request: SearchRequest, conversation: Sequence[ChatMessage]
    ) -> tuple[list[Hit], list[SkippedSearch]]:
        """What fits the question, by itself or as a follow-up; if nothing does, what may fit. If one hit of a search fits, the others
        may add to it. And what could not be searched."""
        queries = [request.query]
        if earlier := [message.content for message in conversation if message.role == "user"][-1:]:
            queries.append(f"{earlier[0][:_MAX_EARLIER]}\n{request.query}")
        results = await asyncio.gather(
            *(
                self.searcher.answer(targets, replace(request, query=query, collapse=True))
                for query in queries
            )
        )
        chosen = [result for result in results if result.fits]
        if not chosen:
            chosen = [result for result in results if (result.best_score or 0.0) >= DOUBTFUL_SCORE]
        turns = zip_longest(*(result.hits for result in chosen))
        hits = {hit.chunk_id: hit for turn in turns for hit in turn if hit is not None}
        skipped = {each.base_id: each for result in results for each in result.skipped}
        return list(hits.values())[: request.limit], list(skipped.values())


def _estimate_tokens(messages: Sequence[ChatMessage], answer: str) -> TokenUsage:
    """About how many tokens an answer took, for models that don't report it and answers that were cut off."""
    return TokenUsage(
        sum(len(message.content) for message in messages) // _CHARACTERS_PER_TOKEN,
        len(answer) // _CHARACTERS_PER_TOKEN,
    )
