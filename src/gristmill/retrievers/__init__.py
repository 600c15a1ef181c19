"""Gristmill as a retriever for LangChain and LlamaIndex. The modules need the extras `gristmill[langchain]` and
`gristmill[llama-index]`.

Each query is one search by the client, with its retries. A rejected search is raised as `gristmill.client.Refused`.
"""

from gristmill.client import Hit, Json


def citation(hit: Hit) -> Json:
    """The metadata of a hit: enough to show people where the text comes from, and to find it again."""
    fields: Json = {**hit}
    return {
        "chunk_id": hit["chunkId"],
        "item_id": hit["itemId"],
        "base_id": hit["baseId"],
        "title": hit["title"],
        "score": hit["score"],
        "headings": fields["headings"],
        "version": fields["version"],
        **hit["source"],
    }
