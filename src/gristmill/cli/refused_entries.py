"""What `gristmill add` refuses before it asks the server, as entries of `failed`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gristmill.errors import Permanent


def undecodable_entry(index: int, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of `failed` for a path that is not UTF-8: no request can have it."""
    path: str = item.get("path", "")
    try:
        path.encode()
    except UnicodeEncodeError:
        readable = os.fsencode(path).decode("utf-8", "backslashreplace")
        return failed_entry(
            index, readable, "undecodable_name", "Its name is not UTF-8. Rename it, or add its folder."
        )
    return None


def refusal_entry(index: int, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of `failed` for a path where nothing is, or an address that can't be one. The server judges the rest,
    also what this process may not look at."""
    if item["type"] == "file":
        try:
            Path(item["path"]).stat()
        except (FileNotFoundError, NotADirectoryError):
            return failed_entry(index, item["path"], "source_gone", "It does not exist.")
        except (OSError, ValueError):
            return None
    elif "url" in item:
        from gristmill.sources.url import normalise  # imports the libraries of all sources

        try:
            normalise(item["url"])
        except Permanent as error:
            return failed_entry(index, item["url"], error.code, error.message)
    return None


def failed_entry(index: int, path: str, code: str, message: str) -> dict[str, Any]:
    """An entry of `failed`, as the API shows it."""
    return {"index": index, "path": path, "error": {"code": code, "message": message}}
