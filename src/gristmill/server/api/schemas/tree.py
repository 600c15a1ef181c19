"""A window of a base's tree."""

from typing import Self

from gristmill.catalog import TreeRow
from gristmill.server.api.schemas.common import ApiModel
from gristmill.server.api.schemas.items import ItemOut


class TreeRowOut(ItemOut):
    """An item with the number of its children and the titles of its ancestors, the root first."""

    child_count: int
    path: list[str]

    @classmethod
    def from_item(cls, item: TreeRow) -> Self:
        """Show `item`."""
        return cls(**dict(ItemOut.of(item)), child_count=item.child_count, path=item.path)


class TreeOut(ApiModel):
    """A window of rows: its offset, and the total number of rows."""

    items: list[TreeRowOut]
    offset: int
    total: int
