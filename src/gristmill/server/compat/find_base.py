"""The base that a client of another API names: by its id in any form, or by its name."""

from uuid import UUID

from gristmill import catalog
from gristmill.catalog import Base, BaseId, Viewer
from gristmill.db import Database
from gristmill.errors import NotFound
from gristmill.operations import guards
from gristmill.server.api import store_ids


async def find_named_base(db: Database, text: str, viewer: Viewer) -> Base:
    """The base of this id or name that the viewer sees."""
    async with db.connection() as tx:
        base_id = _id_of(text)
        if base_id is not None:
            return await guards.require_base(tx, base_id, viewer)
        base = await catalog.find_base_by_name(tx, text, viewer)
    if base is None:
        raise NotFound(f"There is no knowledge base {text!r}.", code="base_not_found")
    return base


def _id_of(text: str) -> BaseId | None:
    try:
        return BaseId(UUID(text.removeprefix(store_ids.STORE)))
    except ValueError:
        return None
