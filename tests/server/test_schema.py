"""`/openapi.json` describes every response."""

import inspect
import re
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from bench.schema import count_cases, run
from gristmill import app
from gristmill.server.api.access_rules import RULES, may_change
from gristmill.server.api.error_codes import CODES
from tests.docs.pages import read, rows
from tests.gristmill_process import environment
from tests.thorough import IS_THOROUGH, examples

pytestmark = pytest.mark.slow


def test_the_schema_has_every_code_that_is_documented_and_no_other() -> None:
    documented: dict[int, set[str]] = {400: {"request_refused"}}
    for row in rows(read("docs/reference/errors.md")):
        if row[0].startswith("`") and row[0] != "`file_not_found`":  # files of the UI are not in the schema
            for status in re.findall(r"\d{3}", row[1]):
                documented.setdefault(int(status), set()).add(row[0].strip("`"))
    assert {status: set(codes) for status, codes in CODES.items()} == documented


async def test_every_operation_documents_its_problems_and_authentication(mill: app.Gristmill) -> None:
    schema = mill.api.openapi()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            rule = RULES[method.upper(), path]
            assert {"403", "422", "429", "500", "503"} <= set(operation["responses"]), path
            if rule.audience != "anyone":
                assert "401" in operation["responses"], path
                assert operation["security"] == [{"key": []}, {}], path
                named = {parameter["name"] for parameter in operation.get("parameters", ())}
                assert ("Idempotency-Key" in named) is may_change(method.upper(), path), path
            if method == "patch":
                assert "412" in operation["responses"], path


def test_every_status_that_a_route_sets_is_in_the_schema(mill: app.Gristmill) -> None:
    schema = mill.api.openapi()
    checked = 0
    for route in mill.api.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for status in set(
                re.findall(r"response\.status_code = (\d{3})", inspect.getsource(route.endpoint))
            ):
                for method in route.methods or ():
                    assert status in schema["paths"][route.path][method.lower()]["responses"], route.path
                    checked += 1
    assert checked >= 4


async def test_a_number_is_neither_a_day_nor_a_time(http: httpx.AsyncClient) -> None:
    for path in ("audit", "deletions", "usage"):
        for value in ("0", "0.5", "1700000000"):
            response = await http.get(f"/api/{path}", params={"until": value})
            assert response.status_code == 422, path
            assert "2030-01-31" in response.json()["detail"]


# Their length depends on settings, releases and machines, so they are always one page.
UNPAGED = {"/api/connector-kinds", "/api/embedders", "/api/workers"}


async def test_every_list_is_paged_by_a_cursor(mill: app.Gristmill) -> None:
    schema = mill.api.openapi()
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            if "Page_" in str(answer.get("schema", {}).get("$ref", "")) and path not in UNPAGED:
                named = {parameter["name"] for parameter in operation["parameters"]}
                assert {"limit", "after" if path == "/api/events" else "cursor"} <= named, path


def test_every_response_to_generated_requests_matches_the_schema(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """The short form of `python -m bench.schema`, with the same requests each time."""
    env = environment(data_dir, cache_dir, database_url=database_url)
    ended = run(env, tmp_path, examples(1, 4), "examples,fuzzing,stateful", is_random=IS_THOROUGH)
    assert ended.returncode == 0, ended.stdout
    assert count_cases(ended.stdout) > 100, ended.stdout
