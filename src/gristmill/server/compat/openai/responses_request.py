"""The body of `/v1/responses`, as far as the tool `file_search` needs it.

`input` is the question, or a conversation that ends with it; results of tools and reasoning in it are left out, as are the other
tools. The settings of the model are the server's.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from gristmill.answers.asker import PASSAGES
from gristmill.answers.model import ChatMessage
from gristmill.server.compat.openai.chat_request import MAX_MESSAGES, ChatPart, Message, split_question
from gristmill.server.compat.openai.schemas import Filter, RankingOptions

_MAX_RESULTS = 50
_MAX_STORES = 20
_TEXT_TYPES = frozenset({"input_text", "output_text", "text"})


class ResponseTool(ChatPart):
    """A tool. Only `file_search` is one that a base can be."""

    type: StrictStr
    vector_store_ids: Annotated[
        list[StrictStr], Field(default_factory=list[StrictStr], max_length=_MAX_STORES)
    ]
    max_num_results: Annotated[StrictInt, Field(ge=1, le=_MAX_RESULTS)] = PASSAGES
    filters: Filter | None = None
    ranking_options: RankingOptions = RankingOptions()

    @model_validator(mode="before")
    @classmethod
    def _only_type_of_others(cls, tool: object) -> object:
        if not isinstance(tool, dict):
            return tool
        fields = cast(dict[str, object], tool)
        return fields if fields.get("type") == "file_search" else {"type": fields.get("type")}


class ResponseRequest(ChatPart):
    """A question to vector stores."""

    model: Annotated[StrictStr, Field(min_length=1, max_length=300)]
    input: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: StrictStr = ""
    tools: Annotated[list[ResponseTool], Field(default_factory=list[ResponseTool], max_length=128)]
    include: Annotated[list[StrictStr], Field(default_factory=list[StrictStr], max_length=100)]
    stream: StrictBool = False
    previous_response_id: Literal[""] = ""

    @field_validator("previous_response_id", mode="before")
    @classmethod
    def _refuse_stored_conversations(cls, response_id: object) -> object:
        if response_id:
            raise ValueError("can't be used: responses are not stored. Send the whole conversation as input")
        return response_id

    @field_validator("input", mode="before")
    @classmethod
    def _read_messages(cls, value: object) -> object:
        """A text is the question. Of a list, the messages count, with the names of parts that chat messages have."""
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
        if not isinstance(value, list):
            return value
        entries = [entry for entry in cast(list[object], value) if _is_message(entry)]
        return [_as_chat_message(cast(dict[str, Any], entry)) for entry in entries]

    @field_validator("input")
    @classmethod
    def _require_question(cls, messages: list[Message]) -> list[Message]:
        split_question(messages)
        return messages

    @property
    def question(self) -> str:
        """The last message of the user."""
        return split_question(self.input)[0]

    @property
    def conversation(self) -> list[ChatMessage]:
        """What the model gets before the question."""
        rules = [ChatMessage("system", self.instructions)] if self.instructions.strip() else []
        return [*rules, *split_question(self.input)[1]]

    @property
    def file_search(self) -> ResponseTool | None:
        """The tool that names the stores."""
        tools = [tool for tool in self.tools if tool.type == "file_search"]
        return tools[0] if tools else None

    @property
    def wants_results(self) -> bool:
        """Whether the response has the passages that were found."""
        return "file_search_call.results" in self.include


def _is_message(entry: object) -> bool:
    if not isinstance(entry, dict):
        return True  # the validation says what is wrong
    return cast(dict[str, object], entry).get("type", "message") == "message"


def _as_chat_message(entry: Any) -> Any:
    message = cast(dict[str, Any], entry)
    if not isinstance(entry, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [_as_chat_part(part) for part in message["content"]]}


def _as_chat_part(part: Any) -> Any:
    fields = cast(dict[str, Any], part)
    if isinstance(part, dict) and fields.get("type") in _TEXT_TYPES:
        return {**fields, "type": "text"}
    return fields
