"""The MCP server, with arguments that are checked and errors in our words.

The library ignores arguments that a tool doesn't have, and shows the wording of its own checks to agents. Here an unknown or
invalid argument is a tool error that names it, and a bug shows nothing of its details.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.fastmcp.utilities.func_metadata import FuncMetadata, func_metadata
from mcp.types import ContentBlock, Tool, ToolAnnotations
from pydantic import ValidationError

from gristmill import __version__, validation

log = logging.getLogger(__name__)


# The tools that a caller is shown: those that need one of these roles.
_VISIBLE = {
    "reader": ("reader",),
    "editor": ("reader", "editor"),
    "admin": ("reader", "editor", "admin"),
    "admin_on_behalf": ("reader", "admin"),
    "unknown": ("reader",),
}


class StrictServer(FastMCP[Any]):
    """Serves the tools that `register` was called with."""

    def __init__(self, name: str, *, role: Callable[[], Awaitable[str]], **options: Any) -> None:
        super().__init__(name, **options)
        self._mcp_server.version = __version__  # by default that of the library
        self._role = role  # of the current caller
        self._signatures: dict[str, FuncMetadata] = {}
        self._roles: dict[str, str] = {}

    def register(self, tool: Callable[..., Any], annotations: ToolAnnotations, role: str) -> None:
        """Add a tool, by the name, the docstring and the parameters of its function. Callers below `role` are not shown it."""
        self.add_tool(tool, annotations=annotations, structured_output=True)
        self._signatures[tool.__name__] = func_metadata(tool)
        self._roles[tool.__name__] = role

    async def list_tools(self) -> list[Tool]:
        """The tools that the caller may use; their schemas say that they have no other arguments."""
        visible = _VISIBLE[await self._role()]
        return [
            tool.model_copy(
                update={
                    "description": " ".join((tool.description or "").split()),
                    "inputSchema": {**tool.inputSchema, "additionalProperties": False},
                }
            )
            for tool in await super().list_tools()
            if self._roles[tool.name] in visible
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any]
    ) -> Sequence[ContentBlock] | dict[str, Any]:
        """Call a tool, if it exists and has these arguments."""
        signature = self._signatures.get(name)
        if signature is None:
            known = ", ".join(sorted(self._signatures))
            raise ToolError(f"There is no tool {name[:100]!r}. The tools are: {known}.")
        _check_arguments(name, signature, arguments)
        if self._roles[name] != "reader" and await self._role() == "reader":
            raise ToolError(
                f"{name} needs the role {self._roles[name]}, and your key's role is reader. (role_too_low)"
            )
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            # The library wraps every error of a tool in one of its own.
            if isinstance(error.__cause__, ToolError):
                raise error.__cause__ from None
            log.exception("an MCP tool failed", extra={"tool": name})
            raise ToolError(
                "An internal error occurred. The server's log has the details. (internal)"
            ) from None


def _check_arguments(name: str, signature: FuncMetadata, arguments: dict[str, Any]) -> None:
    known = list(signature.arg_model.model_fields)
    if unknown := sorted(set(arguments) - set(known)):
        has = f"Its arguments are: {', '.join(known)}." if known else "It has none."
        raise ToolError(f"{name} has no argument {unknown[0][:100]!r}. {has} (invalid_request)")
    try:
        signature.arg_model.model_validate(signature.pre_parse_json(arguments))
    except ValidationError as error:
        errors = [{**entry, "loc": ("body", *entry["loc"])} for entry in error.errors(include_url=False)]
        fields = validation.field_errors(errors, arguments)
        raise ToolError(f"{validation.sentences(fields)} (invalid_request)") from None
