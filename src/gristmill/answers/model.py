"""The values of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gristmill.search import Hit, SkippedSearch

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class ChatMessage:
    """A message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True)
class TokenUsage:
    """How many tokens a chat model has read and written, as it reports."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class Passage:
    """A hit that the model gets, with the number by which it may be cited."""

    number: int
    hit: Hit


@dataclass(frozen=True)
class Citation:
    """A passage that the answer cites: item, version, page and offsets of `hit` say where it stands."""

    number: int
    hit: Hit


@dataclass(frozen=True)
class Retrieved:
    """What was found, before the model is asked, and what could not be searched. Without passages nothing fits the question,
    and the model is not asked."""

    passages: Sequence[Passage]
    skipped: Sequence[SkippedSearch] = ()


@dataclass(frozen=True)
class AnswerText:
    """The next part of the answer."""

    text: str


@dataclass(frozen=True)
class AnswerEnd:
    """The whole answer with what it cites, in the order of the numbers. `is_refusal`: nothing fits the question. `usage` is None if
    the model does not report it."""

    answer: str
    citations: Sequence[Citation]
    is_refusal: bool
    usage: TokenUsage | None = None


AnswerEvent: TypeAlias = Retrieved | AnswerText | AnswerEnd
