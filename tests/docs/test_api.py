"""docs/reference/api.md has a section for every route, and none for a route that isn't there; its examples are true to the schema."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args

import httpx
import pytest
from starlette.routing import Route

from gristmill import app
from gristmill.catalog import ItemStatus
from gristmill.sources.site_rules import LeftOutReason
from tests.docs.pages import SOURCE, blocks, headings, read, sections

pytestmark = pytest.mark.slow

PAGE = "docs/reference/api.md"

Schema = Mapping[str, Any]


def documented_operations() -> list[str]:
    titles = [title.strip("`") for title in headings(read(PAGE)) if title.startswith("`")]
    return sorted(titles)


async def test_every_route_is_documented_and_every_documented_route_exists(mill: app.Gristmill) -> None:
    paths = mill.api.openapi()["paths"]
    operations_served = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    for route in mill.api.routes:
        if isinstance(route, Route):
            operations_served |= {
                f"{method} {route.path}" for method in route.methods or () if method != "HEAD"
            }
    assert documented_operations() == sorted(operations_served)


async def test_every_documented_get_without_a_parameter_answers(http: httpx.AsyncClient) -> None:
    for method, path in (entry.split() for entry in documented_operations()):
        if method == "GET" and "{" not in path and not path.endswith("/stream"):  # one that never ends
            assert (await http.get(path)).status_code in (200, 303), path


def test_every_example_is_json() -> None:
    for block in blocks(read(PAGE)):
        if block.language == "json":
            json.loads(block.text)


async def test_the_example_requests_are_taken(http: httpx.AsyncClient) -> None:
    """What the page sends, sent: a base, its change, its items, a search."""
    bodies = [json.loads(block.text) for block in blocks(read(PAGE)) if block.language == "json"]
    new_base = next(body for body in bodies if "name" in body and "id" not in body)
    change = next(body for body in bodies if "name" in body and "id" not in body and body != new_base)
    items = next(body for body in bodies if "content" in str(body.get("items")) and "nextCursor" not in body)
    question = next(body for body in bodies if "query" in body)
    base = await http.post("/api/knowledge-bases", json={**new_base, "embedder": "hashed"})
    assert base.status_code == 201, base.text
    url = f"/api/knowledge-bases/{base.json()['id']}"
    assert (await http.patch(url, json=change)).status_code == 200
    assert (await http.post(f"{url}/items", json=items)).status_code == 202
    assert (await http.post(f"{url}/search", json=question)).status_code == 200


# ── examples and the schema ──────────────────────────────────────────────────────────────────────────────


def operations(schema: Schema) -> Iterator[tuple[str, Schema, str]]:
    """Every route, with what the schema says of it and the section that describes it."""
    descriptions = sections(read(PAGE))
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            title = f"{method.upper()} {path}"
            yield title, operation, descriptions[f"`{title}`"]


def resolve_reference(part: Schema, schema: Schema) -> Schema:
    if "$ref" in part:
        return schema["components"]["schemas"][str(part["$ref"]).rpartition("/")[2]]
    return part


def differences(
    example: object, part: Schema, schema: Schema, where: str, *, complete: bool
) -> Iterator[str]:
    """Where an example is not what the schema says; `whole` wants every field, else those that are required."""
    part = resolve_reference(part, schema)
    choices = part.get("anyOf") or part.get("oneOf")
    if choices:
        alternatives = [
            list(differences(example, choice, schema, where, complete=complete)) for choice in choices
        ]
        yield from min(alternatives, key=len)
    elif part.get("type") == "array":
        if not isinstance(example, list):
            yield f"{where} is no list"
            return
        for entry in cast(list[object], example):
            yield from differences(entry, part.get("items", {}), schema, f"{where}[]", complete=complete)
    elif "properties" in part:
        if not isinstance(example, dict):
            yield f"{where} is no object"
            return
        fields = cast(dict[str, object], example)
        required = set(part["properties"]) if complete else set(part.get("required", ()))
        yield from (f"{where}.{name} is missing" for name in sorted(required - fields.keys()))
        yield from (
            f"{where}.{name} is no field" for name in sorted(fields.keys() - part["properties"].keys())
        )
        for name in fields.keys() & part["properties"].keys():
            yield from differences(
                fields[name], part["properties"][name], schema, f"{where}.{name}", complete=complete
            )
    elif (example is None) != (part.get("type") == "null"):
        yield f"{where} is null or is not"


def body_of(content: Mapping[str, Any]) -> Schema | None:
    body_schema = content.get("application/json", {}).get("schema")
    return cast(Schema, body_schema) if body_schema else None


async def test_every_example_has_the_fields_of_the_schema(mill: app.Gristmill) -> None:
    """Of a section's examples the last is the answer; one before it is the request."""
    schema = mill.api.openapi()
    count = 0
    for title, operation, section in operations(schema):
        examples = [json.loads(block.text) for block in blocks(section) if block.language == "json"]
        request_schema = body_of(operation.get("requestBody", {}).get("content", {}))
        response = next(
            (
                answer.get("content", {})
                for status, answer in operation["responses"].items()
                if status[0] == "2"
            ),
            cast(dict[str, Any], {}),
        )
        response_schema = body_of(response)
        if request_schema is not None and examples:
            assert list(differences(examples[0], request_schema, schema, title, complete=False)) == []
            examples = examples[1:]
            count += 1
        if response_schema is not None and examples:
            assert list(differences(examples[-1], response_schema, schema, title, complete=True)) == []
            count += 1
    assert count >= 15


