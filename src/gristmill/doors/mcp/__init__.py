"""The door for agents: tools and resources of the Model Context Protocol."""

from gristmill.doors.mcp.http import mount
from gristmill.doors.mcp.tools import create

__all__ = ["create", "mount"]
