"""A retriever for LlamaIndex: `pip install gristmill[llama-index]`.

    retriever = GristmillRetriever("http://127.0.0.1:7373", "gm_…", base_ids=["…"])
    nodes = retriever.retrieve("How is the wheel driven?")

The `metadata` of each node is its citation: item, title, page, offsets, score.
"""

from collections.abc import Sequence
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from gristmill.client import Answer, AsyncClient, Client, Mode
from gristmill.retrievers import citation


class GristmillRetriever(BaseRetriever):
    """Hits of a Gristmill server as nodes, best first."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7373",
        key: str | None = None,
        *,
        base_ids: Sequence[str] | None = None,
        limit: int = 10,
        mode: Mode = "hybrid",
        **options: Any,
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]  (its signature has a bare Dict)
        self._server, self._base_ids = (url, key), base_ids
        self._options: dict[str, Any] = {"limit": limit, "mode": mode, **options}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with Client(*self._server) as mill:
            return _nodes(mill.run(lambda client: self._search(client, query_bundle.query_str)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        async with AsyncClient(*self._server) as mill:
            return _nodes(await self._search(mill, query_bundle.query_str))

    async def _search(self, mill: AsyncClient, query: str) -> Answer:
        return await mill.search(query, self._base_ids, **self._options)


def _nodes(answer: Answer) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=hit["chunkId"], text=hit["text"], metadata=citation(hit)), score=hit["score"]
        )
        for hit in answer["hits"]
    ]
