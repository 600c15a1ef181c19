"""The body of `/v1/chat/completions`, as chat clients send it.

The question is the last message of the user. System messages may follow it; the messages before it are the conversation. Chat
clients also send what only a model with tools or eyes could use: results of tools, messages without text and images of earlier
turns are left out. An image in the question is refused, because it can't be searched for.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator, model_validator

from gristmill.answers.model import ChatMessage
from gristmill.server.api.schemas.common import require_storable

_MAX_QUESTION = 10_000  # characters, as for every search
MAX_MESSAGES = 2_000
_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class ChatPart(BaseModel):
    """Base of the parts of a request. Fields that are unknown here are ignored, and null means that a field is not set."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: object) -> object:
        if not isinstance(body, dict):
            return body
        fields = cast(dict[str, object], body)
        return {name: value for name, value in fields.items() if value is not None}


class MessagePart(ChatPart):
    """A part of a message: text, or something that has none, such as an image."""

    type: StrictStr
    text: StrictStr = ""


class Message(ChatPart):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: StrictStr | list[MessagePart] = ""

    @property
    def text(self) -> str:
        """Its text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)

    @property
    def is_text_only(self) -> bool:
        """Whether it has no images or other parts that can't be searched for."""
        return isinstance(self.content, str) or all(part.type == "text" for part in self.content)

    @field_validator("content")
    @classmethod
    def _require_storable_text(cls, content: Any) -> Any:
        parts = [content] if isinstance(content, str) else [part.text for part in content]
        require_storable("".join(parts), "content")
        return content


class StreamOptions(ChatPart):
    """What a stream has besides the answer."""

    include_usage: StrictBool = False


class ChatRequest(ChatPart):
    """A question to a base. Settings of the model, such as `temperature`, are the server's, so they are ignored here."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=300)]
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    stream: StrictBool = False
    stream_options: StreamOptions = StreamOptions()

    @field_validator("messages")
    @classmethod
    def _require_question(cls, messages: list[Message]) -> list[Message]:
        split_question(messages)
        return messages

    @property
    def question(self) -> str:
        """The last message of the user."""
        return split_question(self.messages)[0]

    @property
    def conversation(self) -> list[ChatMessage]:
        """The other messages that have text for a model."""
        return split_question(self.messages)[1]


def split_question(messages: Sequence[Message]) -> tuple[str, list[ChatMessage]]:
    """The last message of the user, and the other messages that have text for a model: those before it, and system messages
    after it. Raises ValueError if there is no question."""
    count = len(messages)
    while count and _ROLES.get(messages[count - 1].role) == "system":
        count -= 1
    question = messages[count - 1] if count else None
    if question is None or question.role != "user" or not question.text.strip():
        raise ValueError("must end with a message of the user that has text")
    if not question.is_text_only:
        raise ValueError("must end with a question in text: an image or a file can't be searched for")
    if len(question.text) > _MAX_QUESTION:
        raise ValueError(f"must end with a question of at most {_MAX_QUESTION:,} characters")
    others = [*messages[: count - 1], *messages[count:]]
    conversation = [
        ChatMessage(_ROLES[message.role], message.text)
        for message in others
        if message.role in _ROLES and message.text.strip()
    ]
    return question.text, conversation
