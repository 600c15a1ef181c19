"""The OpenAI client asks vector stores through `/v1/responses` and its tool `file_search`, with a local fake model."""

from typing import Any

import httpx
import openai
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from tests.answers.chat_endpoint import USAGE, ChatEndpoint
from tests.api_calls import make_base
from tests.compat import test_openai_chat as chat_fixtures
from tests.compat.openai_clients import async_client
from tests.compat.test_openai_chat import STONES, cite_stones, passages
from tests.server.clients import new_key

pytestmark = pytest.mark.slow

chat, mill, url = chat_fixtures.chat, chat_fixtures.mill, chat_fixtures.url
client, base = chat_fixtures.client, chat_fixtures.base
QUESTION = "When are the millstones dressed?"


def file_search(base: str, **options: Any) -> list[Any]:
    return [{"type": "file_search", "vector_store_ids": [f"vs_{base.replace('-', '')}"], **options}]


async def test_a_response_cites_the_files_that_the_tool_found(
    client: openai.AsyncOpenAI, base: str, chat: ChatEndpoint
) -> None:
    cite_stones(chat)
    response = await client.responses.create(
        model="any", input=QUESTION, tools=file_search(base), include=["file_search_call.results"]
    )
    call, message = response.output
    assert call.type == "file_search_call"
    assert (call.status, call.queries) == ("completed", [QUESTION])
    stones = next(result for result in call.results or () if result.text == STONES)
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    (citation,) = part.annotations
    assert citation.type == "file_citation"
    assert (citation.file_id, citation.filename) == (stones.file_id, "stones")
    assert response.output_text[citation.index :].startswith("[")
    assert response.output_text.startswith("In spring [")
    assert response.usage is not None
    assert response.usage.total_tokens == USAGE["total_tokens"]
    assert (await client.files.retrieve(str(stones.file_id))).id == stones.file_id
    assert {passage["text"] for passage in passages(chat)} == {result.text for result in call.results or ()}

    first: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        call.model_dump(exclude_none=True),
        message.model_dump(exclude_none=True),
        {"role": "user", "content": "And why?"},
    ]
    plain = await client.responses.create(model="gristmill:mill", input=first, instructions="In English.")
    assert plain.output[0].type == "file_search_call"
    assert plain.output[0].results is None
    sent = [(entry["role"], entry["content"]) for entry in chat.messages]
    assert ("system", "In English.") in sent
    assert ("assistant", response.output_text) in sent
    assert sent[-1] == ("user", "And why?")


async def test_a_stream_has_the_same_response(
    client: openai.AsyncOpenAI, base: str, chat: ChatEndpoint
) -> None:
    cite_stones(chat)
    deltas, names, numbers = "", list[str](), list[int]()
    async with client.responses.stream(
        model="any", input=QUESTION, tools=file_search(base), include=["file_search_call.results"]
    ) as stream:
        async for event in stream:
            names.append(event.type)
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                deltas += event.delta
        final = await stream.get_final_response()
    assert final.output_text == deltas
    assert numbers == list(range(len(numbers)))
    assert (names[0], names[-1]) == ("response.created", "response.completed")
    assert "response.output_text.annotation.added" in names
    assert names.index("response.file_search_call.searching") < names.index("response.output_text.delta")
    call, message = final.output
    assert call.type == "file_search_call"
    assert STONES in [result.text for result in call.results or ()]
    assert message.type == "message"
    assert message.content[0].type == "output_text"
    assert message.content[0].annotations[0].type == "file_citation"

    chat.status = 500
    events = [
        event
        async for event in await client.responses.create(
            model="any", input=QUESTION, tools=file_search(base), stream=True
        )
    ]
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None
    assert "(chat_unavailable)" in events[-1].response.error.message


async def test_a_response_obeys_filters_thresholds_and_permissions(
    mill: app.Gristmill,
    url: str,
    client: openai.AsyncOpenAI,
    http: httpx.AsyncClient,
    base: str,
    chat: ChatEndpoint,
) -> None:
    nothing = {"type": "eq", "key": "year", "value": 1900}
    for options in ({"filters": nothing}, {"ranking_options": {"score_threshold": 1.0}}):
        response = await client.responses.create(
            model="any",
            input="What else is there about millstones and wheels?",
            tools=file_search(base, **options),
            include=["file_search_call.results"],
        )
        assert response.output[0].type == "file_search_call"
        assert response.output[0].results == []
        assert response.output_text.startswith("Nothing in the knowledge base")
    assert chat.requests == [], "nothing fits, so the model is not asked"
    few = await client.responses.create(
        model="any",
        input=QUESTION,
        tools=[{"type": "web_search"}, *file_search(base, max_num_results=1)],
        include=["file_search_call.results"],
    )
    assert few.output[0].type == "file_search_call"
    assert len(few.output[0].results or ()) == 1

    hidden = await make_base(http, "hidden", acl=["user_email:ann@example.org"])
    _, secret = await new_key(mill.db, LOCAL_ORG, "reader", email="bob@example.org")
    async with async_client(url, secret) as bob:
        with pytest.raises(openai.NotFoundError):
            await bob.responses.create(model="any", input=QUESTION, tools=file_search(hidden))
    refused: list[dict[str, Any]] = [
        {"input": ""},
        {"input": []},
        {"input": [{"role": "assistant", "content": "No question."}]},
        {"input": QUESTION, "previous_response_id": "resp_1"},
        {"input": QUESTION, "tools": [{"type": "file_search", "vector_store_ids": []}]},
    ]
    for body in refused:
        request = {"model": "any", "tools": file_search(base), **body}
        assert (await http.post("/v1/responses", json=request)).status_code == 400, body
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="gpt-5", input=QUESTION)
