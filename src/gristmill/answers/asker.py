"""Answer a question: search as the caller, hand the passages that fit to the model, and resolve what it cites.

    question ─► search ─► nothing fits ─► a refusal, without the model
                   └────► passages ─► model ─► text with [numbers] ─► citations

Nothing is stored, so that a kill at any moment leaves nothing behind. No transaction is open while the model writes.
"""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

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
)
from gristmill.answers.prompt import REFUSAL, build_messages
from gristmill.errors import Conflict
from gristmill.search import Searcher, SearchRequest, Target

PASSAGES = 8


@dataclass(frozen=True)
class Asker:
    """Answers questions with a chat model; without one, it says so."""

    searcher: Searcher
    model: ChatModel | None

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
        results = await self.searcher.answer(targets, replace(request, collapse=True))
        # If one hit fits, the others may add to it.
        hits = results.hits if results.fits else []
        passages = [Passage(number, hit) for number, hit in enumerate(hits, 1)]
        yield Retrieved(passages)
        if not passages:
            yield AnswerText(REFUSAL)
            yield AnswerEnd(REFUSAL, [], is_refusal=True)
            return
        messages = build_messages(
            passages, [*conversation, ChatMessage("user", request.query)], secrets.token_hex(8)
        )
        reader, answer = CitationReader([passage.number for passage in passages]), ""
        async with aclosing(model.reply(messages)) as parts:
            async for part in parts:
                if text := reader.feed(part):
                    answer += text
                    yield AnswerText(text)
        if text := reader.end():
            answer += text
            yield AnswerText(text)
        cited = {number: passages[number - 1].hit for number in sorted(reader.cited)}
        citations = [Citation(number, hit) for number, hit in cited.items()]
        yield AnswerEnd(answer, citations, is_refusal=not citations and REFUSAL in answer)
