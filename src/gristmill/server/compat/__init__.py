"""APIs of others that existing clients speak, in front of our bases and items."""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.types import ASGIApp

from gristmill.server import api
from gristmill.server.compat import dify, openai
from gristmill.server.compat.error_shapes import ErrorShapes
from gristmill.server.compat.scim import routes as scim

ROUTERS = (*openai.ROUTERS, dify.router, scim.router)


def create(context: api.ApiContext, pages: Callable[[ASGIApp], ASGIApp]) -> FastAPI:
    """The application of a server process, with the routes of these APIs and errors in their shapes."""
    return api.create(context, pages, more_routers=ROUTERS, outermost=ErrorShapes)


__all__ = ["create"]
