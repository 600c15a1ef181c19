"""APIs of others that existing clients speak, in front of our bases and items."""

from gristmill.server.compat.error_shapes import ErrorShapes
from gristmill.server.compat.openai import ROUTERS

__all__ = ["ROUTERS", "ErrorShapes"]
