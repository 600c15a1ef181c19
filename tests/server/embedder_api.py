"""Requests to `/api/embedders` with the key of an endpoint."""

from typing import Any

import httpx

from tests.embedding.endpoint import Endpoint

KEY = "sk-the-key-of-the-endpoint"


def embedder_body(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    return {"name": "quick", "url": endpoint.url, "model": "hashed", "apiKey": KEY, **fields}


async def create_embedder(http: httpx.AsyncClient, endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    response = await http.post("/api/embedders", json=embedder_body(endpoint, **fields))
    assert response.status_code == 201, response.text
    return response.json()
