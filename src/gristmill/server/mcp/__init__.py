"""The Model Context Protocol: tools and resources for agents."""

from gristmill.server.mcp.http import mount

__all__ = ["mount"]
