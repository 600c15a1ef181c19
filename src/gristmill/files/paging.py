"""A place in a list that can be read in both directions, from either side of an object."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from uuid import UUID

Row = TypeVar("Row")


@dataclass(frozen=True)
class Place:
    """Which part of a list is wanted: `limit` objects after one, or those just before one, in this order of their ids. They need not exist any
    more."""

    limit: int
    order: Literal["asc", "desc"] = "desc"
    after: UUID | None = None
    before: UUID | None = None

    @property
    def is_backwards(self) -> bool:
        """Whether the part ends at an object, so that it is read from there."""
        return self.before is not None and self.after is None

    def parameters(self) -> dict[str, Any]:
        """The parameters of a statement: from where it reads, in which direction, and one more than is wanted."""
        is_descending = self.order == "desc"
        above, below = (self.before, self.after) if is_descending else (self.after, self.before)
        return {
            "down": is_descending != self.is_backwards,
            "above": above,
            "below": below,
            "limit": self.limit + 1,
        }

    def page(self, rows: Sequence[Row]) -> tuple[list[Row], bool]:
        """The rows of the statement in the order of the list, and whether there are more beyond them."""
        wanted = list(rows[: self.limit])
        return wanted[::-1] if self.is_backwards else wanted, len(rows) > self.limit
