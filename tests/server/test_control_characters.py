"""Control characters and odd values in every parameter of every route: none ends in a server error."""

import json
import re
from typing import Any, cast

import httpx
import pytest

from gristmill import app
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

HOSTILE = ("%00", "%1b", "%7f", "%0a", "%ff", "%ed%a0%80", "a%00b")
UNKNOWN = "00000000-0000-7000-8000-000000000009"
NEVER_ENDS = "/api/events/stream"


def operations(mill: app.Gristmill) -> list[tuple[str, str, dict[str, Any]]]:
    paths: dict[str, dict[str, Any]] = mill.api.openapi()["paths"]
    return [
        (method.upper(), path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path != NEVER_ENDS
    ]


def fill_path(path: str, value: str = UNKNOWN) -> str:
    return re.sub(r"\{\w+\}", value, path)


async def test_no_path_with_control_characters_is_a_server_error(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    for method, path, _ in operations(mill):
        for value in HOSTILE if "{" in path else ():
            answer = await http.request(method, fill_path(path, value))
            assert 400 <= answer.status_code < 500, (method, path, value)


async def test_no_query_with_control_characters_is_a_server_error(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    for method, path, operation in operations(mill):
        for parameter in operation.get("parameters", ()):
            for value in HOSTILE if parameter["in"] == "query" else ():
                answer = await http.request(method, f"{fill_path(path)}?{parameter['name']}={value}")
                assert answer.status_code < 500, (method, path, parameter["name"], value)
                if value in ("%00", "a%00b"):
                    assert answer.status_code == 400, (method, path, parameter["name"])


async def test_no_header_with_odd_values_is_a_server_error(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    names = ("Host", "Origin", "Cookie", "Content-Type", "Authorization", "If-Match", "Last-Event-ID")
    names += ("X-Gristmill-On-Behalf-Of", "X-Forwarded-For", "Accept", "Idempotency-Key", "Traceparent")
    for name in names:
        for value in (b"[", b"\xff\xfe", b"\x00", b"a\x01b", b"", b"{", b";=;", b"9" * 400, b"\xed\xa0\x80"):
            for method, path in (("GET", "/api/knowledge-bases"), ("POST", "/api/knowledge-bases")):
                answer = await http.request(method, path, content=b"{}", headers=[(name.encode(), value)])
                assert answer.status_code < 500, (method, name, value)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff\ud800"])
async def test_no_body_with_text_that_cannot_be_stored_is_a_server_error(
    mill: app.Gristmill, http: httpx.AsyncClient, text: str
) -> None:
    """Every example of the schema, with the text in place of each of its strings."""
    schemas = mill.api.openapi()["components"]["schemas"]
    for method, path, operation in operations(mill):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        name = str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]
        for example in schemas.get(name, {}).get("examples", ()):
            for body in variants(example, text):
                answer = await http.request(
                    method,
                    fill_path(path),
                    content=json.dumps(body),
                    headers={"Content-Type": "application/json"},
                )
                assert 400 <= answer.status_code < 500, (method, path, body)


def variants(value: Any, text: str) -> list[Any]:
    """`value` with `text` in place of one string, once for each."""
    if isinstance(value, str):
        return [text]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return [
            {**fields, key: variant} for key, element in fields.items() for variant in variants(element, text)
        ]
    if isinstance(value, list):
        elements = cast("list[Any]", value)
        return [
            [*elements[:index], variant, *elements[index + 1 :]]
            for index, element in enumerate(elements)
            for variant in variants(element, text)
        ]
    return []


async def test_numbers_and_days_beyond_what_can_be_stored_are_no_server_errors(
    http: httpx.AsyncClient,
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    note = {"items": [{"type": "note", "content": "words"}]}
    (item,) = (await http.post(f"/api/knowledge-bases/{base}/items", json=note)).json()["created"]
    path = f"/api/knowledge-items/{item['id']}"

    async def is_completed() -> bool:
        return (await http.get(path)).json()["status"] == "completed"

    await wait_until(is_completed)
    for index in (2**31, 2**63, 10**22, -1):
        refusal = await http.get(f"{path}/chunks", params={"cursor": f"{item['id']}:{index}"})
        assert (refusal.status_code, refusal.json()["code"]) == (422, "invalid_request"), index
    assert (await http.get("/api/usage", params={"until": "0001-01-01"})).json()["items"] == []


@pytest.mark.parametrize("depth", [250, 900, 100_000])
async def test_json_that_is_nested_too_deeply_is_refused(http: httpx.AsyncClient, depth: int) -> None:
    """The database would take it, and no one could read the item any more."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    for path, body in (
        ("/api/knowledge-bases", '{"name": "c", "metadata": {"a": %s}}'),
        (
            f"/api/knowledge-bases/{base}/items",
            '{"items": [{"type": "note", "content": "x", "metadata": {"a": %s}}]}',
        ),
        ("/api/search", '{"query": "x", "filters": {"metadata": {"a": %s}}}'),
    ):
        content = body % ("[" * depth + "]" * depth)
        refusal = await http.post(path, content=content, headers={"Content-Type": "application/json"})
        assert refusal.status_code in (400, 422), (path, refusal.text)
