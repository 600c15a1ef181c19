"""Gristmill as a retriever of frameworks: each module needs its extra, `gristmill[langchain]` or `gristmill[llama-index]`.

A question is one search by the client, with its retries; what the server refuses is raised as `Refused`.
"""

from gristmill.client import Hit, Json


def citation(hit: Hit) -> Json:
    """Where a hit stands, as metadata: enough to find the place again and to show it to people."""
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
