"""Upgrades and moves of the database from the command line, with a line for each step."""

import asyncio
from typing import Any

from gristmill import faults
from gristmill.cli import serve_lock
from gristmill.cli.output import console, plural
from gristmill.db import move as move_database
from gristmill.db import upgrade as upgrade_steps
from gristmill.errors import Conflict, Invalid
from gristmill.settings import Settings
from gristmill.settings.moved_database import read_moved_database

_EMBEDDED = "embedded"


async def upgrade(current: Settings, as_json: bool) -> dict[str, Any]:
    """Upgrade the built-in database of these settings."""
    _require_embedded(current)
    faults.arm(current.faults)
    shown = console(as_json)
    with serve_lock.acquire(current.data_dir):
        result = await upgrade_steps.upgrade_database(
            current.data_dir, lambda step: shown.print(f"[dim]{step} …[/dim]")
        )
    if result is None:
        shown.print("Nothing to do: the built-in PostgreSQL has the version of this release.")
        return {"upgraded": False}
    shown.print(
        f"Upgraded PostgreSQL {result.from_version} to {result.to_version}: {plural(result.rows, 'row')} copied and compared. The old "
        f"one is kept in {result.old}; once all is well, delete it with `gristmill upgrade --drop-old`."
    )
    return {
        "upgraded": True,
        "from": result.from_version,
        "to": result.to_version,
        "rows": result.rows,
        "kept": str(result.old),
        "seconds": round(result.took.total_seconds(), 3),
    }


async def drop_old(current: Settings, as_json: bool) -> dict[str, Any]:
    """Delete the data directories that upgrades and moves kept."""
    with serve_lock.acquire(current.data_dir):
        dropped = await asyncio.to_thread(upgrade_steps.drop_old_copies, current.data_dir)
    console(as_json).print(
        f"Deleted {plural(len(dropped), 'old database')}." if dropped else "No old database is kept."
    )
    return {"dropped": [str(path) for path in dropped]}


async def move(current: Settings, to: str, as_json: bool) -> dict[str, Any]:
    """Move the data of these settings to another database."""
    faults.arm(current.faults)
    shown = console(as_json)

    def report(step: str) -> None:
        shown.print(f"[dim]{step} …[/dim]")

    with serve_lock.acquire(current.data_dir):
        own = None if current.database_url is None else current.database_url.get_secret_value()
        if to == _EMBEDDED:
            if own is None:
                raise Conflict("The data is in the built-in PostgreSQL already.", code="already_there")
            is_setting = read_moved_database(current.data_dir) != own
            result = await move_database.move_to_embedded(current.data_dir, own, report)
            advice = (
                " Now remove the setting database_url, which still names the other one." if is_setting else ""
            )
            shown.print(
                f"Moved {plural(result.rows, 'row')} into {current.data_dir}.{advice} The other database is kept."
            )
        else:
            if not to.startswith(("postgresql://", "postgres://")):
                raise Invalid("Pass --to postgresql://… or --to embedded.", code="bad_option")
            _require_embedded(current)
            result = await move_database.move_to_own(current.data_dir, to, report)
            shown.print(
                f"Moved {plural(result.rows, 'row')}. From now on this data dir uses the other database; the built-in one is kept in "
                f"{result.old}. Workers on other machines need the setting database_url."
            )
    return {"rows": result.rows, "kept": result.old, "seconds": round(result.took.total_seconds(), 3)}


def _require_embedded(current: Settings) -> None:
    if current.database_url is not None:
        raise Conflict(
            "The data is in a PostgreSQL of your own. Upgrade that with its own tools; to move it, bring it back first with "
            "`gristmill move --to embedded`.",
            code="own_database",
        )
