"""What the shell completes besides commands and options: names of bases.

Only a running server is asked, and only for a moment: a key press must not start a database, nor wait for one.
"""

from pathlib import Path
from typing import Any

import typer

_TIMEOUT_SECONDS = 2.0
_MAX_NAMES = 500


def complete_base_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of bases that begin so; none if no server answers."""
    try:
        return [name for name in _base_names(ctx) if name.startswith(incomplete)]
    except Exception:
        return []  # an error message would be written into the line that is being typed


def _base_names(ctx: typer.Context) -> list[str]:
    import httpx

    from gristmill import settings
    from gristmill.cli import serve_lock

    folder, url, key = (_option(ctx, name) for name in ("data_dir", "server_url", "server_key"))
    current = settings.load(data_dir=folder and Path(folder), url=url, api_key=key)
    address = (None if folder else current.url) or serve_lock.find_server_url(current.data_dir)
    if address is None:
        return []
    headers = (
        {} if current.api_key is None else {"Authorization": f"Bearer {current.api_key.get_secret_value()}"}
    )
    response = httpx.get(
        f"{address}/api/knowledge-bases",
        params={"limit": _MAX_NAMES},
        headers=headers,
        timeout=_TIMEOUT_SECONDS,
        trust_env=False,
    )
    return [base["name"] for base in response.raise_for_status().json()["items"]]


def _option(ctx: Any, name: str) -> Any:
    """The value of an option of the command, or of one that comes before it."""
    while ctx is not None:
        if ctx.params.get(name):
            return ctx.params[name]
        ctx = ctx.parent
    return None
