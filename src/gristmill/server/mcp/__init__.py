"""The door for agents: tools and resources of the Model Context Protocol."""

from gristmill.server.mcp.http import mount
from gristmill.server.mcp.tools import create

__all__ = ["create", "mount"]
