"""The router of the REST routes."""

from fastapi import APIRouter, Depends

from gristmill.server.api.authorise import require_authorisation


class ApiRouter(APIRouter):
    """A router whose routes have an access rule each. The prefix is the whole one: FastAPI would analyse every route a second
    time for an application that includes the router below a prefix of its own, so applications take the routes as they are."""

    def __init__(self, prefix: str = "", *, tag: str) -> None:
        super().__init__(prefix=prefix, tags=[tag], dependencies=[Depends(require_authorisation)])
