"""The Model Context Protocol: tools and resources for agents."""

from gristmill.server.mcp.http import mount
from gristmill.server.mcp.tools import create

__all__ = ["create", "mount"]
