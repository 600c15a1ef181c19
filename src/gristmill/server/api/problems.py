"""Errors as RFC 9457 problem documents. `STATUSES` is the only place that maps errors to HTTP statuses."""

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gristmill import validation
from gristmill.errors import (
    Conflict,
    FieldError,
    Forbidden,
    GristmillError,
    Invalid,
    LimitReached,
    NotAuthenticated,
    NotFound,
    PathNotAllowed,
    Permanent,
    PreconditionFailed,
    RequestError,
    TooLarge,
    Transient,
)
from gristmill.operations.reindex import SubtreeActive
from gristmill.server.api.access_rules import allowed_methods

log = logging.getLogger(__name__)

STATUSES: Mapping[type[GristmillError], int] = {
    Invalid: 422,
    NotAuthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    PreconditionFailed: 412,
    TooLarge: 413,
    LimitReached: 429,
    PathNotAllowed: 403,
    Permanent: 422,
    Transient: 503,
}
_FRAMEWORK_PARSE_ERROR = "There was an error parsing the body"
# Codes for requests that the framework rejects before a route runs.
FRAMEWORK_CODES = {
    404: "no_such_route",
    405: "method_not_allowed",
    408: "request_too_slow",
    413: "request_too_large",
}


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    fields: tuple[FieldError, ...] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """A problem document."""
    body: dict[str, Any] = {
        "type": f"urn:gristmill:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "errors": [{"field": field.field, "message": field.message} for field in fields],
    }
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def register(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document."""
    app.add_exception_handler(GristmillError, _handle_known_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_known_error)
    app.add_exception_handler(Exception, _handle_bug)


async def _handle_known_error(request: Request, error: Exception) -> JSONResponse:
    return problem_for(cast(GristmillError | HTTPException, error), request.scope)


def problem_for(error: GristmillError | HTTPException, scope: Mapping[str, Any]) -> JSONResponse:
    """The problem document of an error of ours, or of the framework."""
    if isinstance(error, HTTPException):
        return _framework_problem(error, scope["method"], scope["path"])
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
    retry_after = getattr(error, "retry_after", None)
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(max(1, math.ceil(retry_after.total_seconds() if retry_after else 1)))
    elif status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    fields = error.fields if isinstance(error, RequestError) else ()
    if isinstance(error, SubtreeActive):
        fields = tuple(FieldError(str(item.id), f"{item.title} is {item.status}") for item in error.blocking)
    return problem(status, error.code, error.message, fields=fields, headers=headers)


async def _handle_validation_error(_request: Request, error: Exception) -> JSONResponse:
    validation_errors = cast(RequestValidationError, error).errors()
    if any(entry["type"] == "json_invalid" for entry in validation_errors):
        return problem(
            422,
            "malformed_json",
            "The body is not valid JSON. Send JSON with `content-type: application/json`.",
        )
    fields = tuple(validation.field_errors(validation_errors, cast(RequestValidationError, error).body))
    return problem(422, Invalid.code, validation.sentences(fields), fields=fields)


def _framework_problem(error: HTTPException, method: str, path: str) -> JSONResponse:
    code = FRAMEWORK_CODES.get(error.status_code, "request_refused")
    detail = error.detail
    if error.status_code in (404, 405):
        detail = f"There is no {method} {path}. `/openapi.json` lists all routes."
    elif error.detail == _FRAMEWORK_PARSE_ERROR:
        detail = "The body can't be read. Send JSON in UTF-8, or multipart/form-data for files."
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework would list the methods of one matching route only.
        headers["Allow"] = ", ".join(allowed_methods(path))
    return problem(error.status_code, code, detail, headers=headers)


async def _handle_bug(request: Request, error: Exception) -> JSONResponse:
    log.error(
        "unexpected error in a request",
        exc_info=error,
        extra={"method": request.method, "path": request.url.path},
    )
    return problem(
        500, "internal", "The server failed unexpectedly. Its log has the details; please report them."
    )
