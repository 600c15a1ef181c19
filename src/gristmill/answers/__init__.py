"""Answer questions from what a search finds, with a chat model and numbered citations."""

from gristmill.answers.asker import Asker
from gristmill.answers.chat_model import ChatModel, ChatModelConfig, HttpChatModel
from gristmill.answers.model import (
    AnswerEnd,
    AnswerEvent,
    AnswerText,
    Citation,
    Passage,
    Retrieved,
    TokenUsage,
)

__all__ = [
    "AnswerEnd",
    "AnswerEvent",
    "AnswerText",
    "Asker",
    "ChatModel",
    "ChatModelConfig",
    "Citation",
    "HttpChatModel",
    "Passage",
    "Retrieved",
    "TokenUsage",
]
