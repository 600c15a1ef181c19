"""The work of `gristmill secrets`, directly in the database and on the key file."""

from typing import Any

from gristmill import faults
from gristmill.cli.open_database import open_database
from gristmill.cli.output import console, new_table, plural
from gristmill.identity import sealing
from gristmill.integrity.rotate_secrets import rotate_sealing_key
from gristmill.settings import Settings
from gristmill.vault import Vault

_KINDS = {
    "connector": "connector credentials",
    "webhook": "webhook secrets",
    "embedder": "embedder keys",
    "response": "stored responses",
}


async def rotate(current: Settings, as_json: bool) -> dict[str, Any]:
    """Rotate the sealing key, and print what was done."""
    faults.arm(current.faults)
    vault = _open_vault(current)
    async with open_database(current) as db:
        result = await rotate_sealing_key(db, vault)
    shown = console(as_json)
    if result.continued:
        shown.print("Continued a rotation that had been interrupted.")
    shown.print(f"{plural(result.resealed, 'secret')} encrypted with key [bold]{result.key_id.hex()}[/bold].")
    if result.unreadable:
        shown.print(
            f"{plural(result.unreadable, 'secret')} can't be decrypted by any key. Enter them again, or restore the lost key."
        )
    for key_id in result.retired:
        shown.print(f"Key {key_id.hex()} is not needed any more{_removal_hint(current)}.")
    if not result.retired:
        shown.print(
            "No key was replaced: the settings name only one. Put a new key before it, give both to every process, and run "
            "this again; docs/how-to/rotate-the-sealing-key.md has the steps."
        )
    return {
        "keyId": result.key_id.hex(),
        "resealed": result.resealed,
        "unreadable": result.unreadable,
        "retired": [key_id.hex() for key_id in result.retired],
        "continued": result.continued,
    }


async def status(current: Settings, as_json: bool) -> dict[str, Any]:
    """Print the keys and what they encrypt."""
    vault = _open_vault(current)
    async with open_database(current) as db, db.connection() as tx:
        counts = await sealing.count_values(tx)
    ids = vault.key_ids
    names = {key_id: "encrypts" if index == 0 else "decrypts" for index, key_id in enumerate(ids)}
    others = {count.key_id for count in counts} - set(ids)
    table = new_table("key", "use", *_KINDS.values(), right=tuple(_KINDS.values()))
    rows: list[dict[str, Any]] = []
    for key_id in (*ids, *sorted(others, key=lambda key_id: key_id or b"")):
        numbers = {
            thing: sum(count.count for count in counts if (count.thing, count.key_id) == (thing, key_id))
            for thing in _KINDS
        }
        use = names.get(key_id, "unknown key") if key_id is not None else "no key id"
        name = key_id.hex() if key_id is not None else "–"
        table.add_row(name, use, *(f"{number:,}" for number in numbers.values()))
        rows.append({"keyId": key_id.hex() if key_id is not None else None, "use": use, "values": numbers})
    console(as_json).print(table)
    if len(ids) > 1:
        console(as_json).print(
            "A rotation is under way, or was interrupted: `gristmill secrets rotate` continues it."
        )
    return {"keys": rows}


def _open_vault(current: Settings) -> Vault:
    return Vault(current.secret_key, current.data_dir, current.secret_key_file)


def _removal_hint(current: Settings) -> str:
    if current.secret_key is not None:
        return ": remove it from secret_key"
    return f": remove it from {current.secret_key_file}" if current.secret_key_file is not None else ""
