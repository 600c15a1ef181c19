"""Which sealing keys the values in the database need, and which keys may seal no more."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.db import Tx
from gristmill.identity.store import queries


@dataclass(frozen=True)
class SealedCount:
    """How many values of one kind a key has sealed; no key id: sealed by a release before 0.2."""

    thing: str
    key_id: bytes | None
    count: int


async def count_values(tx: Tx) -> list[SealedCount]:
    """The sealed values by kind and key."""
    return await queries.many(tx, SealedCount, "count_sealed_values")


async def retire_keys(tx: Tx, ids: Sequence[bytes]) -> bool:
    """Refuse values of these keys from now on; False, and nothing changes, if a value needs one of them. Locks the tables with
    sealed values until the transaction ends, so that no writer is between sealing and writing."""
    await queries.run(tx, "lock_sealed_tables")
    return bool(await queries.values(tx, "retire_sealing_keys", ids=list(ids)))


async def restore_keys(tx: Tx, ids: Sequence[bytes]) -> None:
    """Accept values of these keys again."""
    await queries.run(tx, "restore_sealing_keys", ids=list(ids))
