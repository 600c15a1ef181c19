"""The retrievers, with the real frameworks, against a real server."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import pytest
from langchain_core.runnables import RunnableLambda
from pydantic import SecretStr

from gristmill import app
from gristmill.client import AsyncClient, Refused
from gristmill.retrievers import langchain
from tests.serve_api import serve_api


@dataclass(frozen=True)
class Server:
    url: str
    base: str
    item: str


@pytest.fixture
async def server(mill: app.Gristmill) -> AsyncGenerator[Server]:
    async with serve_api(mill) as url, AsyncClient(url) as client:
        base = (await client.create_base("mill"))["id"]
        notes = ["# Drive\n\nThe wheel is driven by the river.", "The miller sleeps at night."]
        result = await client.add(base, [{"type": "note", "content": note} for note in notes])
        await client.wait(base, [item["id"] for item in result["created"]])
        yield Server(url, base, result["created"][0]["id"])


def assert_cited(citations: Sequence[dict[str, object]], server: Server) -> None:
    first = citations[0]
    assert (first["item_id"], first["base_id"], first["title"]) == (server.item, server.base, "Drive")
    assert first["headings"] == ["Drive"]
    assert {"url", "path", "page", "start", "end", "score", "version", "chunk_id"} <= first.keys()


async def test_langchain_gets_documents_with_citations_both_ways(server: Server) -> None:
    retriever = langchain.GristmillRetriever(url=server.url, base_ids=[server.base], limit=1)
    for documents in (
        await retriever.ainvoke("wheel driven river"),
        await asyncio.to_thread(retriever.invoke, "wheel driven river"),
    ):
        assert len(documents) == 1
        assert "driven by the river" in documents[0].page_content
        assert_cited([document.metadata for document in documents], server)
    chain = retriever | RunnableLambda(len)
    assert await chain.ainvoke("wheel") == 1


async def test_llama_index_gets_nodes_with_citations_both_ways(server: Server) -> None:
    # Here, because importing LlamaIndex takes every process of a run two seconds when it collects the tests.
    from gristmill.retrievers import llama_index

    retriever = llama_index.GristmillRetriever(server.url, base_ids=[server.base], limit=1, mode="text")
    for nodes in (
        await retriever.aretrieve("wheel driven river"),
        await asyncio.to_thread(retriever.retrieve, "wheel driven river"),
    ):
        assert len(nodes) == 1
        assert nodes[0].score is not None
        assert "driven by the river" in nodes[0].text
        assert_cited([node.metadata for node in nodes], server)


async def test_a_rejected_search_raises_refused_without_the_key(server: Server) -> None:
    retriever = langchain.GristmillRetriever(url=server.url, key=SecretStr("gm_wrong"))
    with pytest.raises(Refused) as error:
        await retriever.ainvoke("wheel")
    assert error.value.code == "bad_key"
    assert "gm_wrong" not in repr(retriever)