@pytest.mark.parametrize("lie", [{"violations": [], "well": True}, {}, {"violations": None}, []])
async def test_an_example_that_is_not_of_the_schema_is_found(mill: app.Gristmill, lie: object) -> None:
    schema = mill.api.openapi()
    part = schema["components"]["schemas"]["Invariants"]
    assert list(differences({"violations": []}, part, schema, "", complete=True)) == []
    assert list(differences(lie, part, schema, "", complete=True))


async def test_every_parameter_and_field_that_can_be_given_is_named(mill: app.Gristmill) -> None:
    schema = mill.api.openapi()
    for title, operation, section in operations(schema):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                assert re.search(rf"`{parameter['name']}\b", section), f"{title}: {parameter['name']}"
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            for name in resolve_reference(content["schema"], schema)["properties"]:
                assert re.search(rf"[`\"]{name}\b", section), f"{title}: {name} ({kind})"


def test_every_type_status_and_warning_of_an_item_is_described() -> None:
    page = read(PAGE)
    types = re.findall(
        r'type: Literal\["(\w+)"\]', (SOURCE / "server/api/schemas/new_items.py").read_text("utf-8")
    )
    assert len(types) == len(set(types)) >= 5
    for word in (*types, *(str(status) for status in ItemStatus), "empty", "some_failed"):
        assert f"`{word}`" in page, word


def test_every_reason_for_leaving_something_out_is_described_and_counted_somewhere() -> None:
    places = ("sources/sitemap.py", "sources/directory.py")
    documented_reasons = re.findall(
        r"left_out\[(.+?)\] \+=", "".join((SOURCE / place).read_text("utf-8") for place in places)
    )
    reasons = {reason for each in documented_reasons for reason in re.findall(r'"(\w+)"', each)} - {
        "duplicate"
    }
    # Of crawled sites: by the address, by robots.txt, by the response, and by the limits.
    reasons |= {
        *get_args(LeftOutReason),
        "disallowed",
        "noindex",
        "not_rendered",
        "unreachable",
        "over_limit",
    }
    table = sections(read(PAGE))["`GET /api/knowledge-items/{item_id}`"].partition("in `leftOut`")[2]
    descriptions = {
        reason
        for row in re.findall(r"^\| (`.+?`) \| a ", table, re.MULTILINE)
        for reason in re.findall(r"`(\w+)`", row)
    }
    assert descriptions == reasons


def test_every_promise_that_is_checked_is_described() -> None:
    checks = (SOURCE / "integrity/invariants.py").read_text("utf-8")
    promises = set(re.findall(r'"(nothing_\w+)"', checks))
    assert promises
    assert promises == set(re.findall(r"^\| `(nothing_\w+)`", read(PAGE), re.MULTILINE))
