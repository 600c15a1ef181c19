"""`/openapi.json`: the schema that FastAPI derives from the routes, completed with the problems that each route may return,
authentication, the headers of changes, and examples.

One test compares the codes with `docs/reference/errors.md`; another sends requests generated from this schema and fails on any response
that the schema does not describe.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gristmill.server.api.access_rules import RULES, Rule, may_change
from gristmill.server.api.error_codes import CODES

_COMMON_STATUSES = (400, 403, 408, 413, 422, 429, 431, 500, 503)


def install(app: FastAPI) -> None:
    """Make `app` serve the completed schema."""

    def schema_from_cache() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_schema(app)
        return app.openapi_schema

    app.openapi = schema_from_cache


def _build_schema(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["FieldError"] = {
        "type": "object",
        "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
        "required": ["field", "message"],
    }
    for name, example in _examples().items():
        if name in schemas:  # a worker process has fewer routes
            schemas[name]["examples"] = [example]
    for status, codes in CODES.items():
        schemas[f"Problem{status}"] = _problem(status, codes)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key. Local requests need none."}
    }
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            _complete_operation(operation, method.upper(), path, RULES.get((method.upper(), path)))
    return schema


def _examples() -> dict[str, Any]:
    """Examples of requests and responses by schema name, the same as in `docs/reference/api.md`."""
    text = resources.files("gristmill.server.api").joinpath("examples.json").read_text(encoding="utf-8")
    return json.loads(text)


def _problem(status: int, codes: tuple[str, ...]) -> dict[str, Any]:
    """The schema of problem documents with one status and its codes."""
    return {
        "type": "object",
        "description": "A problem document as in RFC 9457.",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer", "const": status},
            "code": {"type": "string", "enum": list(codes)},
            "detail": {"type": "string"},
            "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}},
        },
        "required": ["type", "title", "status", "code", "detail", "errors"],
        "example": {
            "type": f"urn:gristmill:problem:{codes[0]}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "code": codes[0],
            "detail": "What happened, and what to do.",
            "errors": [],
        },
    }


def _complete_operation(operation: dict[str, Any], method: str, path: str, rule: Rule | None) -> None:
    is_change = may_change(method, path)
    statuses: list[int] = [*_COMMON_STATUSES]
    if rule is not None and (rule.audience != "anyone" or path == "/api/session"):
        statuses.append(401)
        operation["security"] = [{"key": []}, {}]
    if path.startswith("/api"):
        statuses += [404, 409]
    if method == "PATCH":
        statuses.append(412)
    for status in sorted(statuses):
        if (path, status) != ("/readyz", 503):  # its 503 is a readiness report
            operation["responses"][str(status)] = _problem_response(status)
    if is_change and rule is not None and rule.audience != "anyone":
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_PARAMETER)


def _problem_response(status: int) -> Mapping[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": f"#/components/schemas/Problem{status}"}}}
    response: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}
        }
    return response


_IDEMPOTENCY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated with the same key within a day is not executed again; its response is repeated.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "5f0c6f1e-8f4e-4f6e-9d57-7c1f4a9f2b11",
}
