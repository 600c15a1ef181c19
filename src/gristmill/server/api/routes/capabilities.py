"""`/api/capabilities`: what this installation can read, how large it may be, and whether it answers questions."""

from gristmill import __version__
from gristmill.server.api.context import CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.capabilities import CapabilitiesOut

router = ApiRouter("/api", tag="health")


@router.get("/capabilities")
async def get_capabilities(context: CurrentContext) -> CapabilitiesOut:
    """Show what this installation can read, the limits of requests, and the chat model that answers questions."""
    return CapabilitiesOut.of(context.settings, __version__, can_ask=context.asker.model is not None)
