"""Rotation of the sealing key while servers and workers run.

    1  add      a new key becomes the first of the key file; the old ones still open      (only for a file in the data dir)
    2  reseal   every sealed value is sealed by the first key, in transactions of `BATCH_SIZE` rows
    3  retire   with the tables locked for writers and no value left: the old keys are retired in the database
    4  drop     the old keys leave the key file

Killed anywhere, the next rotation continues: a file of several keys means that one is under way. A process that sealed with an
old key between 2 and 3 is resealed by the next pass; one that does so after 3 is refused (`sealing_key_replaced`) and reads the
file again. So a key is dropped only when nothing needs it. Keys of the settings are added and removed by the operator; the
rotation then does 2 and 3.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gristmill import faults
from gristmill.connectors.push import reseal_push_secrets
from gristmill.connectors.sealed_credentials import reseal_credentials
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.embedding.embedder_store import reseal_keys
from gristmill.errors import Conflict
from gristmill.events.webhook_store import reseal_secrets
from gristmill.identity import sealing
from gristmill.identity.idempotency import reseal_responses
from gristmill.vault import (
    KEY_FILE,
    ResealedRows,
    Vault,
    acquire_key_lock,
    key_id_of,
    new_key,
    read_keys,
    write_keys,
)

BATCH_SIZE = 50
_MAX_PASSES = 20

_Reseal = Callable[[Tx, Vault, Any, int], Awaitable[ResealedRows]]
_RESEALERS: tuple[_Reseal, ...] = (
    reseal_credentials,
    reseal_push_secrets,
    reseal_secrets,
    reseal_keys,
    reseal_responses,
)


@dataclass(frozen=True)
class RotationResult:
    """A finished rotation."""

    key_id: bytes
    resealed: int
    unreadable: int
    retired: tuple[bytes, ...]
    continued: bool


async def rotate_sealing_key(db: Database, vault: Vault) -> RotationResult:
    """Rotate the sealing key, or continue a rotation that was interrupted."""
    _ = vault.key_ids  # creates the first key of a new installation
    file = vault.file
    if file is None or file.name != KEY_FILE:
        return await _reseal_and_retire(db, vault, continued=False)
    lock = await asyncio.to_thread(acquire_key_lock, file)
    try:
        keys = read_keys(file)
        is_under_way = len(keys) > 1
        if not is_under_way:
            write_keys(file, [new_key(), *keys])
            await faults.point("rotate.key_added")
        result = await _reseal_and_retire(db, vault, continued=is_under_way)
        write_keys(file, [key for key in read_keys(file) if key_id_of(key) not in result.retired])
        await faults.point("rotate.key_dropped")
    finally:
        lock.close()
    return result


async def _reseal_and_retire(db: Database, vault: Vault, *, continued: bool) -> RotationResult:
    sealing_id, *old_ids = vault.key_ids
    async with db.transaction() as tx:
        await sealing.restore_keys(tx, [sealing_id])
    resealed, unreadable = await _reseal_all(db, vault, tuple(old_ids))
    return RotationResult(sealing_id, resealed, unreadable, tuple(old_ids), continued)


async def _reseal_all(db: Database, vault: Vault, old_ids: tuple[bytes, ...]) -> tuple[int, int]:
    """Reseal until the old keys can be retired; how many values were resealed, and how many no key opens."""
    resealed = 0
    for _ in range(_MAX_PASSES):
        unreadable = 0
        for reseal in _RESEALERS:
            last: object | None = None
            while True:
                async with db.transaction() as tx:
                    batch = await reseal(tx, vault, last, BATCH_SIZE)
                    await faults.point("rotate.before_commit")
                await faults.point("rotate.batch_sealed")
                resealed += batch.count - batch.unreadable
                unreadable += batch.unreadable
                last = batch.last
                if batch.count < BATCH_SIZE:
                    break
        await faults.point("rotate.sealed")
        if not old_ids or await _retire(db, old_ids):
            await faults.point("rotate.retired")
            return resealed, unreadable
    raise Conflict(
        "Secrets are still being sealed with an old key: another process has it as its first key. "
        "Give every process the new key first, then run this again.",
        code="old_key_in_use",
    )


async def _retire(db: Database, old_ids: tuple[bytes, ...]) -> bool:
    """Retire the keys if no value needs them; False also if the tables could not be locked, so that it is tried again."""
    try:
        async with db.transaction() as tx:
            return await sealing.retire_keys(tx, old_ids)
    except DatabaseUnavailable as error:
        if error.code != "database_busy":
            raise
        return False
