"""OpenAI's Files, Vector Stores, Chat Completions and Responses, below `/v1`.

    a vector store       is a base
    a vector store file  is a document of a base; its id is the id of its file
    a file               is an uploaded file (`files/`), or any document of a base

So both APIs show the same data: a base that was created by either is in both, and so is a document. The official SDKs define
requests and responses; `tests/compat` runs them.
"""

from gristmill.server.compat.openai import batches, chat, files, responses, store_files, stores

ROUTERS = (files.router, stores.router, store_files.router, batches.router, chat.router, responses.router)

__all__ = ["ROUTERS"]
