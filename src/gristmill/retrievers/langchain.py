"""A retriever for LangChain: `pip install gristmill[langchain]`.

    retriever = GristmillRetriever(url="http://127.0.0.1:7373", key="gm_…", base_ids=["…"])
    documents = retriever.invoke("How is the wheel driven?")

The `metadata` of each document is its citation: item, title, page, offsets, score.
"""

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, SecretStr

from gristmill.client import Answer, AsyncClient, Client, Mode
from gristmill.retrievers import citation


class GristmillRetriever(BaseRetriever):
    """Hits of a Gristmill server as documents, best first."""

    url: str = "http://127.0.0.1:7373"
    key: SecretStr | None = None
    base_ids: list[str] | None = None  # None: all bases that the key can see
    limit: int = 10
    mode: Mode = "hybrid"
    # Further fields of the search request, by their names in the API.
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        with Client(self.url, self._secret()) as mill:
            return _documents(mill.run(lambda client: self._search(client, query)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        async with AsyncClient(self.url, self._secret()) as mill:
            return _documents(await self._search(mill, query))

    async def _search(self, mill: AsyncClient, query: str) -> Answer:
        return await mill.search(query, self.base_ids, limit=self.limit, mode=self.mode, **self.options)

    def _secret(self) -> str | None:
        return None if self.key is None else self.key.get_secret_value()


def _documents(answer: Answer) -> list[Document]:
    return [
        Document(id=hit["chunkId"], page_content=hit["text"], metadata=citation(hit))
        for hit in answer["hits"]
    ]
